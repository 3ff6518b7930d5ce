#include "graph/restart.h"

#include <optional>
#include <set>
#include <utility>

#include "core/error.h"
#include "graph/request.h"

namespace hami {
namespace {

bool asks_for_more(const Value* wish) {
  return wish != nullptr && !wish->is_none() && !(wish->is(Value::Kind::kBool) && !wish->as_bool());
}

// What runs again when a request restarts at `target`; nothing if some way from there leads past
// the Restart.
std::optional<RestartTarget> repeated_from(const Plan& plan, int target, int restart) {
  std::map<int, int> num_predecessors;  // by repeated node
  std::set<int> waiting{target};
  while (!waiting.empty()) {
    // Nodes are in topological order, so the first one has met all its predecessors.
    const int index = *waiting.begin();
    waiting.erase(waiting.begin());
    if (index == restart) break;
    const auto& next = plan.nodes[static_cast<size_t>(index)].next;
    if (next.empty()) return {};
    for (int following : next) {
      if (following > restart) return {};
      ++num_predecessors[following];
      waiting.insert(following);
    }
  }
  RestartTarget found{.node = target};
  for (const auto& [node, count] : num_predecessors) found.repeated.push_back({node, count});
  return found;
}

}  // namespace

RestartTargets find_restart_targets(const Plan& plan, int restart) {
  RestartTargets targets;
  for (int target = 0; target < restart; ++target) {
    const NodePlan& node = plan.nodes[static_cast<size_t>(target)];
    if (node.region != plan.nodes[static_cast<size_t>(restart)].region) continue;
    if (auto found = repeated_from(plan, target, restart)) targets[node.name] = std::move(*found);
  }
  return targets;
}

void Restart::set_targets(RestartTargets targets, int first) {
  targets_ = std::move(targets);
  for (const auto& [name, target] : targets_) {
    if (target.node == first) first_ = &target;
  }
  if (first_ == nullptr && targets_.size() == 1) first_ = &targets_.begin()->second;
}

void Restart::start_one(Task& task) {
  auto& visit = static_cast<Visit&>(task);
  const Value* wish = visit.dict.find(keys::restart);
  if (asks_for_more(wish)) {
    const RestartTarget& target = find_target(*wish);
    int64_t& num_rounds = visit.request->num_rounds[static_cast<size_t>(visit.node)];
    if (++num_rounds > max_rounds_) {
      throw Error(ErrorKind::kRequest, "request-too-many-rounds",
                  "the request asked node " + backticked(node_name_) + " for more than " +
                      backticked(std::to_string(max_rounds_)) + " further rounds",
                  "let it end earlier, or raise `max_rounds`");
    }
    visit.restart = &target;
  }
  visit.dict.erase(keys::restart);
  visit.set_result(visit.data());
  visit.finish();
}

const RestartTarget& Restart::find_target(const Value& wish) const {
  if (wish.is(Value::Kind::kBool) && first_ != nullptr) return *first_;
  if (wish.is(Value::Kind::kStr)) {
    if (const auto found = targets_.find(wish.as_text()); found != targets_.end()) {
      return found->second;
    }
  }
  const std::string shown =
      wish.is(Value::Kind::kStr) ? std::string(wish.as_text()) : wish.type_name();
  throw Error(
      ErrorKind::kRequest, "request-restart-target",
      "node " + backticked(node_name_) + " cannot restart the request at " + backticked(shown),
      "set `restart` to one of " + names_of_targets());
}

std::string Restart::names_of_targets() const {
  std::string names;
  for (const auto& [name, target] : targets_)
    names += (names.empty() ? "" : ", ") + backticked(name);
  return names;
}

namespace {

const Param kMaxRounds{.name = "max_rounds",
                       .type = "int",
                       .doc = "most times that a request may go round again",
                       .default_value = Value(int64_t{1000}),
                       .min = 1};

const Registration registration_of_restart{
    BackendClass{.name = "Restart",
                 .family = "flow",
                 .doc = "Sends a request back to the node that it names under `restart`.",
                 .params = {kMaxRounds},
                 .max_children = -1,
                 .is_operator = true,
                 .create = [](Build& build) { return std::make_shared<Restart>(build); }}};

std::shared_ptr<Backend> refuse(Build& build) {
  throw Error(ErrorKind::kBuild, "build-not-a-node",
              backticked(build.expr().name) + " cannot be the backend of a node",
              "write `DagDispatcher` as the `entrypoint` of the pipeline");
}

// The planner turns it into the nodes that it stands for.
const Registration registration_of_loop{
    BackendClass{.name = "Loop",
                 .family = "flow",
                 .doc = "Runs its first child, and again while the second one has a result.",
                 .params = {kMaxRounds},
                 .min_children = 2,
                 .max_children = 2,
                 .is_operator = true,
                 .create = refuse}};

// Every graph runs in it, so it only stands in texts that say so.
const Registration registration_of_dag_dispatcher{
    BackendClass{.name = "DagDispatcher",
                 .family = "scheduling",
                 .doc = "Runs the graph of nodes: the `entrypoint` of every pipeline.",
                 .is_operator = true,
                 .create = refuse}};

}  // namespace
}  // namespace hami

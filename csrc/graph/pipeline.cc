#include "graph/pipeline.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "core/error.h"
#include "graph/restart.h"
#include "schedule/occupied.h"

namespace hami {
namespace {

// An entry that is plain compute gets the usual scheduler around it: one instance with a thread.
std::shared_ptr<Backend> with_scheduler(std::shared_ptr<Backend> compute, const std::string& name,
                                        BuildContext& context) {
  context.bound.emplace_back(name, std::move(compute));
  const auto declared_params = [&](const std::string& name) {
    Dict params;
    for (const Param& param : Registry::instance().find(name)->params) {
      const Key key = Key::intern(param.name);
      const Value* value = context.node_params.find(key);
      params.put(key, value == nullptr ? param.default_value : *value);
    }
    return params;
  };
  const auto expr = [&](const std::string& name, std::vector<Expr> children) {
    Expr made;
    made.name = name;
    made.params = declared_params(name);
    made.children = std::move(children);
    return made;
  };
  Expr entry;
  entry.name = name;
  entry.kind = Expr::Kind::kBound;
  context.scope.add(context.node_name + ".0", build(expr("BackgroundThread", {entry}), context));
  return build(expr("DI", {expr("Batching", {}), expr("InstanceDispatcher", {})}), context);
}

}  // namespace

std::shared_ptr<Pipeline> Pipeline::create(Plan plan) {
  std::shared_ptr<Pipeline> pipeline(new Pipeline(std::move(plan)));
  pipeline->build_nodes();
  return pipeline;
}

Pipeline::Pipeline(Plan plan) : plan_(std::move(plan)) {}

Pipeline::~Pipeline() { close(Duration::zero()); }

void Pipeline::build_nodes() {
  std::vector<std::string> names;
  for (const NodePlan& node : plan_.nodes) names.push_back(node.name);
  trace().set_nodes(std::move(names));
  nodes_.resize(plan_.nodes.size());
  for (size_t i = 0; i < nodes_.size(); ++i) build_node(i, scope_);
  link_nodes();
  collect_needs();
  queues_ = scope_.queues();
}

void Pipeline::build_node(size_t index, Scope& scope) {
  const NodePlan& plan = plan_.nodes[index];
  BuildContext context{.scope = scope, .node_name = plan.name, .node_params = plan.params};
  auto built = build(plan.expr, context);
  scope.keep(built);
  auto entry = scope.find("node." + plan.name);
  if (entry == nullptr) entry = std::move(built);
  if (std::dynamic_pointer_cast<Operator>(entry) == nullptr) {
    entry = with_scheduler(std::move(entry), plan.expr.name, context);
  }
  nodes_[index].plan = &plan;
  nodes_[index].entry = std::dynamic_pointer_cast<Operator>(entry);
}

void Pipeline::link_nodes() {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const NodePlan& plan = *nodes_[i].plan;
    nodes_[i].may_end_without_result |= nodes_[i].entry->traits().may_skip;
    for (int next : plan.next) {
      Node& successor = nodes_[static_cast<size_t>(next)];
      successor.predecessors.push_back(static_cast<int>(i));
      nodes_[i].may_end_without_result |= successor.plan->is_or;
      nodes_[i].entry->add_downstream(successor.entry.get());
      successor.entry->add_upstream(nodes_[i].entry.get());
    }
    if (plan.foreach_target >= 0) {
      const Node& target = nodes_[static_cast<size_t>(plan.foreach_target)];
      nodes_[i].entry->add_downstream(target.entry.get());
      target.entry->add_upstream(nodes_[i].entry.get());
    }
  }
  for (const RegionPlan& region : plan_.regions) {
    nodes_[static_cast<size_t>(region.output)].is_output = true;
  }
  for (size_t i = 0; i < nodes_.size(); ++i) {
    auto* restart = dynamic_cast<Restart*>(nodes_[i].entry.get());
    if (restart == nullptr) continue;
    has_restarts_ = true;
    restart->set_targets(find_restart_targets(plan_, static_cast<int>(i)),
                         nodes_[i].plan->restart_at);
  }
  for (Node& node : nodes_) {
    if (!node.is_join()) continue;
    has_joins_ = true;
    for (int predecessor : node.predecessors) {
      nodes_[static_cast<size_t>(predecessor)].is_kept = true;
    }
    for (const MapEdge& edge : *node.plan->map) {
      if (edge.source >= 0) nodes_[static_cast<size_t>(edge.source)].is_kept = true;
    }
  }
}

void Pipeline::collect_needs() {
  reads_ = {keys::data, keys::context};
  for (const Node& node : nodes_) {
    node.entry->collect_reads(reads_);
    reads_everything_ |= node.entry->traits().reads_everything;
    load_->container_depth += node.entry->container_depth();
    if (!node.plan->map) continue;
    // Also a key mapped from a node may be the caller's own, which only passed through that node.
    for (const MapEdge& edge : *node.plan->map) reads_.push_back(edge.source_key);
  }
  std::ranges::sort(reads_, {}, &Key::text);
  const auto repeated = std::ranges::unique(reads_);
  reads_.erase(repeated.begin(), repeated.end());
}

int Pipeline::find_root(std::string_view name) const {
  for (int root : plan_.regions[0].roots) {
    if (node(root).plan->name == name) return root;
  }
  throw Error(ErrorKind::kRequest, "request-entry-node",
              "the pipeline has no entry node " + backticked(name),
              "name a node without predecessors under `node_name`");
}

int Pipeline::find_node(std::string_view name) const {
  std::string names;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const std::string& known = nodes_[i].plan->name;
    if (known == name) return static_cast<int>(i);
    names += (names.empty() ? "" : ", ") + backticked(known);
  }
  throw Error(ErrorKind::kRequest, "request-unknown-node",
              "the pipeline has no node " + backticked(name), "its nodes are " + names);
}

// --- requests ---

void Pipeline::admit(int64_t num_requests) {
  const int64_t bound = plan_.settings.max_in_flight;
  const int64_t num_before = num_requests_.fetch_add(num_requests, std::memory_order_acq_rel);
  if (is_closed()) {
    throw Error(ErrorKind::kClosed, "closed", "the pipeline is closed",
                "create a new pipeline with `hami.pipe(...)`");
  }
  if (bound > 0 && num_before + num_requests > bound) {
    throw Error(ErrorKind::kQueueFull, "queue-full",
                "the pipeline holds " + std::to_string(num_before) +
                    " requests, and `max_in_flight` is " + std::to_string(bound),
                "try again later, or raise `max_in_flight`");
  }
}

void Pipeline::submit(std::span<const Ref<Request>> requests) {
  const Dispatcher::OwnWalk own_walk;
  if (trace().is_on()) {
    for (const Ref<Request>& request : requests) {
      if (request->trace_id == 0) request->trace_submit(Clock::now());
    }
  }
  const auto num_requests = static_cast<int64_t>(requests.size());
  try {
    admit(num_requests);
    const auto& roots = plan_.regions[0].roots;
    for (const Ref<Request>& request : requests) {
      if (request->root < 0 && roots.size() > 1 && !plan_.settings.fans_out_to_roots) {
        throw Error(ErrorKind::kRequest, "request-entry-node",
                    "the pipeline has " + std::to_string(roots.size()) + " entry nodes",
                    "name one under `node_name`, or set `fanout = \"roots\"`");
      }
    }
    if (!dispatcher_.enter(requests, true)) {
      throw Error(ErrorKind::kQueueFull, "queue-full", "the waiting room of the entry node is full",
                  "try again later, or raise `queue_capacity`");
    }
  } catch (...) {
    remove(num_requests);
    for (const Ref<Request>& request : requests) request->trace_refuse();
    throw;
  }
  for (const Ref<Request>& request : requests) {
    if (request->deadline == TimePoint::max()) continue;
    timer().add(request, request->deadline);
    // It may have been answered before the timer knew of it.
    if (request->is_answered()) timer().remove(*request);
  }
}

void Pipeline::check_may_wait_for(const Request& request) const {
  if (request.deadline != TimePoint::max()) return;
  for (const auto* held = Occupied::innermost(); held != nullptr; held = held->outer()) {
    if (!held->is_of(*load_) || !passes(request, held->node())) continue;
    throw Error(ErrorKind::kRequest, "request-waits-for-itself",
                "a call from inside node " + backticked(held->node()) +
                    " would need that node, and could wait for itself",
                "use `submit` without waiting, or give the call a `deadline_ms`");
  }
}

// Whether the request may come to a node of that name.
bool Pipeline::passes(const Request& request, const std::string& node_name) const {
  std::vector<int> reached = plan_.regions[0].roots;
  if (request.root >= 0) reached = {request.root};
  for (size_t i = 0; i < reached.size(); ++i) {
    const NodePlan& here = plan_.nodes[static_cast<size_t>(reached[i])];
    if (here.name == node_name) return true;
    std::vector<int> next = request.runs_alone ? std::vector<int>() : here.next;
    if (here.foreach_target >= 0) next.push_back(here.foreach_target);
    for (int node : next) {
      if (std::ranges::find(reached, node) == reached.end()) reached.push_back(node);
    }
  }
  return false;
}

void Pipeline::leave(const Request& request) noexcept {
  // Children of a ForEach live in their parent's place.
  if (request.region == 0) remove(1);
}

void Pipeline::leave_queues(const Request& request) noexcept {
  for (const auto& queue : queues_) {
    queue->call_off(&request);
    // Children have deadlines and siblings of their own, and are not told one by one.
    if (plan_.regions.size() > 1) queue->call_off_unwanted();
  }
}

void Pipeline::remove(int64_t num_requests) noexcept {
  const int64_t num_before = num_requests_.fetch_sub(num_requests, std::memory_order_acq_rel);
  if (num_before == num_requests && is_closed()) {
    std::lock_guard lock(mutex_);
    drained_.notify_all();
  }
}

void Pipeline::add_inside(int64_t change) noexcept {
  const int64_t num_before = load_->num_inside.fetch_add(change, std::memory_order_acq_rel);
  if (num_before + change == 0 && is_closed()) {
    std::lock_guard lock(mutex_);
    drained_.notify_all();
  }
  if (change < 0 && load_->num_waiting_nodes.load(std::memory_order_acquire) > 0) {
    for (const Node& node : nodes_) node.entry->reconsider();
  }
}

void Pipeline::add_waiting(int64_t change) noexcept {
  // In this order whoever sees nobody inside also sees who waits.
  if (change > 0) num_in_queues_.fetch_add(change, std::memory_order_acq_rel);
  add_inside(-change);
  if (change < 0) num_in_queues_.fetch_add(change, std::memory_order_acq_rel);
}

// --- the end ---

bool Pipeline::close(Duration timeout) noexcept {
  std::unique_lock lock(mutex_);
  // Whoever comes second waits for nothing, and says how things stand.
  if (is_closing_.exchange(true)) return num_requests() == 0;
  const TimePoint deadline = Clock::now() + timeout;
  // When nobody is inside, those in queues wait for what nobody will do any more.
  bool is_stuck = false;
  const bool is_over = drained_.wait_until(lock, deadline, [&] {
    if (num_requests_.load(std::memory_order_acquire) == 0) return true;
    is_stuck = load_->num_inside.load(std::memory_order_acquire) == 0 &&
               num_in_queues_.load(std::memory_order_acquire) > 0;
    return is_stuck;
  });
  const bool is_drained = is_over && !is_stuck;
  lock.unlock();
  for (const auto& queue : queues_) queue->close();
  std::vector<std::shared_ptr<Operator>> services;
  for (const auto& service : scope_.services()) {
    if (auto node = std::dynamic_pointer_cast<Operator>(service)) services.push_back(node);
  }
  for (const auto& service : services) service->close();
  bool all_ended = true;
  for (const auto& service : services | std::views::reverse) all_ended &= service->join(deadline);
  timer().stop();
  for (const auto& owner : scope_.owners() | std::views::reverse) owner->tear_down();
  scope_.storage()->clear();
  return is_drained && all_ended;
}

std::vector<NodeStats> Pipeline::stats() const {
  std::vector<NodeStats> stats;
  for (const auto& service : scope_.services()) {
    if (auto node = std::dynamic_pointer_cast<Operator>(service)) node->add_stats(stats);
  }
  for (const auto& service : scope_.services()) {
    const auto* profiled = dynamic_cast<const Profiled*>(service.get());
    if (profiled == nullptr) continue;
    RunFigures figures = profiled->figures();
    const auto row = std::ranges::find(stats, figures.node, &NodeStats::node);
    if (row != stats.end()) row->profiles.push_back(std::move(figures));
  }
  return stats;
}

std::vector<std::string> Pipeline::problems() const {
  std::vector<std::string> problems;
  if (is_closed()) problems.emplace_back("the pipeline is closed");
  for (const auto& service : scope_.services()) {
    if (auto node = std::dynamic_pointer_cast<Operator>(service)) node->add_problems(problems);
  }
  return problems;
}

}  // namespace hami

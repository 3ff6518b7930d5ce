#include "graph/dispatcher.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/error.h"
#include "graph/by_node.h"
#include "graph/pipeline.h"
#include "graph/restart.h"

namespace hami {
namespace {

std::exception_ptr missing_result(const std::string& node) {
  return std::make_exception_ptr(
      Error(ErrorKind::kRequest, "request-missing-result",
            "node " + backticked(node) + " ended without a `result`",
            "set `result` in its backend, or give it a successor with `or = true`"));
}

std::exception_ptr missing_key(const NodePlan& node, const std::string& source, const Key& key) {
  return std::make_exception_ptr(
      Error(ErrorKind::kRequest, "request-missing-key",
            "node " + backticked(node.name) + " maps key " + backticked(key.text()) + " from " +
                backticked(source) + ", which does not have it",
            "correct the `map` of node " + backticked(node.name) + ", or provide the key"));
}

// What this thread still has to carry on. Runs in place end inside the start of the next node; a
// list instead of recursion keeps the stack flat however long the chain is.
thread_local Walk* open_walk = nullptr;

// Adds what nodes wrote for the caller; of two values the one that was written later stays.
// `data` stays what the caller put there.
void merge_written(const Dict& from, Dict& into) {
  for (const Dict::Entry& entry : from) {
    if (!entry.is_written() || entry.key == keys::data) continue;
    const auto present = std::ranges::find(into, entry.key, &Dict::Entry::key);
    if (present != into.end() && present->written_at > entry.written_at) continue;
    into.put(entry.key, entry.value, entry.written_at);
  }
}

}  // namespace

// --- the walk ---

Dispatcher::OwnWalk::OwnWalk() : outer_(std::exchange(open_walk, nullptr)) {}

Dispatcher::OwnWalk::~OwnWalk() { open_walk = outer_; }

void Dispatcher::on_finished(Visit& visit) noexcept {
  if (open_walk != nullptr) {
    Visit*& last = open_walk->last;
    (last == nullptr ? open_walk->first : last->next_in_walk) = &visit;
    last = &visit;
    return;
  }
  Walk walk{&visit, &visit};
  open_walk = &walk;
  while (walk.first != nullptr) {
    std::unique_ptr<Visit> finished(walk.first);
    walk.first = finished->next_in_walk;
    if (walk.first == nullptr) walk.last = nullptr;
    finished->request->pipeline->dispatcher().settle(std::move(finished));
  }
  open_walk = nullptr;
}

void Dispatcher::settle(std::unique_ptr<Visit> visit) {
  const Ref<Request> request = visit->request;
  const Node& node = pipeline_.node(visit->node);
  Visits ready;
  const bool is_traced = visit->trace_id != 0;
  const TimePoint begin = is_traced ? Clock::now() : TimePoint();
  if (is_traced) {
    pipeline_.trace().record({.kind = TraceKind::kSettle,
                              .detail = visit->error != nullptr,
                              .node = visit->node,
                              .begin = begin,
                              .request = visit->trace_id});
  }
  if (visit->error != nullptr) {
    const std::exception_ptr error = visit->error;
    FailureSite::Shared site = std::move(visit->site);
    // The caller's objects go before the caller wakes, unless another branch still needs them.
    visit.reset();
    if (request->num_visits.load(std::memory_order_acquire) == 1) request->forget_input();
    // A run that was stopped because it is late has no say in what its caller is told.
    request->is_late() ? request->expire() : void(request->fail(error, std::move(site)));
  } else if (request->is_abandoned()) {
    visit.reset();
  } else if (visit->restart != nullptr && !request->runs_alone) {
    restart(std::move(visit), ready);
  } else if (!node.may_end_without_result && !visit->dict.has(keys::result)) {
    visit.reset();
    request->fail(missing_result(node.plan->name));
  } else {
    advance(std::move(visit), false, ready);
  }
  if (is_traced) trace_departures(begin, ready);
  // One visit has ended and others begin; the counts change once, by the difference.
  const auto num_ready = static_cast<int64_t>(ready.size());
  if (num_ready > 1) {
    request->num_visits.fetch_add(num_ready - 1, std::memory_order_relaxed);
    pipeline_.add_inside(num_ready - 1);
  }
  if (num_ready == 0) end_visits(request, 1);
  if (num_ready > 0) start(std::move(ready));
}

void Dispatcher::end_visits(const Ref<Request>& request, int64_t num_visits) const {
  const bool is_last =
      request->num_visits.fetch_sub(num_visits, std::memory_order_acq_rel) == num_visits;
  if (is_last && !request->is_answered()) {
    if (request->collected != nullptr) {
      request->succeed();
    } else if (request->is_abandoned()) {
      request->abandon();
    } else {
      const RegionPlan& region = pipeline_.region(request->region);
      const int last = request->runs_alone ? request->root : region.output;
      request->fail(missing_result(pipeline_.node(last).plan->name));
    }
  }
  // After the answer: whoever waits for company then sees who is really left.
  pipeline_.add_inside(-num_visits);
}

void Dispatcher::advance(std::unique_ptr<Visit> visit, bool was_skipped, Visits& ready) const {
  const Ref<Request> request = visit->request;
  const Node& node = pipeline_.node(visit->node);
  const bool has_result = visit->dict.has(keys::result);
  if (request->runs_alone) {
    if (!has_result) return;
    request->collected = std::make_unique<Dict>();
    return merge_written(visit->dict, *request->collected);
  }
  if (node.is_kept) {
    request->kept[static_cast<size_t>(visit->node)] = {visit->dict, visit->carried, visit->base,
                                                       visit->rows, visit->round,   was_skipped,
                                                       has_result};
  }
  if (node.is_output && has_result) {
    Dict output = node.plan->next.empty() ? std::move(visit->carried) : visit->carried;
    merge_written(visit->dict, output);
    request->collected = std::make_unique<Dict>(std::move(output));
  }
  const auto& next = node.plan->next;
  for (size_t i = 0; i < next.size(); ++i) {
    if (pipeline_.node(next[i]).is_join()) {
      arrive(request, next[i], ready);
      continue;
    }
    auto onward = std::make_unique<Visit>(request, next[i]);
    const bool is_last = i + 1 == next.size();
    onward->dict = is_last ? std::move(visit->dict) : visit->dict;
    onward->carried = is_last ? std::move(visit->carried) : visit->carried;
    onward->base = visit->base;
    onward->rows = visit->rows;
    onward->round = visit->round;
    follow(std::move(onward), next[i], has_result, ready);
  }
}

void Dispatcher::follow(std::unique_ptr<Visit> visit, int next, bool has_result,
                        Visits& ready) const {
  if (pipeline_.node(next).plan->is_or) {
    // An `or` node has nothing to do where there is a result: the frame passes it by.
    if (has_result) return advance(std::move(visit), true, ready);
  } else if (!has_result) {
    return skip(visit->request, next, ready);
  } else {
    visit->dict.put(keys::data, *visit->dict.find(keys::result));
    visit->dict.erase(keys::result);
  }
  ready.push_back(std::move(visit));
}

void Dispatcher::restart(std::unique_ptr<Visit> visit, Visits& ready) const {
  const Ref<Request> request = visit->request;
  const RestartTarget& target = *visit->restart;
  // All ways from the target led here, so nothing else of the request is between the two.
  for (const auto& [node, num_predecessors] : target.repeated) {
    const auto index = static_cast<size_t>(node);
    if (node != visit->node) request->num_rounds[index] = 0;
    if (!pipeline_.has_joins()) continue;
    request->num_pending[index].store(num_predecessors, std::memory_order_relaxed);
    request->kept[index] = {};
  }
  auto again = std::make_unique<Visit>(request, target.node);
  again->dict = std::move(visit->dict);
  again->dict.erase(keys::result);
  again->carried = std::move(visit->carried);
  again->base = visit->base;
  again->rows = visit->rows;
  again->round = visit->round + 1;
  ready.push_back(std::move(again));
}

void Dispatcher::skip(const Ref<Request>& request, int node, Visits& ready) const {
  for (int next : pipeline_.node(node).plan->next) {
    if (pipeline_.node(next).is_join()) {
      arrive(request, next, ready);
    } else {
      skip(request, next, ready);
    }
  }
}

void Dispatcher::arrive(const Ref<Request>& request, int node, Visits& ready) const {
  auto& num_pending = request->num_pending[static_cast<size_t>(node)];
  if (num_pending.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  const Node& joined = pipeline_.node(node);
  const auto output_of = [&](int predecessor) -> const NodeOutput& {
    return request->kept[static_cast<size_t>(predecessor)];
  };
  const auto with_result = std::ranges::find_if(
      joined.predecessors, [&](int predecessor) { return output_of(predecessor).has_arrived; });
  const bool has_result = with_result != joined.predecessors.end();
  if (joined.plan->is_or && has_result) {
    // Nothing to do: the frame with the result passes by.
    const NodeOutput& output = output_of(*with_result);
    auto passing = std::make_unique<Visit>(request, node);
    passing->dict = output.dict;
    passing->carried = output.carried;
    passing->base = output.base;
    passing->rows = output.rows;
    passing->round = output.round;
    return advance(std::move(passing), true, ready);
  }
  const bool has_run = std::ranges::any_of(
      joined.predecessors, [&](int predecessor) { return !output_of(predecessor).is_absent; });
  const bool is_wanted = joined.plan->is_or ? has_run : has_result;
  if (!is_wanted) return skip(request, node, ready);
  ready.push_back(join(request, node));
}

std::unique_ptr<Visit> Dispatcher::join(const Ref<Request>& request, int node) const {
  const NodePlan& plan = *pipeline_.node(node).plan;
  auto visit = std::make_unique<Visit>(request, node);
  for (const MapEdge& edge : *plan.map) {
    const bool is_input = edge.source == MapEdge::kInput;
    const NodeOutput* source =
        is_input ? nullptr : &request->kept[static_cast<size_t>(edge.source)];
    if (source != nullptr && source->is_absent) continue;
    const Value* value = (is_input ? request->input : source->dict).find(edge.source_key);
    if (value == nullptr) {
      // A node that gave no result may lack other keys as well; like those of a skipped node they
      // are simply absent.
      if (source != nullptr && !source->has_arrived) continue;
      const std::string from = is_input ? "input" : pipeline_.node(edge.source).plan->name;
      visit->error = missing_key(plan, from, edge.source_key);
      break;
    }
    visit->dict.put(edge.key, *value);
  }
  if (const Value* context = request->input.find(keys::context)) {
    visit->dict.put(keys::context, *context);
  }
  for (int predecessor : pipeline_.node(node).predecessors) {
    const NodeOutput& output = request->kept[static_cast<size_t>(predecessor)];
    merge_written(output.carried, visit->carried);
    merge_written(output.dict, visit->carried);
    visit->round = std::max(visit->round, output.round);
  }
  return visit;
}

void Dispatcher::trace_departures(TimePoint begin, const Visits& ready) const {
  const TimePoint now = Clock::now();
  for (const auto& visit : ready) {
    if (visit->trace_id == 0) continue;
    pipeline_.trace().record({.kind = TraceKind::kDispatch,
                              .node = visit->node,
                              .begin = begin,
                              .end = now,
                              .request = visit->trace_id});
  }
}

Dispatcher::Departures Dispatcher::sort_out(const Visits& ready) const {
  Departures departures;
  for (const auto& visit : ready) {
    note_writer(*visit);
    if (visit->error != nullptr) {
      departures.failed.push_back(visit.get());
    } else {
      departures.tasks.push_back(visit.get());
    }
  }
  std::ranges::stable_sort(departures.tasks, {}, node_of);
  return departures;
}

// What a later node writes is later, in graph order, and so is what a later round writes.
void Dispatcher::note_writer(Visit& visit) const {
  visit.dict.set_writer(visit.round * pipeline_.num_nodes() + static_cast<uint64_t>(visit.node) +
                        1);
}

void Dispatcher::start(Visits ready) const {
  if (ready.size() == 1) return start_one(std::move(ready[0]));
  const Departures departures = sort_out(ready);
  for (auto& visit : ready) static_cast<void>(visit.release());
  for_each_node(departures.tasks, [this](int node, std::span<Task* const> tasks) {
    pipeline_.node(node).entry->start(tasks);
  });
  for (Visit* failed : departures.failed) on_finished(*failed);
}

void Dispatcher::start_one(std::unique_ptr<Visit> visit) const {
  note_writer(*visit);
  if (visit->error != nullptr) return on_finished(*visit.release());
  Task* const tasks[] = {visit.release()};
  pipeline_.node(node_of(tasks[0])).entry->start(tasks);
}

}  // namespace hami

// How requests enter the graph: at its roots, or at the one node that they are for.
#include <utility>

#include "graph/by_node.h"
#include "graph/dispatcher.h"
#include "graph/pipeline.h"

namespace hami {

bool Dispatcher::enter(std::span<const Ref<Request>> requests, bool is_bounded) {
  const bool is_traced = pipeline_.trace().is_on();
  const TimePoint begin = is_traced ? Clock::now() : TimePoint();
  Visits ready;
  ready.reserve(requests.size());
  for (const Ref<Request>& request : requests) {
    prepare(*request);
    const size_t num_before = ready.size();
    if (request->runs_alone) {
      ready.push_back(only_visit(request));
    } else {
      enter_roots(request, ready);
    }
    request->num_visits.fetch_add(static_cast<int64_t>(ready.size() - num_before),
                                  std::memory_order_relaxed);
  }
  if (is_traced) trace_departures(begin, ready);
  if (is_bounded) return start_bounded(std::move(ready));
  pipeline_.add_inside(static_cast<int64_t>(ready.size()));
  start(std::move(ready));
  return true;
}

void Dispatcher::enter_roots(const Ref<Request>& request, Visits& ready) const {
  for (int root : pipeline_.region(request->region).roots) {
    if (request->root < 0 || root == request->root) {
      ready.push_back(first_visit(request, root));
    } else {
      skip(request, root, ready);
    }
  }
}

void Dispatcher::prepare(Request& request) const {
  if (pipeline_.has_joins() && !request.runs_alone) {
    request.num_pending = std::make_unique<std::atomic<int>[]>(pipeline_.num_nodes());
    for (size_t i = 0; i < pipeline_.num_nodes(); ++i) {
      const auto& predecessors = pipeline_.node(static_cast<int>(i)).predecessors;
      request.num_pending[i].store(static_cast<int>(predecessors.size()),
                                   std::memory_order_relaxed);
    }
    request.kept.resize(pipeline_.num_nodes());
  }
  if (pipeline_.has_restarts()) {
    request.num_rounds = std::make_unique<int64_t[]>(pipeline_.num_nodes());
  }
}

bool Dispatcher::start_bounded(Visits ready) {
  const auto num_visits = static_cast<int64_t>(ready.size());
  pipeline_.add_inside(num_visits);
  Departures departures;
  Task* single = nullptr;
  std::span<Task* const> tasks(&single, 1);
  if (ready.size() == 1 && ready[0]->error == nullptr) {
    note_writer(*ready[0]);
    single = ready[0].get();
  } else {
    departures = sort_out(ready);
    tasks = departures.tasks;
  }
  if (!admit(tasks)) {
    pipeline_.add_inside(-num_visits);
    return false;
  }
  // The schedulers have the visits, and may have finished them already.
  for (auto& visit : ready) static_cast<void>(visit.release());
  for (Visit* failed : departures.failed) on_finished(*failed);
  return true;
}

bool Dispatcher::admit(std::span<Task* const> tasks) const {
  if (tasks.empty()) return true;
  if (node_of(tasks.front()) == node_of(tasks.back())) {
    return pipeline_.node(node_of(tasks[0])).entry->start_bounded(tasks);
  }
  std::vector<std::pair<Operator*, std::span<Task* const>>> granted;
  bool is_admitted = true;
  for_each_node(tasks, [&](int node, std::span<Task* const> of_node) {
    Operator* entry = pipeline_.node(node).entry.get();
    is_admitted = is_admitted && entry->reserve(of_node.size());
    if (is_admitted) granted.emplace_back(entry, of_node);
  });
  for (const auto& [entry, tasks] : granted) {
    is_admitted ? entry->start_reserved(tasks) : entry->cancel_reservation(tasks.size());
  }
  return is_admitted;
}

std::unique_ptr<Visit> Dispatcher::first_visit(const Ref<Request>& request, int node) const {
  if (pipeline_.node(node).is_join()) return join(request, node);
  auto visit = std::make_unique<Visit>(request, node);
  const bool is_needed_again =
      pipeline_.has_joins() || pipeline_.region(request->region).roots.size() > 1;
  visit->dict = is_needed_again ? request->input : std::move(request->input);
  visit->base = request->base;
  return visit;
}

// The frame is what the caller gave, whatever the `map` of the node says.
std::unique_ptr<Visit> Dispatcher::only_visit(const Ref<Request>& request) const {
  auto visit = std::make_unique<Visit>(request, request->root);
  visit->dict = std::move(request->input);
  visit->base = request->base;
  return visit;
}

}  // namespace hami

// `Dispatcher`: walks requests through the graph. It decides which node is next, applies `map`,
// joins branches and fans out; it holds no lock and no thread. Whoever finished a node's run
// carries the request on.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "graph/request.h"
#include "plan/expr.h"
#include "schedule/operator.h"

namespace hami {

// A node of the running graph.
struct Node {
  const NodePlan* plan = nullptr;
  std::shared_ptr<Operator> entry;
  std::vector<int> predecessors;
  // A later node maps keys from this one, or joins behind it.
  bool is_kept = false;
  // A successor runs where there is no result, or the node is a condition.
  bool may_end_without_result = false;
  bool is_output = false;

  bool is_join() const noexcept { return plan->map.has_value() || predecessors.size() > 1; }
};

// Visits that have ended and still wait to be carried on.
struct Walk {
  Visit* first = nullptr;
  Visit* last = nullptr;
};

class Dispatcher {
 public:
  // For the length of a scope this thread starts walks of its own: user code that runs inside one
  // walk may call a pipeline and wait for the answer.
  class OwnWalk {
   public:
    OwnWalk();
    ~OwnWalk();
    OwnWalk(const OwnWalk&) = delete;
    OwnWalk& operator=(const OwnWalk&) = delete;

   private:
    Walk* outer_;
  };

  explicit Dispatcher(Pipeline& pipeline) : pipeline_(pipeline) {}

  // Starts requests of one region. With `is_bounded` all or none: false when the entry node has
  // no place for all of them.
  bool enter(std::span<const Ref<Request>> requests, bool is_bounded);

  // A node's run is over: the walk goes on, on this thread.
  static void on_finished(Visit& visit) noexcept;

 private:
  using Visits = std::vector<std::unique_ptr<Visit>>;
  // Visits about to start. Those of one node start together, so that they can share a batch.
  struct Departures {
    std::vector<Task*> tasks;    // by node
    std::vector<Visit*> failed;  // their frame could not be made
  };

  void prepare(Request& request) const;
  void enter_roots(const Ref<Request>& request, Visits& ready) const;
  std::unique_ptr<Visit> first_visit(const Ref<Request>& request, int node) const;
  std::unique_ptr<Visit> only_visit(const Ref<Request>& request) const;

  void settle(std::unique_ptr<Visit> visit);
  // The node of this visit is done (or was passed over by an `or` node): moves on to successors.
  void advance(std::unique_ptr<Visit> visit, bool was_skipped, Visits& ready) const;
  void follow(std::unique_ptr<Visit> visit, int next, bool has_result, Visits& ready) const;
  // Sends the request back to an earlier node.
  void restart(std::unique_ptr<Visit> visit, Visits& ready) const;
  // The node cannot run because nothing reaches it.
  void skip(const Ref<Request>& request, int node, Visits& ready) const;
  void arrive(const Ref<Request>& request, int node, Visits& ready) const;
  std::unique_ptr<Visit> join(const Ref<Request>& request, int node) const;
  Departures sort_out(const Visits& ready) const;
  void note_writer(Visit& visit) const;
  // Says in the trace where each of them goes; the decision was made from `begin` to now.
  void trace_departures(TimePoint begin, const Visits& ready) const;
  void start(Visits ready) const;
  void start_one(std::unique_ptr<Visit> visit) const;
  bool start_bounded(Visits ready);
  // All or none: puts the tasks into the queues of their nodes.
  bool admit(std::span<Task* const> tasks) const;
  void end_visits(const Ref<Request>& request, int64_t num_visits) const;

  Pipeline& pipeline_;
};

}  // namespace hami

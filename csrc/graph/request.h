// `Request`: one dict on its way through a pipeline, from submit to its one answer; and `Visit`,
// its stay at one node. A request is shared by its caller, its visits and the timer. It is
// answered exactly once: with the output, or with the first error.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "core/event.h"
#include "core/timer.h"
#include "graph/result_stream.h"
#include "schedule/task.h"

namespace hami {

class Pipeline;
class Request;

// Is told when a request has its answer: once, on any thread, with no lock held.
class Completion {
 public:
  virtual ~Completion() = default;
  virtual void on_answered(Request& request) noexcept = 0;
  // True once nobody wants the answer any more, although the request itself is still open.
  virtual bool is_moot() const noexcept { return false; }
};

// What a node left behind for later nodes that map keys from it.
struct NodeOutput {
  Dict dict;
  Dict carried;
  Ref<Object> base;
  int64_t rows = 1;
  uint64_t round = 0;
  bool is_absent = true;     // the node did not run: nothing to map
  bool has_arrived = false;  // a result came this way, made by the node or passed by it
};

class Request final : public Timed {
 public:
  Request(std::shared_ptr<Pipeline> pipeline, int region)
      : pipeline(std::move(pipeline)), region(region) {}

  // --- set by the submitter, read-only afterwards ---
  const std::shared_ptr<Pipeline> pipeline;
  const int region;
  int root = -1;            // the entry node to start at; -1: the only one, or all with `fanout`
  bool runs_alone = false;  // only the node `root`, which may be any: what it gives is the answer
  Dict input;
  Ref<Object> base;
  int64_t rows = 1;
  int64_t priority = 0;
  TimePoint deadline = TimePoint::max();
  std::shared_ptr<Completion> completion;
  Ref<ResultStream> stream;  // where the output node's partial results go, if anybody listens
  bool may_run_inline = false;
  // Its one waiter calls `answered.pass()`.
  bool takes_turns = false;
  // Its number in the trace of the pipeline; 0 for one that nobody records.
  uint64_t trace_id = 0;

 private:
  // Here, beside the other small members, since thousands of requests may wait.
  enum State : uint8_t { kOpen, kAnswering };
  std::atomic<State> state_{kOpen};

 public:
  // --- the answer, valid once answered ---
  Dict output;
  std::exception_ptr error;
  FailureSite::Shared site;
  Event answered;

  bool is_answered() const noexcept { return state_.load(std::memory_order_acquire) != kOpen; }
  // Nobody wants the outcome: answered already, or the completion is moot.
  bool is_abandoned() const noexcept {
    return is_answered() || is_late() || (completion != nullptr && completion->is_moot());
  }
  bool is_late() const noexcept { return deadline != TimePoint::max() && Clock::now() >= deadline; }
  void succeed() noexcept;
  // Returns whether this was the answer.
  bool fail(std::exception_ptr error, FailureSite::Shared site = {}) noexcept;
  // The deadline has passed.
  void expire() noexcept;
  void on_time() noexcept override { expire(); }
  // The caller has gone. Returns whether there was no answer yet.
  bool cancel() noexcept;
  // Ends a request that nobody waits for: late, or cancelled together with its siblings.
  void abandon() noexcept {
    if (is_late()) {
      expire();
    } else {
      cancel();
    }
  }
  // Lets go of the caller's objects. REQUIRES: no visit needs them any more.
  void forget_input() noexcept;

  // --- its stations in the trace of the pipeline ---
  // It was read from `begin` to now, and is recorded from here on; `parent` is the request that it
  // is an element of. REQUIRES: somebody records; no other thread knows it yet.
  void trace_submit(TimePoint begin, uint64_t parent = 0) noexcept;
  // These do nothing for a request that nobody records.
  void trace_refuse() const noexcept;
  void trace_partial(int node) const noexcept;
  // When the answer began to go back to its caller, for `trace_return`.
  TimePoint trace_time() const noexcept { return trace_id == 0 ? TimePoint() : Clock::now(); }
  void trace_return(TimePoint begin) const noexcept;

  // --- used by the dispatcher while the request is inside ---
  std::atomic<int64_t> num_visits{0};
  // Predecessors still to come, by node; only in graphs with joins.
  std::unique_ptr<std::atomic<int>[]> num_pending;
  std::vector<NodeOutput> kept;
  // How often each Restart has sent it back, by node; only in graphs with one.
  std::unique_ptr<int64_t[]> num_rounds;
  // What the output node wrote; becomes `output` when every branch has ended. Apart from it,
  // because the caller of a request that has failed meanwhile may look there, and by pointer,
  // because a request that waits has none.
  std::unique_ptr<Dict> collected;

 private:
  bool claim_answer() noexcept;
  void announce() noexcept;
  void trace_answer() const noexcept;
};

class Visit final : public Task, public PartialSink {
 public:
  Visit(Ref<Request> request, int node);

  void finish() noexcept override;
  std::function<void()> early_failure(std::exception_ptr error) override {
    return [owner = request, error = std::move(error)] { owner->fail(error); };
  }
  bool is_abandoned() const noexcept override { return request->is_abandoned(); }
  bool push(Value value) override;

  // Where its partial results are heard, or null.
  ResultStream* stream() const noexcept;

  const Ref<Request> request;
  const int node;
  // Keys that earlier nodes wrote and this node does not see; returned to the caller at the end.
  Dict carried;
  // How often a Restart has sent it back.
  uint64_t round = 0;
  Visit* next_in_walk = nullptr;
  // Set by a Restart: where the request goes instead of to the successors.
  const struct RestartTarget* restart = nullptr;
};

}  // namespace hami

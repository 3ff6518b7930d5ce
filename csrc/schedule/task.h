// `Task`: an item on its way through one node's queue. The graph creates it, the node's scheduler
// owns it from `Operator::start` until it calls `finish`, exactly once.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>

#include "core/event.h"
#include "core/failure.h"
#include "core/item.h"

namespace hami {

class Task : public Item {
 public:
  // The run is over: `dict` holds what the backend wrote, or `error` is set. Called on any thread
  // with no lock held; the task may be destroyed by it.
  virtual void finish() noexcept = 0;
  // An action that answers the caller with `error` although the run goes on (what it gives is then
  // dropped, and `finish` still follows). It may be called when the task is gone already.
  virtual std::function<void()> early_failure(std::exception_ptr error) = 0;
  // The caller has an answer already (deadline, cancellation, an error elsewhere), so that a run
  // which has not started is pointless.
  bool is_abandoned() const noexcept override = 0;

  TimePoint arrival{};
  TimePoint deadline = TimePoint::max();
  int64_t priority = 0;
  // Set by the node's queue: the group, and the place in its policy's order (lower runs first).
  size_t group = 0;
  int64_t order = 0;
  // Its neighbours in that queue, by order and by arrival; they belong to the queue.
  struct Links {
    Task* previous = nullptr;
    Task* next = nullptr;
    Task* older = nullptr;
    Task* younger = nullptr;
  };
  Links links;
  // Of stateful nodes: the instance that must run it, and the policy's record of its sequence.
  size_t instance = 0;
  struct SequenceState* sequence = nullptr;
  // Of its request in the trace of the pipeline; 0 while nobody records.
  uint64_t trace_id = 0;
  // A blocking caller without deadline waits on this very thread, so it may run the backend.
  bool may_run_inline = false;
  // The last sign of life of a run that gives partial results; `max` while its consumer is behind.
  std::atomic<TimePoint> alive_at{TimePoint::min()};
  // Filled by the node's scheduler together with `error`.
  FailureSite::Shared site;
};

}  // namespace hami

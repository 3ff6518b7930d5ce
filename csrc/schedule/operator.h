// `Operator`: a backend that takes a task and ends it later, without holding a thread meanwhile.
// Nodes of the graph are operators. This file is the one border between asynchronous graph
// control and synchronous compute.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/backend.h"
#include "schedule/node_stats.h"
#include "schedule/task.h"

namespace hami {

class Operator : public Backend {
 public:
  // Takes over the tasks and calls `finish` on each, now or later, on any thread.
  virtual void start(std::span<Task* const> tasks) = 0;
  // The same for tasks that enter the pipeline here: all or none. False when the waiting room has
  // no place for all of them; they stay the caller's.
  virtual bool start_bounded(std::span<Task* const> tasks) {
    start(tasks);
    return true;
  }

  // The same in two steps, for requests that enter at several nodes at once.
  virtual bool reserve(size_t) { return true; }
  virtual void cancel_reservation(size_t) {}
  virtual void start_reserved(std::span<Task* const> tasks) { start(tasks); }

  // The fewest and most rows of one run of the backends behind it.
  virtual BatchRange run_range() const { return batch_range(); }

  // Whether a predecessor should start another batch (back-pressure). Any thread, no lock.
  virtual bool has_room() const noexcept { return true; }
  // `upstream` stops while this one has no room, and is told when there is room again.
  virtual void add_upstream(Operator*) {}
  virtual void add_downstream(Operator*) {}
  // Looks again at whether a batch should start. Any thread, no lock held.
  virtual void reconsider() noexcept {}

  // Fails what waits with `Closed`, and asks the threads to end.
  virtual void close() noexcept {}
  // Waits for the threads until `deadline`; those still inside a backend then are detached and
  // keep alive what they need. True when all have ended.
  virtual bool join(TimePoint) noexcept { return true; }
  virtual void add_stats(std::vector<NodeStats>&) const {}
  // Adds what is wrong here, in words.
  virtual void add_problems(std::vector<std::string>&) const {}

  // Whatever it does with them, it takes tasks from any thread.
  bool is_shareable() const override { return true; }
  // The adapter to synchronous code: starts a task for every item and waits for all of them.
  void forward(Batch batch) override;
};

}  // namespace hami

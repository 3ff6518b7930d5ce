// The batching decision: wait or run? A function of the queue, the clock, the free instances and
// who is expected back (which `ReturnEstimator` says), and of nothing else: it holds no state,
// takes no lock and reads no clock.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/backend.h"
#include "schedule/batch_queue.h"

namespace hami {

struct BatchState {
  BatchQueue& queue;  // told which of its groups are overdue, otherwise unchanged
  TimePoint now;
  // The ranges of the instances that are free, and of all of them.
  std::span<const BatchRange> free;
  std::span<const size_t> free_instances;  // which of all they are
  std::span<const BatchRange> all;
  // Items inside the pipeline; when all of them are in this queue nobody else can come.
  int64_t num_inside = 0;
  // How long an item waits for company at most.
  Duration timeout{};
  // When all who are inside have come: how many of those who were answered are expected back, and
  // how long after the last change (an arrival, the end of a batch) they are waited for. Of the
  // timeout this uses up only what lies after the end of the last batch: until then the items
  // waited for an instance, not for company.
  int64_t num_expected = 0;
  Duration grace{};
  TimePoint last_change{};
  TimePoint last_end{};
};

// Why a batch ran.
enum class Release { kFull, kTimeout, kEveryoneHere };
inline constexpr size_t kNumReleases = 3;
const char* to_string(Release release) noexcept;

struct Decision {
  enum class Action {
    kIdle,    // nothing can run until something arrives or an instance frees
    kWait,    // look again at `until`
    kRun,     // the first `count` tasks of group `group` that can run, on the free `instance`
    kRefuse,  // the same tasks fit no instance at all: fewer rows than every `min`
  };
  Action action = Action::kIdle;
  TimePoint until = TimePoint::max();
  BatchQueue::Group* group = nullptr;
  size_t count = 0;
  size_t instance = 0;
  Release release = Release::kFull;  // of a wait: what it waits for
};

Decision decide(const BatchState& state);

// The policy of one node, owned by its dispatcher and called under the dispatcher's lock. This one
// is stateless: every instance may run everything.
class BatchPolicy {
 public:
  virtual ~BatchPolicy() = default;
  virtual Decision decide(const BatchState& state) { return hami::decide(state); }
  // False for a task that is passed over: it waits for another one, whatever its place.
  virtual bool can_run(const Task&) const { return true; }
  // Whether it must see every task, so that none may run without going through the queue.
  virtual bool sees_everything() const noexcept { return false; }

  // A task enters the queue; it may be given another group. What this throws is the task's error.
  virtual void on_arrival(Task&, TimePoint) {}
  // A task leaves the queue without running.
  virtual void on_leave(const Task&, TimePoint) {}
  virtual void on_start(std::span<Task* const>) {}
  // The tasks have run, and may hold errors.
  virtual void on_end(std::span<Task* const>, TimePoint) {}
  virtual void collect_reads(std::vector<Key>&) const {}
};

}  // namespace hami

// `ClosedLoop`: callers who send the next request when the last one is answered, so that as many
// requests are under way as there are callers. Each caller brings its thread.
#pragma once

#include <atomic>

#include "load/load_tally.h"
#include "load/load_time.h"

namespace hami {

// What a closed loop calls; from all callers at once.
class ClosedTarget {
 public:
  virtual ~ClosedTarget() = default;
  // Makes call `number` for one caller, waits for its end, and returns its error or null.
  virtual std::exception_ptr call(size_t caller, int64_t number) noexcept = 0;
  // Whether no further call can succeed. Asked after an error.
  virtual bool is_gone() noexcept { return false; }
};

class ClosedLoop {
 public:
  struct Limits {
    int64_t num_requests = std::numeric_limits<int64_t>::max();
    Duration duration = Duration::max();
  };

  ClosedLoop(size_t num_callers, Limits limits, LoadTime& time = MachineTime::instance());

  // Starts the clock, and lets the callers go.
  void begin() noexcept;
  // Waits for `begin`, and calls until there is no time or no request left. Once for each caller.
  void run(size_t caller, ClosedTarget& target) noexcept;
  // No caller sends another request. Any thread.
  void stop() noexcept;

  bool was_cut_short() const noexcept { return was_cut_short_.load(std::memory_order_relaxed); }
  const LoadTally& tally() const noexcept { return tally_; }
  // Those of the calls that have ended; who has not yet counts as failed with `unanswered`.
  LoadFigures figures(const std::exception_ptr& unanswered);

 private:
  bool may_send(TimePoint now) const noexcept {
    return now < end_ && !was_cut_short_.load(std::memory_order_relaxed);
  }

  const Limits limits_;
  LoadTime& time_;
  LoadTally tally_;
  Event has_begun_;
  TimePoint start_{};
  TimePoint end_ = TimePoint::max();
  std::atomic<bool> was_cut_short_{false};
  alignas(64) std::atomic<int64_t> num_taken_{0};
};

}  // namespace hami

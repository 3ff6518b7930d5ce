#include "load/closed_loop.h"

#include <algorithm>

namespace hami {

ClosedLoop::ClosedLoop(size_t num_callers, Limits limits, LoadTime& time)
    : limits_(limits), time_(time), tally_(num_callers) {}

void ClosedLoop::begin() noexcept {
  start_ = time_.now();
  if (limits_.duration != Duration::max()) end_ = start_ + limits_.duration;
  has_begun_.set();
}

void ClosedLoop::run(size_t caller, ClosedTarget& target) noexcept {
  time_.wait(has_begun_, TimePoint::max());
  TimePoint now = time_.now();
  while (may_send(now)) {
    const int64_t number = num_taken_.fetch_add(1, std::memory_order_relaxed);
    if (number >= limits_.num_requests) return;
    const TimePoint sent = time_.now();
    const std::exception_ptr error = target.call(caller, number);
    now = time_.now();
    tally_.add(caller, number, now, now - sent, error);
    if (error != nullptr && target.is_gone()) stop();
  }
}

void ClosedLoop::stop() noexcept {
  was_cut_short_.store(true, std::memory_order_relaxed);
  has_begun_.set();
}

LoadFigures ClosedLoop::figures(const std::exception_ptr& unanswered) {
  const int64_t num_sent =
      std::min(num_taken_.load(std::memory_order_acquire), limits_.num_requests);
  const int64_t num_open = num_sent - tally_.num_ended();
  if (num_open > 0) tally_.add_unanswered(num_open, num_sent - num_open, unanswered);
  return tally_.figures(std::max(tally_.last_end(), start_) - start_);
}

}  // namespace hami

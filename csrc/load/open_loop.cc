#include "load/open_loop.h"

#include <algorithm>

#include "core/error.h"

namespace hami {

void OpenCall::end(const std::exception_ptr& error) const noexcept { loop->end(*this, error); }

bool OpenCall::is_moot() const noexcept { return loop->is_over_.load(std::memory_order_relaxed); }

OpenLoop::OpenLoop(Limits limits, LoadTime& time) : limits_(limits), time_(time), tally_(1) {}

void OpenLoop::run(OpenTarget& target) noexcept {
  Arrivals arrivals(limits_.rate_per_s, limits_.arrivals, limits_.seed);
  start_ = planned_end_ = time_.now();
  bool is_whole = true;
  while (is_whole && num_sent_ < limits_.num_requests) {
    const Duration offset = arrivals.next();
    if (offset >= limits_.duration) {
      planned_end_ = start_ + limits_.duration;
      break;
    }
    planned_end_ = start_ + offset;
    is_whole = !time_.wait(stopped_, planned_end_);
    if (is_whole) is_whole = send(target, num_sent_++, planned_end_);
  }
  // A round of ten seconds takes ten seconds, also when its last request comes before that.
  if (is_whole) is_whole = !time_.wait(stopped_, planned_end_);
  leave();
  if (is_whole) {
    const bool is_endless = limits_.timeout == Duration::max();
    time_.wait(idle_, is_endless ? TimePoint::max() : time_.now() + limits_.timeout);
  }
  is_over_.store(true, std::memory_order_relaxed);
}

bool OpenLoop::send(OpenTarget& target, int64_t number, TimePoint due) noexcept {
  tally_.add_lateness(time_.now() - due);
  const OpenCall call{shared_from_this(), number, due};
  num_inside_.fetch_add(1, std::memory_order_acq_rel);
  const std::exception_ptr refusal = start(target, call);
  if (refusal == nullptr) return true;
  end(call, refusal);
  if (!target.is_gone()) return true;
  stop();
  return false;
}

std::exception_ptr OpenLoop::start(OpenTarget& target, const OpenCall& call) const noexcept {
  try {
    // The sender and this call are inside as well.
    const int64_t num_open = num_inside_.load(std::memory_order_acquire) - 2;
    if (num_open >= limits_.max_in_flight) {
      throw Error(ErrorKind::kQueueFull, "load-in-flight",
                  backticked(std::to_string(num_open)) + " requests have no answer yet",
                  "lower the rate, or raise `max_in_flight`");
    }
    target.start(call);
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

void OpenLoop::end(const OpenCall& call, const std::exception_ptr& error) noexcept {
  const TimePoint now = time_.now();
  if (!is_over_.load(std::memory_order_relaxed)) {
    tally_.add(0, call.number, now, now - call.due, error);
  }
  leave();
}

void OpenLoop::leave() noexcept {
  if (num_inside_.fetch_sub(1, std::memory_order_acq_rel) == 1) idle_.set();
}

void OpenLoop::stop() noexcept {
  stopped_.set();
  idle_.set();
}

LoadFigures OpenLoop::figures(const std::exception_ptr& unanswered) {
  const int64_t num_open = num_sent_ - tally_.num_ended();
  if (num_open > 0) tally_.add_unanswered(num_open, num_sent_ - num_open, unanswered);
  return tally_.figures(std::max(tally_.last_end(), planned_end_) - start_);
}

}  // namespace hami

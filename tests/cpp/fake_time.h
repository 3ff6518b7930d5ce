// A clock for the loops of csrc/load that stands still until somebody waits. One thread.
#pragma once

#include <functional>
#include <map>

#include "load/load_time.h"

namespace hami {

class FakeTime final : public LoadTime {
 public:
  TimePoint now() noexcept override { return now_; }
  // What is to happen meanwhile happens here, in its order.
  bool wait(Event& event, TimePoint time) noexcept override {
    while (!event.is_set() && !actions_.empty() && actions_.begin()->first <= time) {
      const auto action = actions_.extract(actions_.begin());
      now_ = std::max(now_, action.key());
      action.mapped()();
    }
    if (event.is_set()) return true;
    // For ever is over when nothing can happen any more.
    if (time != TimePoint::max()) now_ = std::max(now_, time + oversleep);
    return false;
  }
  void at(TimePoint time, std::function<void()> action) {
    actions_.emplace(time, std::move(action));
  }
  void pass(Duration duration) { now_ += duration; }

  // How late the kernel wakes whoever sleeps.
  Duration oversleep{};

 private:
  TimePoint now_{};
  std::multimap<TimePoint, std::function<void()>> actions_;
};

}  // namespace hami

// `Spin`: how long a thread looks for what it waits for before it sleeps. Sleeping and waking cost
// tens of microseconds, so looking pays where the wait is about as short; it is never worth taking
// a processor from a thread with work. Shared by all waits of one kind, which learn from each
// other.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/event.h"

namespace hami {

class Spin {
 public:
  // About what it costs to put a thread to sleep and to wake it again on an idle processor.
  static constexpr Duration kWakeCost = std::chrono::microseconds(50);

  // `limit`: the longest look.
  explicit Spin(Duration limit) : limit_(limit) {}

  // A forked child begins anew: whoever looks stayed in the parent.
  static void renew() noexcept;

  // Looks until `is_done()`. False when it is time to sleep.
  template <class IsDone>
  bool until(IsDone is_done) noexcept {
    if (is_done()) return true;
    const Duration limit = begin();
    if (limit == Duration::zero()) return false;
    const TimePoint start = Clock::now();
    TimePoint now = start;
    bool has_come = false;
    while (!has_come && now - start < limit) {
      for (int i = 0; i < kLooksPerClock && !has_come; ++i) {
        relax();
        has_come = is_done();
      }
      now = Clock::now();
    }
    end(has_come);
    return has_come;
  }

  // What a thread does between two looks: the processor may do less meanwhile.
  static void relax() noexcept;

 private:
  static constexpr int kLooksPerClock = 32;

  // How long to look; zero where all processors that may spin do, or where it has not paid lately.
  Duration begin() noexcept;
  void end(bool has_come) noexcept;

  const Duration limit_;
  // Rises with each success and falls with each failure.
  std::atomic<int> credit_{kMaxCredit};
  std::atomic<uint32_t> num_refused_{0};
  static constexpr int kMaxCredit = 16;
};

}  // namespace hami

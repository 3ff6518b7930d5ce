#include "core/event.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

namespace hami {
namespace {

// The kernel's own wait: unlike a condition variable it reports that a signal arrived.
long futex_wait(std::atomic<uint32_t>& word, uint32_t expected, const timespec* timeout) {
  return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, timeout, nullptr, 0);
}

}  // namespace

void Event::set() noexcept {
  if (state_.exchange(kIsSet, std::memory_order_acq_rel) == kHasWaiters) wake_sleepers(state_);
}

void Event::set_in_turn() noexcept {
  // Who does not sleep yet needs no waking, and takes no turn.
  uint32_t seen = kIsUnset;
  if (state_.compare_exchange_strong(seen, kIsSet, std::memory_order_acq_rel)) return;
  WakeGate::instance().come(place_, state_, kIsSet);
}

Event::Wake Event::wait(std::optional<TimePoint> deadline) noexcept {
  while (true) {
    uint32_t seen = kIsUnset;
    if (!state_.compare_exchange_strong(seen, kHasWaiters, std::memory_order_acq_rel) &&
        seen == kIsSet) {
      return Wake::kSet;
    }
    timespec timeout{};
    if (deadline) {
      const auto left =
          std::chrono::duration_cast<std::chrono::nanoseconds>(*deadline - Clock::now());
      if (left.count() <= 0) return Wake::kTimeout;
      timeout.tv_sec = left.count() / 1'000'000'000;
      timeout.tv_nsec = left.count() % 1'000'000'000;
    }
    const long waited = futex_wait(state_, kHasWaiters, deadline ? &timeout : nullptr);
    if (is_set()) return Wake::kSet;
    if (waited != 0 && errno == EINTR) return Wake::kInterrupted;
  }
}

}  // namespace hami

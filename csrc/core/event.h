// `Event`: set once, waited for by any number of threads. Waiting sleeps in the kernel until the
// event is set, a deadline passes, or a signal interrupts the thread; it never polls.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "core/ref.h"
#include "core/wake_gate.h"

namespace hami {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
using Duration = Clock::duration;

class Event {
 public:
  enum class Wake { kSet, kTimeout, kInterrupted };

  // Wakes every waiter. Setting it again changes nothing.
  void set() noexcept;
  // Sets it, and lets its waiter go on when its turn comes, if it sleeps. REQUIRES: one waiter,
  // which calls `pass`; not set before.
  void set_in_turn() noexcept;
  // The waiter has seen that the event is set, and has what it needs to go on.
  void pass() noexcept { WakeGate::instance().pass(place_); }
  bool is_set() const noexcept { return state_.load(std::memory_order_acquire) == kIsSet; }

  // Whether somebody sleeps, or is about to.
  bool has_waiters() const noexcept {
    return state_.load(std::memory_order_acquire) == kHasWaiters;
  }

  // For an event of one waiter, which looks at what happened before it waits again. REQUIRES:
  // nobody waits now.
  void reset() noexcept { state_.store(kIsUnset, std::memory_order_release); }

  // Waits until the event is set, `deadline` passes, or a signal handler has run on this thread
  // (so that the caller can let the host language look at Ctrl-C and wait again).
  Wake wait(std::optional<TimePoint> deadline = {}) noexcept;

 private:
  static constexpr uint32_t kIsUnset = 0;
  static constexpr uint32_t kHasWaiters = 1;
  static constexpr uint32_t kIsSet = 2;
  std::atomic<uint32_t> state_{kIsUnset};
  WakeGate::Place place_;
};

}  // namespace hami

// `WakeGate`: threads that are woken one after another instead of all at once. Callers that have
// their answers all want the lock of the host language next: woken together they would only wake up
// to wait again, each for a processor and a change of threads. So each one wakes the next when it
// has got hold of that lock. There is one gate, as there is one lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace hami {

class WakeGate {
 public:
  // The place of one waiter; part of what it waits for.
  class Place {
   private:
    friend class WakeGate;
    enum class State : uint8_t { kOutside, kInLine, kAtGate };
    std::atomic<State> state{State::kOutside};
    Place* before = nullptr;
    Place* after = nullptr;
    std::atomic<uint32_t>* word = nullptr;
  };

  static WakeGate& instance() noexcept;
  // A forked child begins anew: whoever is at the gate, or holds its lock, stayed in the parent.
  static void renew();

  // Sets `word` to `value`; whoever sleeps on it is woken when all who came before have passed. It
  // must pass once, soon after it woke or found that it need not sleep; place and word may be gone
  // then.
  // REQUIRES: somebody sleeps there, or is about to.
  void come(Place& place, std::atomic<uint32_t>& word, uint32_t value) noexcept;
  // Whether somebody has been let in and has not passed yet.
  bool is_occupied() const noexcept { return is_occupied_.load(std::memory_order_relaxed); }
  // Leaves the gate, or the line before it, and lets the next one come. Nothing for a place
  // outside.
  void pass(Place& place) noexcept;

 private:
  void unlink(Place& place) noexcept;

  std::mutex mutex_;
  Place* first_ = nullptr;
  Place* last_ = nullptr;
  std::atomic<bool> is_occupied_{false};
};

// Wakes all who sleep on `word` in the kernel. The word may be gone by then.
void wake_sleepers(std::atomic<uint32_t>& word) noexcept;

}  // namespace hami

#include "core/wake_gate.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

namespace hami {

namespace {

auto* gate = new WakeGate();  // never destroyed: threads may pass until the process ends

}  // namespace

WakeGate& WakeGate::instance() noexcept { return *gate; }

void WakeGate::renew() { gate = new WakeGate(); }

void WakeGate::come(Place& place, std::atomic<uint32_t>& word, uint32_t value) noexcept {
  {
    // Under the lock: the waiter cannot pass, and be gone, before all is said.
    const std::lock_guard lock(mutex_);
    place.word = &word;
    word.store(value, std::memory_order_release);
    if (is_occupied_) {
      place.state = Place::State::kInLine;
      place.before = last_;
      (last_ == nullptr ? first_ : last_->after) = &place;
      last_ = &place;
      return;
    }
    is_occupied_ = true;
    place.state = Place::State::kAtGate;
  }
  wake_sleepers(word);
}

void WakeGate::pass(Place& place) noexcept {
  if (place.state.load(std::memory_order_relaxed) == Place::State::kOutside) return;
  std::atomic<uint32_t>* next = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (place.state == Place::State::kInLine) {
      unlink(place);
    } else if (place.state == Place::State::kAtGate) {
      is_occupied_ = first_ != nullptr;
      if (first_ != nullptr) {
        next = first_->word;
        first_->state = Place::State::kAtGate;
        unlink(*first_);
      }
    }
    place.state = Place::State::kOutside;
  }
  if (next != nullptr) wake_sleepers(*next);
}

void WakeGate::unlink(Place& place) noexcept {
  (place.before == nullptr ? first_ : place.before->after) = place.after;
  (place.after == nullptr ? last_ : place.after->before) = place.before;
}

void wake_sleepers(std::atomic<uint32_t>& word) noexcept {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace hami

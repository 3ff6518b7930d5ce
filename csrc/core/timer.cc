#include "core/timer.h"

#include <pthread.h>

namespace hami {

void Timer::add(const Ref<Timed>& entry, TimePoint time) {
  std::lock_guard lock(state_->mutex);
  if (state_->is_stopped) return;
  if (!thread_.joinable()) {
    thread_ = std::thread([state = state_] {
      pthread_setname_np(pthread_self(), "hami-timer");
      work(*state);
    });
  }
  const auto place = state_->waiting.emplace(time, entry);
  entry->ticket_ = place;
  if (place == state_->waiting.begin()) state_->wake.notify_one();
}

void Timer::remove(Timed& entry) {
  // Declared before the lock, so released after it: it may be the last reference.
  Ref<Timed> dropped;
  std::lock_guard lock(state_->mutex);
  if (!entry.ticket_) return;
  dropped = std::move((*entry.ticket_)->second);
  state_->waiting.erase(*entry.ticket_);
  entry.ticket_.reset();
}

void Timer::stop() {
  std::multimap<TimePoint, Ref<Timed>> dropped;
  {
    std::lock_guard lock(state_->mutex);
    state_->is_stopped = true;
    dropped.swap(state_->waiting);
    for (auto& [time, entry] : dropped) entry->ticket_.reset();
  }
  state_->wake.notify_one();
  if (!thread_.joinable()) return;
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

void Timer::work(State& state) noexcept {
  std::unique_lock lock(state.mutex);
  while (!state.is_stopped) {
    if (state.waiting.empty()) {
      state.wake.wait(lock);
      continue;
    }
    const auto first = state.waiting.begin();
    // A copy: the entry may be gone, with its owner, before the wait ends.
    const TimePoint due = first->first;
    if (due > Clock::now()) {
      state.wake.wait_until(lock, due);
      continue;
    }
    Ref<Timed> entry = std::move(first->second);
    entry->ticket_.reset();
    state.waiting.erase(first);
    lock.unlock();
    entry->on_time();
    entry = nullptr;
    lock.lock();
  }
}

}  // namespace hami

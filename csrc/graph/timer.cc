#include "graph/timer.h"

#include <pthread.h>

#include "graph/request.h"

namespace hami {

void Timer::add(const Ref<Request>& request, TimePoint deadline) {
  std::lock_guard lock(state_->mutex);
  if (state_->is_stopped) return;
  if (!thread_.joinable()) {
    thread_ = std::thread([state = state_] {
      pthread_setname_np(pthread_self(), "hami-timer");
      work(*state);
    });
  }
  const auto place = state_->waiting.emplace(deadline, request);
  request->ticket = place;
  if (place == state_->waiting.begin()) state_->wake.notify_one();
}

void Timer::remove(Request& request) {
  // Declared before the lock, so released after it: it may be the last reference.
  Ref<Request> dropped;
  std::lock_guard lock(state_->mutex);
  if (!request.ticket) return;
  dropped = std::move((*request.ticket)->second);
  state_->waiting.erase(*request.ticket);
  request.ticket.reset();
}

void Timer::stop() {
  std::multimap<TimePoint, Ref<Request>> dropped;
  {
    std::lock_guard lock(state_->mutex);
    state_->is_stopped = true;
    dropped.swap(state_->waiting);
    for (auto& [deadline, request] : dropped) request->ticket.reset();
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
    // A copy: the entry may be gone, with its request, before the wait ends.
    const TimePoint due = first->first;
    if (due > Clock::now()) {
      state.wake.wait_until(lock, due);
      continue;
    }
    Ref<Request> expired = std::move(first->second);
    expired->ticket.reset();
    state.waiting.erase(first);
    lock.unlock();
    expired->expire();
    expired = nullptr;
    lock.lock();
  }
}

}  // namespace hami

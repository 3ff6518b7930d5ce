#include "core/queue.h"

#include <utility>

namespace hami {

void Queue::push(Ref<Waiter> waiter) { add(std::move(waiter), pushing_); }

void Queue::pop(Ref<Waiter> waiter) { add(std::move(waiter), popping_); }

// Whoever comes stands behind those who wait already, and only then is looked at: nobody overtakes.
void Queue::add(Ref<Waiter> waiter, Line& line) {
  std::vector<Ended> ended;
  Lock lock(mutex_);
  if (is_closed_) {
    ended.push_back({std::move(waiter), Outcome::kClosed});
  } else {
    Waiter& newcomer = *waiter;
    newcomer.line_ = &line;
    newcomer.place_ = line.insert(line.end(), std::move(waiter));
    settle(ended);
    if (newcomer.line_ != nullptr) {
      newcomer.has_waited = true;
      by_owner_.emplace(newcomer.owner_, &newcomer);
    }
  }
  end_all(ended, lock);
}

void Queue::settle(std::vector<Ended>& ended) {
  while (true) {
    const bool can_pop = !elements_.empty() && !popping_.empty();
    const bool can_push = elements_.size() < capacity_ && !pushing_.empty();
    if (!can_pop && !can_push) break;
    Ref<Waiter> waiter = take_out(can_pop ? *popping_.front() : *pushing_.front());
    const bool is_wanted = waiter->is_wanted();
    if (is_wanted && can_pop) {
      waiter->value = std::move(elements_.front());
      elements_.pop_front();
    } else if (is_wanted) {
      elements_.push_back(waiter->value);
    }
    ended.push_back({std::move(waiter), is_wanted ? Outcome::kDone : Outcome::kCalledOff});
  }
  size_.store(elements_.size(), std::memory_order_release);
}

Ref<Queue::Waiter> Queue::take_out(Waiter& waiter) {
  if (waiter.has_waited) {
    auto known = by_owner_.find(waiter.owner_);
    while (known->second != &waiter) ++known;  // equal keys stand together
    by_owner_.erase(known);
  }
  Ref<Waiter> taken = std::move(*waiter.place_);
  waiter.line_->erase(waiter.place_);
  waiter.line_ = nullptr;
  return taken;
}

void Queue::call_off(const void* owner) {
  std::vector<Ended> ended;
  Lock lock(mutex_);
  for (auto known = by_owner_.find(owner); known != by_owner_.end();) {
    ended.push_back({take_out(*known->second), Outcome::kCalledOff});
    known = by_owner_.find(owner);
  }
  end_all(ended, lock);
}

void Queue::call_off_unwanted() {
  std::vector<Ended> ended;
  Lock lock(mutex_);
  for (Line* line : {&pushing_, &popping_}) {
    for (auto place = line->begin(); place != line->end();) {
      Waiter& waiter = **place++;
      if (!waiter.is_wanted()) ended.push_back({take_out(waiter), Outcome::kCalledOff});
    }
  }
  end_all(ended, lock);
}

void Queue::close() noexcept {
  std::vector<Ended> ended;
  std::deque<Value> dropped;  // released after the lock
  Lock lock(mutex_);
  is_closed_ = true;
  for (Line* line : {&pushing_, &popping_}) {
    while (!line->empty()) ended.push_back({take_out(*line->front()), Outcome::kClosed});
  }
  dropped.swap(elements_);
  size_.store(0, std::memory_order_release);
  end_all(ended, lock);
}

void Queue::end_all(std::vector<Ended>& ended, Lock& lock) noexcept {
  lock.unlock();
  for (Ended& one : ended) {
    one.waiter->end(one.outcome);
    one.waiter = nullptr;  // with all that it holds, before the next one's work begins
  }
}

}  // namespace hami

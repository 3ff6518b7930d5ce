#include "graph/result_stream.h"

#include <utility>

namespace hami {

void ResultStream::Wakeup::run() const {
  if (waiter != nullptr) waiter->set();
  if (listener) listener();
}

bool ResultStream::push(Value value) {
  {
    std::unique_lock lock(mutex_);
    has_room_.wait(lock, [this] { return buffer_.size() < kCapacity || has_ended_; });
  }
  return push_last(std::move(value));  // one producer: nobody takes the room meanwhile
}

bool ResultStream::push_last(Value value) {
  Wakeup wakeup;
  {
    const std::lock_guard lock(mutex_);
    if (has_ended_) return false;
    buffer_.push_back(std::move(value));
    wakeup = std::exchange(wakeup_, {});
  }
  wakeup.run();
  return true;
}

bool ResultStream::has_room() const {
  std::lock_guard lock(mutex_);
  return buffer_.size() < kCapacity || has_ended_;
}

void ResultStream::end() noexcept {
  Wakeup wakeup;
  {
    std::lock_guard lock(mutex_);
    has_ended_ = true;
    wakeup = std::exchange(wakeup_, {});
  }
  has_room_.notify_all();
  wakeup.run();
}

std::optional<Value> ResultStream::try_take() {
  std::optional<Value> taken;
  {
    std::lock_guard lock(mutex_);
    if (buffer_.empty()) return taken;
    taken = std::move(buffer_.front());
    buffer_.pop_front();
  }
  has_room_.notify_one();
  return taken;
}

bool ResultStream::is_exhausted() const {
  std::lock_guard lock(mutex_);
  return has_ended_ && buffer_.empty();
}

Event::Wake ResultStream::wait() {
  std::shared_ptr<Event> waiter;
  {
    std::lock_guard lock(mutex_);
    if (has_news()) return Event::Wake::kSet;
    if (wakeup_.waiter == nullptr) wakeup_.waiter = std::make_shared<Event>();
    waiter = wakeup_.waiter;
  }
  return waiter->wait();
}

void ResultStream::notify(std::function<void()> listener) {
  std::function<void()> earlier;
  {
    std::lock_guard lock(mutex_);
    if (!has_news()) {
      earlier = std::exchange(wakeup_.listener, std::move(listener));
      listener = nullptr;
    }
  }
  // One listener at a time: whoever asked before looks again.
  if (earlier) earlier();
  if (listener) listener();
}

}  // namespace hami

// `ResultStream`: the partial results of one request on their way to whoever iterates over them. A
// backend pushes, a consumer takes; both may be any thread. It holds a bounded number of values: a
// backend that is ahead of its consumer waits, which suspends the producer.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "core/event.h"
#include "core/value.h"

namespace hami {

class ResultStream final : public RefCounted {
 public:
  static constexpr size_t kCapacity = 64;

  // Adds a value, and waits while the buffer is full. False once the stream has ended: nobody
  // wants the rest.
  bool push(Value value);
  // The same for a value after which none follows: one that is more than fits has a place of its
  // own.
  bool push_last(Value value);
  // Whether `push` would not wait now. It stays so for the only one who pushes.
  bool has_room() const;
  // The request has its answer. What is in the buffer can still be taken.
  void end() noexcept;

  // The next value, or nothing when the buffer is empty.
  std::optional<Value> try_take();
  // Whether the stream has ended and everything was taken.
  bool is_exhausted() const;
  // Waits until there is something to take or the stream has ended.
  Event::Wake wait();
  // Calls `listener` once as soon as there is something to take or the stream has ended; at once
  // if that is so already. Any thread, no lock held.
  void notify(std::function<void()> listener);

 private:
  struct Wakeup {
    std::shared_ptr<Event> waiter;
    std::function<void()> listener;
    void run() const;
  };
  bool has_news() const noexcept { return !buffer_.empty() || has_ended_; }

  mutable std::mutex mutex_;
  std::condition_variable has_room_;
  std::deque<Value> buffer_;
  bool has_ended_ = false;
  Wakeup wakeup_;  // whoever waits for news
};

}  // namespace hami

// `Queue`: a bounded queue of values between requests. Nobody blocks in it: who wants to push into
// a full queue, or to pop from an empty one, leaves a waiter behind, which is called when its turn
// has come, when it is called off, or when the queue closes. Waiters are served in the order in
// which they came. Any thread may call anything; waiters end with no lock held.
#pragma once

#include <atomic>
#include <deque>
#include <list>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "core/value.h"

namespace hami {

class Queue {
 public:
  static constexpr size_t kDefaultCapacity = 1024;

  enum class Outcome {
    kDone,       // the value was put, or taken
    kCalledOff,  // whoever waited wants it no more; nothing was put or taken
    kClosed,     // the same, because the queue is closed
  };

  // One push or one pop. The queue holds it until it calls `end`, exactly once.
  class Waiter : public RefCounted {
   public:
    // `owner` is whom call_off() names: several waiters may have the same one.
    explicit Waiter(const void* owner) : owner_(owner) {}

    // Whether anybody still waits for this. Asked under the lock, right before the value moves: it
    // must be quick and call nobody.
    virtual bool is_wanted() const noexcept { return true; }
    // It is over: `value` was put, or is what was taken.
    virtual void end(Outcome outcome) noexcept = 0;

    Value value;
    // Set by the queue before `end`: it did not find its place at once.
    bool has_waited = false;

   private:
    friend class Queue;
    const void* const owner_;
    std::list<Ref<Waiter>>* line_ = nullptr;  // the one it stands in, and where
    std::list<Ref<Waiter>>::iterator place_;
  };

  explicit Queue(size_t capacity = kDefaultCapacity) : capacity_(capacity) {}

  // Puts `waiter.value` behind what is there, now or when there is room.
  void push(Ref<Waiter> waiter);
  // Takes the first element into `waiter.value`, now or when there is one.
  void pop(Ref<Waiter> waiter);
  // Ends all waiters of `owner`.
  void call_off(const void* owner);
  // Ends all waiters that are not wanted any more.
  void call_off_unwanted();
  // Ends all waiters, those to come included, and drops the elements.
  void close() noexcept;

  // The elements that wait to be taken; never more than the capacity.
  size_t size() const noexcept { return size_.load(std::memory_order_acquire); }
  size_t capacity() const noexcept { return capacity_; }
  // REQUIRES: nobody uses the queue yet.
  void set_capacity(size_t capacity) noexcept { capacity_ = capacity; }

 private:
  using Lock = std::unique_lock<std::mutex>;
  using Line = std::list<Ref<Waiter>>;
  struct Ended {
    Ref<Waiter> waiter;
    Outcome outcome;
  };

  void add(Ref<Waiter> waiter, Line& line);
  // Moves elements and waiters until nothing can move.
  void settle(std::vector<Ended>& ended);
  Ref<Waiter> take_out(Waiter& waiter);
  static void end_all(std::vector<Ended>& ended, Lock& lock) noexcept;

  size_t capacity_;
  std::mutex mutex_;
  std::deque<Value> elements_;
  Line pushing_;
  Line popping_;
  // Those in the lines who did not find their place at once.
  std::unordered_multimap<const void*, Waiter*> by_owner_;
  bool is_closed_ = false;
  std::atomic<size_t> size_{0};
};

}  // namespace hami

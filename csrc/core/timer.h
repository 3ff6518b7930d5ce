// `Timer`: one thread that calls things at their time: deadlines of requests, even while every
// instance is busy, and looks at runs that take too long. The thread starts with the first entry;
// a pipeline that needs no timer never has it.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "core/event.h"

namespace hami {

class Timed;

class Timer {
 public:
  using Ticket = std::multimap<TimePoint, Ref<Timed>>::iterator;

  ~Timer() { stop(); }
  // Calls `entry.on_time()` at `time`, on the timer's thread. REQUIRES: it is not in a timer.
  void add(const Ref<Timed>& entry, TimePoint time);
  // Forgets the entry, if it has not been called.
  void remove(Timed& entry);
  // Ends the thread and forgets all entries. Safe on the timer's own thread.
  void stop();

 private:
  // Outlives the Timer where the thread itself is what stopped it.
  struct State {
    std::mutex mutex;
    std::condition_variable wake;
    std::multimap<TimePoint, Ref<Timed>> waiting;
    bool is_stopped = false;
  };
  static void work(State& state) noexcept;

  std::shared_ptr<State> state_ = std::make_shared<State>();
  std::thread thread_;
};

// Something with a time of its own.
class Timed : public RefCounted {
 public:
  // Called once, with no lock held.
  virtual void on_time() noexcept = 0;

 private:
  friend class Timer;
  std::optional<Timer::Ticket> ticket_;  // guarded by the timer
};

}  // namespace hami

// `Timer`: one thread per pipeline that answers deadlines on time, even while every instance is
// busy. It starts with the first deadline; a pipeline without deadlines never has it.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "core/event.h"

namespace hami {

class Request;

class Timer {
 public:
  using Ticket = std::multimap<TimePoint, Ref<Request>>::iterator;

  ~Timer() { stop(); }
  // Calls `request.expire()` at its deadline, on the timer's thread.
  void add(const Ref<Request>& request, TimePoint deadline);
  // Forgets the request, which has been answered.
  void remove(Request& request);
  // Ends the thread and forgets all requests. Safe on the timer's own thread.
  void stop();

 private:
  // Outlives the Timer where the thread itself is what stopped it.
  struct State {
    std::mutex mutex;
    std::condition_variable wake;
    std::multimap<TimePoint, Ref<Request>> waiting;
    bool is_stopped = false;
  };
  static void work(State& state) noexcept;

  std::shared_ptr<State> state_ = std::make_shared<State>();
  std::thread thread_;
};

}  // namespace hami

// Answers on their way to Python when no thread waits for them: `AnswerCallback` ends the Python
// side of one request, on the thread that answers it, or through an `AnswerQueue` on the thread of
// an event loop. `DictsInFlight` are the dicts of the open requests of one pipeline.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <mutex>
#include <unordered_set>
#include <vector>

#include "bind/free_threading.h"
#include "bind/gil.h"
#include "graph/request.h"

namespace hami::bind {

// Any thread that holds the GIL.
class DictsInFlight {
 public:
  // Throws Error when the dict is in the pipeline already.
  void claim(PyObject* dict);
  void forget(PyObject* dict);

 private:
  GilMutex mutex_;
  std::unordered_set<PyObject*> dicts_;
};

// The end of a request that the thread of an event loop must hear of.
class QueuedAnswer : public Completion {
 public:
  // Called once, after the request has its answer. REQUIRES: the GIL.
  virtual void deliver(Request& request) noexcept = 0;
};

// The exception object for a request that has failed, with what failed in the pipeline in the log;
// the second form is for one that did not get into it. A new reference, never null. REQUIRES: the
// GIL.
PyObject* failure_object(const Request& request, const std::exception_ptr& error) noexcept;
PyObject* failure_object(const std::exception_ptr& error,
                         const FailureSite::Shared& site = {}) noexcept;

// The answers for one event loop. Whoever answers a request leaves it here without the GIL, which
// the loop holds most of the time, and wakes the loop once for all that come until it looks.
class AnswerQueue : public std::enable_shared_from_this<AnswerQueue> {
 public:
  // Throws the Python error OSError where no descriptor is left. REQUIRES: the GIL.
  AnswerQueue();
  ~AnswerQueue();
  AnswerQueue(const AnswerQueue&) = delete;
  AnswerQueue& operator=(const AnswerQueue&) = delete;

  // Readable while there are answers.
  int descriptor() const noexcept { return descriptor_; }
  // False once closed. The loop may hear of an answer that is not `urgent` when all of its batch
  // are there. REQUIRES: the completion of the request is a QueuedAnswer.
  bool push(Request& request, bool is_urgent) noexcept;
  // Calls back for all that are there, on this thread. REQUIRES: the GIL.
  void deliver();
  // Takes no further answer, and delivers those that are there. REQUIRES: the GIL.
  void close();

 private:
  std::vector<Ref<Request>> take();
  // Makes the descriptor readable, unless it is or there is nothing to take.
  void wake() noexcept;

  const int descriptor_;
  std::mutex mutex_;
  std::vector<Ref<Request>> answered_;
  bool is_readable_ = false;
  bool is_closed_ = false;
};

// Merges what a request gave into its dict, then calls `on_done(error)`.
class AnswerCallback final : public QueuedAnswer {
 public:
  // `in_flight` keeps the pipeline alive. `queue` may be null: then any thread calls back.
  AnswerCallback(std::shared_ptr<DictsInFlight> in_flight, PyObject* dict, PyObject* on_done,
                 std::shared_ptr<AnswerQueue> queue)
      : in_flight_(std::move(in_flight)),
        dict_(hold(dict)),
        on_done_(hold(on_done)),
        queue_(std::move(queue)) {}
  void on_answered(Request& request) noexcept override;
  void deliver(Request& request) noexcept override;

 private:
  std::shared_ptr<DictsInFlight> in_flight_;
  Ref<PyHandle> dict_;
  Ref<PyHandle> on_done_;
  std::shared_ptr<AnswerQueue> queue_;
};

// What Python holds of a queue: when it drops it, the queue is closed.
class AnswerQueueObject {
 public:
  ~AnswerQueueObject() { queue_->close(); }
  int fileno() const noexcept { return queue_->descriptor(); }
  void deliver() const { queue_->deliver(); }
  const std::shared_ptr<AnswerQueue>& queue() const noexcept { return queue_; }

 private:
  std::shared_ptr<AnswerQueue> queue_ = std::make_shared<AnswerQueue>();
};

void define_answer_queue(pybind11::module_& module);

}  // namespace hami::bind

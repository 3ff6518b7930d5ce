#include "bind/answers.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

#include "bind/errors.h"
#include "bind/method.h"
#include "bind/owned.h"
#include "bind/request_reader.h"
#include "core/answer_round.h"
#include "core/error.h"

namespace py = pybind11;

namespace hami::bind {
namespace {

int new_descriptor() {
  const int descriptor = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (descriptor >= 0) return descriptor;
  PyErr_SetFromErrno(PyExc_OSError);
  throw py::error_already_set();
}

}  // namespace

void DictsInFlight::claim(PyObject* dict) {
  const std::lock_guard lock(mutex_);
  if (dicts_.insert(dict).second) return;
  throw Error(ErrorKind::kRequest, "request-in-flight", "this dict is in a pipeline already",
              "wait for its answer, or submit a copy");
}

void DictsInFlight::forget(PyObject* dict) {
  const std::lock_guard lock(mutex_);
  dicts_.erase(dict);
}

AnswerQueue::AnswerQueue() : descriptor_(new_descriptor()) {}
AnswerQueue::~AnswerQueue() { ::close(descriptor_); }

bool AnswerQueue::push(Request& request, bool is_urgent) noexcept {
  bool is_first = false;
  {
    const std::lock_guard lock(mutex_);
    if (is_closed_) return false;
    is_first = answered_.empty();
    answered_.emplace_back(&request);
  }
  const bool waits =
      !is_urgent &&
      (!is_first || AnswerRound::at_end([self = shared_from_this()] { self->wake(); }));
  if (!waits) wake();
  return true;
}

void AnswerQueue::wake() noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (is_readable_ || answered_.empty()) return;
    is_readable_ = true;
  }
  const uint64_t one = 1;
  static_cast<void>(!::write(descriptor_, &one, sizeof(one)));
}

std::vector<Ref<Request>> AnswerQueue::take() {
  uint64_t count = 0;
  // Before the answers are taken: whoever comes after that makes it readable again.
  static_cast<void>(!::read(descriptor_, &count, sizeof(count)));
  std::vector<Ref<Request>> taken;
  const std::lock_guard lock(mutex_);
  is_readable_ = false;
  taken.swap(answered_);
  return taken;
}

void AnswerQueue::deliver() {
  drain_released();
  for (const Ref<Request>& request : take()) {
    static_cast<QueuedAnswer&>(*request->completion).deliver(*request);
  }
}

void AnswerQueue::close() {
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
  }
  deliver();
}

PyObject* failure_object(const std::exception_ptr& error,
                         const FailureSite::Shared& site) noexcept {
  PyObject* made = exception_object(error, site);
  // When it cannot be made, whatever kept it from being made is the answer: there must be one.
  return made == nullptr ? take_exception() : made;
}

PyObject* failure_object(const Request& request, const std::exception_ptr& error) noexcept {
  PyObject* made = failure_object(error, request.site);
  if (request.error != nullptr) report_failure(made, request.site);
  return made;
}

void AnswerCallback::on_answered(Request& request) noexcept {
  if (queue_ != nullptr && queue_->push(request, true)) return;
  const GilAcquire gil;
  deliver(request);
}

void AnswerCallback::deliver(Request& request) noexcept {
  const TimePoint begin = request.trace_time();
  std::exception_ptr failure = request.error;
  if (failure == nullptr) failure = error_of([&] { write_output(request, dict_->get()); });
  in_flight_->forget(dict_->get());
  const Owned error(failure == nullptr ? Py_NewRef(Py_None) : failure_object(request, failure));
  request.trace_return(begin);
  PyObject* const args[] = {error.get()};
  const Owned returned(call_python(on_done_->get(), args, 1));
  // Nobody is there to catch what a callback raises.
  if (!returned) survive_finalization([&] { PyErr_WriteUnraisable(on_done_->get()); });
  // The request may outlive its answer in the caller's hands; the future must not outlive it there.
  dict_ = nullptr;
  on_done_ = nullptr;
  in_flight_ = nullptr;
  queue_ = nullptr;
}

void define_answer_queue(py::module_& module) {
  py::class_<AnswerQueueObject>(module, "AnswerQueue", "The answers for one event loop.")
      .def(py::init<>())
      .def("fileno", method(&AnswerQueueObject::fileno), "Readable while there are answers.")
      .def("deliver", method(&AnswerQueueObject::deliver),
           "Calls back for every answer that is there, on this thread.");
}

}  // namespace hami::bind

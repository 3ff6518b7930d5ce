#include "bind/pipeline_object.h"

#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bind/answers.h"
#include "bind/caller_turn.h"
#include "bind/convert.h"
#include "bind/errors.h"
#include "bind/fork_guard.h"
#include "bind/gil.h"
#include "bind/method.h"
#include "bind/owned.h"
#include "bind/pipeline_rows.h"
#include "bind/plan_reader.h"
#include "bind/request_object.h"
#include "bind/request_reader.h"
#include "bind/trace_rows.h"
#include "core/error.h"
#include "graph/pipeline.h"

namespace py = pybind11;

namespace hami::bind {
namespace {

Duration to_duration(double seconds) {
  // Years are as good as for ever, and do not overflow.
  constexpr double kMost = 1e9;
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(std::min(std::max(seconds, 0.0), kMost)));
}

class PipelineObject : public std::enable_shared_from_this<PipelineObject> {
 public:
  explicit PipelineObject(const py::dict& plan) {
    Plan read = read_plan(plan);
    std::exception_ptr error;
    {
      // Loading a model may take long; other threads of the interpreter go on meanwhile.
      const GilRelease no_gil;
      error = error_of([&] { pipeline_ = Pipeline::create(std::move(read)); });
    }
    if (error != nullptr) raise(error);
  }
  ~PipelineObject() {
    if (is_in_child()) {
      // The threads exist in the parent only; there is nothing to end here, and waiting would hang.
      new std::shared_ptr<Pipeline>(std::move(pipeline_));
      return;
    }
    close(0);
    const GilRelease no_gil;
    pipeline_.reset();
  }

  // Runs one dict and waits for its answer.
  void call(PyObject* dict) {
    check_is_dict(dict);
    drain_released();
    check_is_not_in_child();
    const std::exception_ptr refusal = error_of([&] { in_flight_.claim(dict); });
    if (refusal != nullptr) raise(refusal);
    Ref<Request> request;
    const std::exception_ptr error = error_of([&] {
      request = read_request(pipeline_, dict);
      request->may_run_inline = request->deadline == TimePoint::max();
      request->takes_turns = true;
      pipeline_->check_may_wait_for(*request);
      pipeline_->submit({&request, 1});
    });
    if (error != nullptr) {
      if (request) request->trace_refuse();
      in_flight_.forget(dict);
      raise(error);
    }
    const bool ran_in_place = request->answered.is_set();
    const std::exception_ptr interruption = ran_in_place ? nullptr : wait({&request, 1});
    request->answered.pass();
    py::object failure = finish(*request, dict);
    if (ran_in_place) CallerTurn::end_call();
    raise_any(interruption, failure);
  }

  py::list call_many(py::list dicts) {
    const py::tuple held(dicts);  // the caller may change its list meanwhile
    for (py::handle dict : held) check_is_dict(dict.ptr());
    const auto requests = read(held);
    start(held, requests, [&] {
      for (const Ref<Request>& request : requests) pipeline_->check_may_wait_for(*request);
      pipeline_->submit(requests);
    });
    const std::exception_ptr interruption = wait(requests);
    py::object first_failure;
    for (size_t i = 0; i < requests.size(); ++i) {
      py::object failure =
          finish(*requests[i], PyTuple_GET_ITEM(held.ptr(), static_cast<Py_ssize_t>(i)));
      if (!first_failure) first_failure = std::move(failure);
    }
    raise_any(interruption, first_failure);
    return dicts;
  }

  RequestObject submit(const py::object& dict, const py::object& on_done, bool is_streamed,
                       const std::optional<std::string>& node, const py::object& queue) {
    check_is_dict(dict.ptr());
    const py::tuple dicts = py::make_tuple(dict);
    std::optional<int> only_node;
    const auto error = error_of([&] {
      if (node) only_node = pipeline_->find_node(*node);
    });
    if (error != nullptr) raise(error);
    const auto answers = queue.is_none() ? nullptr : made<AnswerQueueObject>(queue).queue();
    return RequestObject(
        submit_all(dicts, py::make_tuple(on_done), is_streamed, only_node, answers)[0]);
  }

  // All of them, or an error and none; `on_done` holds one function for each.
  py::list submit_many(const py::list& dicts, const py::list& on_done) {
    const py::tuple held(dicts);
    for (py::handle dict : held) check_is_dict(dict.ptr());
    if (held.size() != on_done.size()) throw py::value_error("one function for each dict");
    py::list objects;
    for (Ref<Request>& request : submit_all(held, py::tuple(on_done), false, {}, {})) {
      objects.append(RequestObject(std::move(request)));
    }
    return objects;
  }

  bool close(double timeout_s) {
    if (is_in_child()) return false;
    bool has_ended = false;
    {
      const GilRelease no_gil;
      has_ended = pipeline_->close(to_duration(timeout_s));
    }
    drain_released();  // what waited in queues and in the storage
    return has_ended;
  }
  bool is_closed() const { return pipeline_->is_closed(); }
  py::tuple run_range() const {
    const BatchRange range = pipeline_->run_range(0);
    return py::make_tuple(range.min, range.max);
  }
  int64_t num_requests() const { return pipeline_->num_requests(); }
  py::list stats(bool with_buckets) const {
    check_is_not_in_child();
    return stats_of(*pipeline_, with_buckets);
  }
  py::list problems() const {
    check_is_not_in_child();
    return problems_of(*pipeline_);
  }
  py::list ports() const { return ports_of(*pipeline_); }
  bool start_trace(size_t max_records) const {
    check_is_not_in_child();
    return pipeline_->trace().start(max_records);
  }
  py::object stop_trace() const {
    check_is_not_in_child();
    return stop_and_list(pipeline_->trace());
  }
  std::shared_ptr<Pipeline> core() const {
    check_is_not_in_child();
    return pipeline_;
  }

  static void check_is_dict(PyObject* object) {
    if (PyDict_Check(object)) return;
    raise(Error(ErrorKind::kRequest, "request-type",
                std::string("a request is a dict, got a `") + Py_TYPE(object)->tp_name + "`",
                "call `pipe({\"data\": ...})`"));
  }

 private:
  bool is_in_child() const noexcept { return birth_.is_in_child(); }

  void check_is_not_in_child() const {
    if (is_in_child()) raise(ForkGuard::error());
  }

  // submit: one request for each dict, or an error and no dict claimed.
  std::vector<Ref<Request>> read(const py::sequence& dicts, std::optional<int> only_node = {}) {
    drain_released();
    check_is_not_in_child();
    std::vector<Ref<Request>> requests;
    size_t num_claimed = 0;
    const auto error = error_of([&] {
      for (py::handle dict : dicts) {
        in_flight_.claim(dict.ptr());
        ++num_claimed;
        requests.push_back(read_request(pipeline_, dict.ptr(), only_node));
      }
    });
    if (error == nullptr) return requests;
    for (const Ref<Request>& request : requests) request->trace_refuse();
    for (size_t i = 0; i < num_claimed; ++i) in_flight_.forget(py::object(dicts[i]).ptr());
    raise(error);
  }

  // Submitting waits for nothing but the short locks of the core, so the GIL is kept: giving it
  // away twice in a call, for this and for the answer, would double what callers fight for.
  template <class Submit>
  void start(const py::tuple& dicts, std::span<const Ref<Request>> requests, Submit submit) {
    const std::exception_ptr error = error_of(submit);
    if (error == nullptr) return;
    for (const Ref<Request>& request : requests) request->trace_refuse();
    for (py::handle dict : dicts) in_flight_.forget(dict.ptr());
    raise(error);
  }

  std::vector<Ref<Request>> submit_all(const py::tuple& dicts, const py::tuple& on_done,
                                       bool is_streamed, std::optional<int> only_node,
                                       const std::shared_ptr<AnswerQueue>& queue) {
    const std::shared_ptr<DictsInFlight> in_flight(shared_from_this(), &in_flight_);
    auto requests = read(dicts, only_node);
    for (size_t i = 0; i < requests.size(); ++i) {
      if (is_streamed) requests[i]->stream = make_ref<ResultStream>();
      // A loop gets the answer through its queue anyway, and is spared two changes of threads.
      requests[i]->may_run_inline = queue != nullptr && requests[i]->deadline == TimePoint::max();
      requests[i]->completion = std::make_shared<AnswerCallback>(
          in_flight, py::object(dicts[i]).ptr(), py::object(on_done[i]).ptr(), queue);
    }
    start(dicts, requests, [&] { pipeline_->submit(requests); });
    return requests;
  }

  // Waits for all answers without the GIL. A signal whose handler raises ends the waiting: the
  // requests are cancelled, and the exception is returned.
  static std::exception_ptr wait(std::span<const Ref<Request>> requests) {
    // A signal that came while this thread was getting here wakes nobody any more.
    std::exception_ptr interruption = look_at_signals(requests);
    const GilRelease no_gil;
    for (const Ref<Request>& request : requests) {
      if (look_for_answer(*request)) continue;
      while (request->answered.wait() == Event::Wake::kInterrupted) {
        const GilAcquire gil;
        if (auto raised = look_at_signals(requests)) interruption = raised;
      }
      last_sleep = Clock::now();
    }
    return interruption;
  }

  // Looks for a short answer before the thread goes to sleep; true when it has come. A thread that
  // looks goes ahead of those who sleep until they are let in: only for one turn.
  static bool look_for_answer(Request& request) {
    constexpr Duration kTurn = std::chrono::microseconds(100);
    const bool may_look = !WakeGate::instance().is_occupied() || Clock::now() - last_sleep < kTurn;
    return may_look && request.pipeline->spin().until([&] { return request.answered.is_set(); });
  }

  // Runs the signal handlers of Python; when one raises, cancels the requests and returns the
  // exception.
  static std::exception_ptr look_at_signals(std::span<const Ref<Request>> requests) {
    if (PyErr_CheckSignals() == 0) return nullptr;
    auto raised = take_python_error();
    const GilRelease no_gil;
    for (const Ref<Request>& waiting : requests) waiting->cancel();
    return raised;
  }

  // return: merges what succeeded, or gives the exception object of what failed.
  py::object finish(Request& request, PyObject* dict) {
    const TimePoint begin = request.trace_time();
    drain_released();
    std::exception_ptr error = request.error;
    if (error == nullptr) error = error_of([&] { write_output(request, dict); });
    in_flight_.forget(dict);
    py::object failure = error == nullptr
                             ? py::object()
                             : py::reinterpret_steal<py::object>(failure_object(request, error));
    request.trace_return(begin);
    return failure;
  }

  static void raise_any(const std::exception_ptr& interruption, const py::object& failure) {
    if (interruption != nullptr) raise(interruption);
    if (!failure) return;
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(failure.ptr())), failure.ptr());
    throw py::error_already_set();
  }

  static thread_local TimePoint last_sleep;  // of this thread, for an answer

  std::shared_ptr<Pipeline> pipeline_;
  const ForkGuard birth_;
  DictsInFlight in_flight_;
};

thread_local TimePoint PipelineObject::last_sleep;

bool has_event(PyObject* dict) {
  const Owned event = find_in(dict, checked(key_object(keys::event)).get());
  return event && event.get() != Py_None;
}

// `pipe(request)` from Python, without the detour over a Python function or pybind11's dispatcher.
// A list, or a dict with an event, goes to the method `_call_other` of the Python class.
PyObject* call_pipeline(PyObject* self, PyObject* args, PyObject* keywords) {
  static const char* const names[] = {"request", nullptr};
  PyObject* request = nullptr;
  if (keywords == nullptr && PyTuple_GET_SIZE(args) == 1) {
    request = PyTuple_GET_ITEM(args, 0);
  } else if (!PyArg_ParseTupleAndKeywords(args, keywords, "O", const_cast<char**>(names),
                                          &request)) {
    return nullptr;
  }
  try {
    Owned held(Py_NewRef(request));
    if (PyList_Check(request) || (PyDict_Check(request) && has_event(request))) {
      const Owned name = checked(PyUnicode_InternFromString("_call_other"));
      return PyObject_CallMethodOneArg(self, name.get(), request);
    }
    const auto* instance = reinterpret_cast<const py::detail::instance*>(self);
    auto* pipeline = static_cast<PipelineObject*>(instance->simple_value_holder[0]);
    if (pipeline != nullptr) {
      pipeline->call(request);
      return held.detach();
    }
    PyErr_SetString(PyExc_TypeError, "the pipeline was not made by `hami.pipe`");
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const std::exception&) {
    set_python_error(std::current_exception(), {});
  }
  return nullptr;
}

}  // namespace

std::shared_ptr<Pipeline> core_pipeline(py::handle pipeline) {
  return made<PipelineObject>(pipeline).core();
}

void define_pipeline(py::module_& module) {
  ForkGuard::watch();
  define_request(module);
  define_answer_queue(module);
  const auto set_call = [](PyHeapTypeObject* type) { type->ht_type.tp_call = call_pipeline; };
  py::class_<PipelineObject, std::shared_ptr<PipelineObject>>(
      module, "Pipeline", py::custom_type_setup(set_call), "A running plan.")
      .def(py::init<const py::dict&>(), py::arg("plan"))
      .def("_call_many", method(&PipelineObject::call_many), py::arg("requests"))
      .def("_submit", method(&PipelineObject::submit), py::arg("request"), py::arg("on_done"),
           py::arg("is_streamed") = false, py::arg("node") = py::none(),
           py::arg("queue") = py::none())
      .def("_submit_many", method(&PipelineObject::submit_many), py::arg("requests"),
           py::arg("on_done"))
      .def("_close", method(&PipelineObject::close), py::arg("timeout_s"))
      .def("_stats", method(&PipelineObject::stats), py::arg("with_buckets") = false)
      .def("_problems", method(&PipelineObject::problems))
      .def("_ports", method(&PipelineObject::ports))
      .def("_start_trace", method(&PipelineObject::start_trace), py::arg("max_records"))
      .def("_stop_trace", method(&PipelineObject::stop_trace))
      .def_property_readonly("_is_closed", method(&PipelineObject::is_closed))
      .def_property_readonly("_run_range", method(&PipelineObject::run_range))
      .def_property_readonly("_num_requests", method(&PipelineObject::num_requests));
}

}  // namespace hami::bind

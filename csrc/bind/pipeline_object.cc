#include "bind/pipeline_object.h"

#include <memory>
#include <unordered_set>
#include <vector>

#include "bind/convert.h"
#include "bind/errors.h"
#include "bind/fork_guard.h"
#include "bind/gil.h"
#include "bind/owned.h"
#include "bind/plan_reader.h"
#include "bind/request_object.h"
#include "bind/request_reader.h"
#include "bind/stats_rows.h"
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

class PipelineObject;

// Ends the Python side of a request that nobody waits for: merges, then calls back.
class Callback final : public Completion {
 public:
  Callback(std::shared_ptr<PipelineObject> owner, PyObject* dict, PyObject* on_done)
      : owner_(std::move(owner)), dict_(hold(dict)), on_done_(hold(on_done)) {}
  void on_answered(Request& request) noexcept override;

 private:
  std::shared_ptr<PipelineObject> owner_;
  Ref<PyHandle> dict_;
  Ref<PyHandle> on_done_;
};

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

  py::object call(const py::object& dict) {
    py::list dicts;
    dicts.append(dict);
    run(dicts, true);
    return dict;
  }

  py::list call_many(py::list dicts) {
    run(dicts, false);
    return dicts;
  }

  RequestObject submit(const py::object& dict, const py::object& on_done, bool is_streamed) {
    check_is_dict(dict);
    const py::tuple dicts = py::make_tuple(dict);
    return RequestObject(submit_all(dicts, py::make_tuple(on_done), is_streamed)[0]);
  }

  // All of them, or an error and none; `on_done` holds one function for each.
  py::list submit_many(const py::list& dicts, const py::list& on_done) {
    const py::tuple held(dicts);
    for (py::handle dict : held) check_is_dict(dict);
    if (held.size() != on_done.size()) throw py::value_error("one function for each dict");
    py::list objects;
    for (Ref<Request>& request : submit_all(held, py::tuple(on_done), false)) {
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
  py::list stats() const;
  py::list problems() const;

  void forget(PyObject* dict) { in_flight_.erase(dict); }

 private:
  static void check_is_dict(py::handle object) {
    if (PyDict_Check(object.ptr())) return;
    raise(Error(ErrorKind::kRequest, "request-type",
                std::string("a request is a dict, got a `") + Py_TYPE(object.ptr())->tp_name + "`",
                "call `pipe({\"data\": ...})`"));
  }

  bool is_in_child() const noexcept { return birth_.is_in_child(); }

  void check_is_not_in_child() const {
    if (is_in_child()) raise(ForkGuard::error());
  }

  // submit: one request for each dict, or an error and no dict claimed.
  std::vector<Ref<Request>> read(const py::sequence& dicts) {
    drain_released();
    check_is_not_in_child();
    std::vector<Ref<Request>> requests;
    size_t num_claimed = 0;
    const auto error = error_of([&] {
      for (py::handle dict : dicts) {
        if (!in_flight_.insert(dict.ptr()).second) {
          throw Error(ErrorKind::kRequest, "request-in-flight",
                      "this dict is in a pipeline already",
                      "wait for its answer, or submit a copy");
        }
        ++num_claimed;
        requests.push_back(read_request(pipeline_, dict.ptr()));
      }
    });
    if (error == nullptr) return requests;
    for (size_t i = 0; i < num_claimed; ++i) forget(py::object(dicts[i]).ptr());
    raise(error);
  }

  template <class Submit>
  void start(const py::tuple& dicts, Submit submit) {
    std::exception_ptr error;
    {
      const GilRelease no_gil;
      error = error_of(submit);
    }
    if (error == nullptr) return;
    for (py::handle dict : dicts) forget(dict.ptr());
    raise(error);
  }

  std::vector<Ref<Request>> submit_all(const py::tuple& dicts, const py::tuple& on_done,
                                       bool is_streamed) {
    auto requests = read(dicts);
    for (size_t i = 0; i < requests.size(); ++i) {
      if (is_streamed) requests[i]->stream = make_ref<ResultStream>();
      requests[i]->completion = std::make_shared<Callback>(
          shared_from_this(), py::object(dicts[i]).ptr(), py::object(on_done[i]).ptr());
    }
    start(dicts, [&] { pipeline_->submit(requests); });
    return requests;
  }

  void run(const py::list& dicts, bool is_single) {
    const py::tuple held(dicts);  // the caller may change its list meanwhile
    for (py::handle dict : held) check_is_dict(dict);
    auto requests = read(held);
    if (is_single && requests[0]->deadline == TimePoint::max()) requests[0]->may_run_inline = true;
    start(held, [&] {
      for (const Ref<Request>& request : requests) pipeline_->check_may_wait_for(*request);
      pipeline_->submit(requests);
    });
    std::exception_ptr interruption = wait(requests);
    finish(requests, held, interruption);
  }

  // Waits for all answers without the GIL. A signal whose handler raises ends the waiting: the
  // requests are cancelled, and the exception is returned.
  static std::exception_ptr wait(const std::vector<Ref<Request>>& requests) {
    // A signal that came while this thread was getting here wakes nobody any more.
    std::exception_ptr interruption = look_at_signals(requests);
    const GilRelease no_gil;
    for (const Ref<Request>& request : requests) {
      while (request->answered.wait() == Event::Wake::kInterrupted) {
        const GilAcquire gil;
        if (auto raised = look_at_signals(requests)) interruption = raised;
      }
    }
    return interruption;
  }

  // Runs the signal handlers of Python; when one raises, cancels the requests and returns the
  // exception.
  static std::exception_ptr look_at_signals(const std::vector<Ref<Request>>& requests) {
    if (PyErr_CheckSignals() == 0) return nullptr;
    auto raised = take_python_error();
    const GilRelease no_gil;
    for (const Ref<Request>& waiting : requests) waiting->cancel();
    return raised;
  }

  // return: merges what succeeded, then raises the first error in order.
  void finish(const std::vector<Ref<Request>>& requests, const py::tuple& dicts,
              const std::exception_ptr& interruption) {
    drain_released();
    py::object failure;
    for (size_t i = 0; i < requests.size(); ++i) {
      PyObject* dict = PyTuple_GET_ITEM(dicts.ptr(), static_cast<Py_ssize_t>(i));
      std::exception_ptr error = requests[i]->error;
      if (error == nullptr) error = error_of([&] { write_output(*requests[i], dict); });
      forget(dict);
      if (error == nullptr) continue;
      py::object raised = failure_of(*requests[i], error);
      if (!failure) failure = std::move(raised);
    }
    if (interruption != nullptr) raise(interruption);
    if (!failure) return;
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(failure.ptr())), failure.ptr());
    throw py::error_already_set();
  }

  // The exception object of a failed request. What failed in the pipeline is logged.
  static py::object failure_of(const Request& request, const std::exception_ptr& error) {
    PyObject* made = exception_object(error, request.site);
    // When it cannot be made, whatever kept it from being made is the answer.
    if (made == nullptr) made = take_exception();
    if (request.error != nullptr) report_failure(made, request.site);
    return py::reinterpret_steal<py::object>(made);
  }

  std::shared_ptr<Pipeline> pipeline_;
  const ForkGuard birth_;
  // Dicts of open requests. Guarded by the GIL.
  std::unordered_set<PyObject*> in_flight_;
};

void Callback::on_answered(Request& request) noexcept {
  const GilAcquire gil;
  std::exception_ptr failure = request.error;
  if (failure == nullptr) failure = error_of([&] { write_output(request, dict_->get()); });
  owner_->forget(dict_->get());
  Owned error(failure == nullptr ? Py_NewRef(Py_None) : exception_object(failure, request.site));
  // When it cannot be made, whatever kept it from being made is the answer: there must be one.
  if (!error) error = Owned(take_exception());
  if (request.error != nullptr) report_failure(error.get(), request.site);
  PyObject* const args[] = {error.get()};
  const Owned returned(call_python(on_done_->get(), args, 1));
  // Nobody is there to catch what a callback raises.
  if (!returned) survive_finalization([&] { PyErr_WriteUnraisable(on_done_->get()); });
  // The request may outlive its answer in the caller's hands; the future must not outlive it there.
  dict_ = nullptr;
  on_done_ = nullptr;
  owner_ = nullptr;
}

py::list PipelineObject::problems() const {
  check_is_not_in_child();
  std::vector<std::string> all;
  {
    const GilRelease no_gil;
    all = pipeline_->problems();
  }
  py::list problems;
  for (const std::string& problem : all) problems.append(problem);
  return problems;
}

py::list PipelineObject::stats() const {
  check_is_not_in_child();
  std::vector<NodeStats> all;
  {
    const GilRelease no_gil;
    all = pipeline_->stats();
  }
  return to_rows(all);
}

}  // namespace

void define_pipeline(py::module_& module) {
  ForkGuard::watch();
  define_request(module);
  py::class_<PipelineObject, std::shared_ptr<PipelineObject>>(module, "Pipeline", "A running plan.")
      .def(py::init<const py::dict&>(), py::arg("plan"))
      .def("call", &PipelineObject::call, py::arg("request"))
      .def("call_many", &PipelineObject::call_many, py::arg("requests"))
      .def("submit", &PipelineObject::submit, py::arg("request"), py::arg("on_done"),
           py::arg("is_streamed") = false)
      .def("submit_many", &PipelineObject::submit_many, py::arg("requests"), py::arg("on_done"))
      .def("close", &PipelineObject::close, py::arg("timeout_s"))
      .def("stats", &PipelineObject::stats)
      .def("problems", &PipelineObject::problems)
      .def_property_readonly("is_closed", &PipelineObject::is_closed)
      .def_property_readonly("run_range", &PipelineObject::run_range)
      .def_property_readonly("num_requests", &PipelineObject::num_requests);
}

}  // namespace hami::bind

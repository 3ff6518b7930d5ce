#include "bind/pipeline_object.h"

#include <pthread.h>

#include <atomic>
#include <memory>
#include <unordered_set>
#include <vector>

#include "bind/errors.h"
#include "bind/gil.h"
#include "bind/owned.h"
#include "bind/plan_reader.h"
#include "bind/request_reader.h"
#include "core/error.h"
#include "graph/pipeline.h"

namespace py = pybind11;

namespace hami::bind {
namespace {

// How often this process has been forked, counted from its oldest ancestor: threads do not survive
// a fork, so a pipeline works only where it was made.
std::atomic<int> num_forks{0};

// Raises `error` as the Python exception that is set now.
[[noreturn]] void raise(const std::exception_ptr& error,
                        const std::optional<FailureSite>& site = {}) {
  set_python_error(error, site);
  throw py::error_already_set();
}

[[noreturn]] void raise(const Error& error) { raise(std::make_exception_ptr(error)); }

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

// A request on its way, for whoever may want to cancel it.
struct RequestObject {
  Ref<Request> request;
  bool cancel() const {
    const GilRelease no_gil;
    return request->cancel();
  }
};

class PipelineObject : public std::enable_shared_from_this<PipelineObject> {
 public:
  explicit PipelineObject(const py::dict& plan) : made_in_fork_(num_forks.load()) {
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

  RequestObject submit(const py::object& dict, const py::object& on_done) {
    check_is_dict(dict);
    auto requests = read(py::make_tuple(dict));
    requests[0]->completion =
        std::make_shared<Callback>(shared_from_this(), dict.ptr(), on_done.ptr());
    start(requests, py::make_tuple(dict));
    return {requests[0]};
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
  int64_t num_requests() const { return pipeline_->num_requests(); }
  py::list stats() const;

  void forget(PyObject* dict) { in_flight_.erase(dict); }

 private:
  static void check_is_dict(py::handle object) {
    if (PyDict_Check(object.ptr())) return;
    raise(Error(ErrorKind::kRequest, "request-type",
                std::string("a request is a dict, got a `") + Py_TYPE(object.ptr())->tp_name + "`",
                "call `pipe({\"data\": ...})`"));
  }

  bool is_in_child() const noexcept { return num_forks.load() != made_in_fork_; }

  void check_is_not_in_child() const {
    if (!is_in_child()) return;
    raise(Error(ErrorKind::kClosed, "forked",
                "the pipeline was made before this process was forked, and its threads live in "
                "the parent",
                "create the pipeline in the child"));
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

  void start(const std::vector<Ref<Request>>& requests, const py::sequence& dicts) {
    std::exception_ptr error;
    {
      const GilRelease no_gil;
      error = error_of([&] { pipeline_->submit(requests); });
    }
    if (error == nullptr) return;
    for (py::handle dict : dicts) forget(dict.ptr());
    raise(error);
  }

  void run(const py::list& dicts, bool is_single) {
    for (py::handle dict : dicts) check_is_dict(dict);
    const py::tuple held(dicts);  // the caller may change its list meanwhile
    auto requests = read(held);
    if (is_single && requests[0]->deadline == TimePoint::max()) requests[0]->may_run_inline = true;
    start(requests, held);
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
    const Ref<Request>* failed = nullptr;
    for (size_t i = 0; i < requests.size(); ++i) {
      PyObject* dict = PyTuple_GET_ITEM(dicts.ptr(), static_cast<Py_ssize_t>(i));
      forget(dict);
      if (requests[i]->error != nullptr) {
        if (failed == nullptr) failed = &requests[i];
        continue;
      }
      const auto error = error_of([&] { write_output(*requests[i], dict); });
      if (error != nullptr) raise(error);
    }
    if (interruption != nullptr) raise(interruption);
    if (failed != nullptr) raise((*failed)->error, (*failed)->site);
  }

  std::shared_ptr<Pipeline> pipeline_;
  const int made_in_fork_;
  // Dicts of open requests. Guarded by the GIL.
  std::unordered_set<PyObject*> in_flight_;
};

void Callback::on_answered(Request& request) noexcept {
  const GilAcquire gil;
  owner_->forget(dict_->get());
  std::exception_ptr failure = request.error;
  if (failure == nullptr) failure = error_of([&] { write_output(request, dict_->get()); });
  const Owned error(failure == nullptr ? Py_NewRef(Py_None)
                                       : exception_object(failure, request.site));
  PyObject* const args[] = {error.get()};
  Owned returned;
  if (error) returned = Owned(call_python(on_done_->get(), args, 1));
  // Nobody is there to catch what a callback raises.
  if (!returned) survive_finalization([&] { PyErr_WriteUnraisable(on_done_->get()); });
  // The request may outlive its answer in the caller's hands; the future must not outlive it there.
  dict_ = nullptr;
  on_done_ = nullptr;
  owner_ = nullptr;
}

py::list PipelineObject::stats() const {
  check_is_not_in_child();
  std::vector<NodeStats> all;
  {
    const GilRelease no_gil;
    all = pipeline_->stats();
  }
  py::list rows;
  for (const NodeStats& node : all) {
    py::dict batch_rows;
    for (const auto& [rows_of_run, count] : node.batch_rows)
      batch_rows[py::int_(rows_of_run)] = count;
    py::dict releases;
    for (const auto& [reason, count] : node.releases) releases[py::str(reason)] = count;
    py::dict row;
    row["node"] = node.node;
    row["waiting"] = node.num_waiting;
    row["items"] = node.num_items;
    row["errors"] = node.num_errors;
    row["dropped"] = node.num_dropped;
    row["batch_rows"] = batch_rows;
    row["releases"] = releases;
    rows.append(row);
  }
  return rows;
}

}  // namespace

void define_pipeline(py::module_& module) {
  pthread_atfork(nullptr, nullptr, [] { num_forks.fetch_add(1); });
  py::class_<RequestObject>(module, "Request", "A request on its way.")
      .def("cancel", &RequestObject::cancel,
           "Answers it with `Cancelled`; false when it has its answer already.");
  py::class_<PipelineObject, std::shared_ptr<PipelineObject>>(module, "Pipeline", "A running plan.")
      .def(py::init<const py::dict&>(), py::arg("plan"))
      .def("call", &PipelineObject::call, py::arg("request"))
      .def("call_many", &PipelineObject::call_many, py::arg("requests"))
      .def("submit", &PipelineObject::submit, py::arg("request"), py::arg("on_done"))
      .def("close", &PipelineObject::close, py::arg("timeout_s"))
      .def("stats", &PipelineObject::stats)
      .def_property_readonly("is_closed", &PipelineObject::is_closed)
      .def_property_readonly("num_requests", &PipelineObject::num_requests);
}

}  // namespace hami::bind

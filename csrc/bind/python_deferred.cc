#include "bind/python_deferred.h"

#include <optional>
#include <utility>

#include "bind/convert.h"
#include "bind/errors.h"
#include "bind/fork_guard.h"
#include "bind/gil.h"
#include "bind/host_batch.h"
#include "bind/method.h"
#include "bind/owned.h"
#include "bind/traced_gil.h"
#include "core/error.h"
#include "graph/deferred_operator.h"

namespace py = pybind11;

namespace hami::bind {
namespace {

using Stay = DeferredOperator::Stay;

std::exception_ptr dropped(const std::string& node) {
  return std::make_exception_ptr(
      Error(ErrorKind::kRequest, "backend-reply-dropped",
            "the backend let go of a request without an answer",
            "call `reply.finish()` or `reply.fail(error)` for each request that `start` gets",
            "node `" + node + "`"));
}

// What user code holds of a request that it owes an answer.
class Reply {
 public:
  // REQUIRES: the GIL, as for everything here.
  Reply(Ref<Stay> stay, Item& item, const std::string& node, int container_depth)
      : stay_(std::move(stay)),
        item_(&item),
        batch_{item_},
        node_(node),
        container_depth_(container_depth),
        host_(std::in_place, Batch(batch_), node_, container_depth) {}
  Reply(const Reply&) = delete;
  Reply& operator=(const Reply&) = delete;
  ~Reply() {
    // The locks of the request may be held by threads of the parent, so it is left alone.
    if (birth_.is_in_child()) {
      static_cast<void>(stay_.detach());
    } else {
      end(dropped(node_));
    }
  }

  PyObject* item() const noexcept { return host_->dict(0); }

  bool is_wanted() const { return !birth_.is_in_child() && stay_->is_wanted(); }
  bool has_room() const { return birth_.is_in_child() || stay_->has_room(); }
  bool is_streamed() const { return !birth_.is_in_child() && stay_->is_streamed(); }
  bool emit(const py::object& partial, bool is_last) const {
    if (birth_.is_in_child()) return false;
    Value value = to_value(partial.ptr(), container_depth_);
    const GilRelease no_gil;
    return stay_->emit(std::move(value), is_last);
  }
  bool finish() { return end(nullptr); }
  bool fail(const py::object& error) {
    if (!PyExceptionInstance_Check(error.ptr())) {
      throw py::type_error(std::string("`fail` takes an exception, not a `") +
                           Py_TYPE(error.ptr())->tp_name + "`");
    }
    return end(to_error(error.ptr()));
  }

 private:
  // The item is gone once the stay has ended, whoever ended it, so the dicts are looked at while
  // it is being ended here, and by nobody else.
  bool end(std::exception_ptr error) {
    if (birth_.is_in_child() || !host_) return false;
    HostBatch host = std::move(*host_);
    host_.reset();
    const GilRelease no_gil;
    return stay_->finish([&](Visit& visit) {
      if (error == nullptr) {
        const GilAcquire gil;
        host.take_changes();
      } else {
        visit.error = std::move(error);
      }
    });
  }

  Ref<Stay> stay_;
  Item* item_;
  Item* const batch_[1];
  const std::string node_;
  const int container_depth_;
  std::optional<HostBatch> host_;  // until it has ended
  const ForkGuard birth_;
};

class PythonDeferred final : public DeferredOperator {
 public:
  PythonDeferred(Build& build, std::unique_ptr<PythonInstance> instance)
      : DeferredOperator(build),
        instance_(std::move(instance)),
        start_(make_ref<PyHandle>(
            checked(PyObject_GetAttrString(instance_->get(), "start")).detach())),
        load_(build.scope().load()),
        trace_node_(load_->trace.find_node(build.node_name())) {}

  Traits traits() const override { return {.reads_everything = true}; }
  void tear_down() noexcept override { instance_->tear_down(); }
  void add_problems(std::vector<std::string>& problems) const override {
    const std::string problem = instance_->problem();
    if (!problem.empty()) problems.push_back("node `" + node_name() + "`: " + problem);
  }
  Figures own_figures() const override { return instance_->figures(); }

 private:
  void begin(Ref<Stay> stay, Item& item) override {
    const PythonInstance::Stay inside(*instance_);
    const TracedGil gil(load_->trace, trace_node_);
    drain_released();
    auto reply =
        std::make_unique<Reply>(std::move(stay), item, node_name(), load_->container_depth);
    const Owned dict(Py_NewRef(reply->item()));
    Reply* const kept = reply.get();
    const py::object held = py::cast(std::move(reply));
    PyObject* const args[] = {dict.get(), held.ptr()};
    const Owned returned(call_python(start_->get(), args, 2));
    if (!returned) kept->fail(py::reinterpret_steal<py::object>(take_exception()));
  }

  const std::unique_ptr<PythonInstance> instance_;
  const Ref<PyHandle> start_;
  const std::shared_ptr<PipelineLoad> load_;
  const int32_t trace_node_;
};

}  // namespace

bool is_deferred(const PythonInstance& instance) {
  const Owned answer =
      checked(PyObject_CallMethod(import_instances().get(), "is_deferred", "O", instance.get()));
  return answer.get() == Py_True;
}

std::shared_ptr<Backend> create_python_deferred(Build& build,
                                                std::unique_ptr<PythonInstance> instance) {
  auto made = std::make_shared<PythonDeferred>(build, std::move(instance));
  build.scope().add_service(made);
  return made;
}

void define_reply(py::module_& module) {
  py::class_<Reply>(module, "Reply", py::custom_type_setup(refuse_new),
                    "What a backend owes for a request that its `start` took over.")
      .def_property_readonly("is_wanted", method(&Reply::is_wanted),
                             "Whether somebody still waits for the answer.")
      .def_property_readonly("has_room", method(&Reply::has_room),
                             "Whether `emit` would not wait now.")
      .def_property_readonly("is_streamed", method(&Reply::is_streamed),
                             "Whether somebody listens to partial results.")
      .def("emit", method(&Reply::emit), py::arg("partial"), py::arg("is_last") = false,
           "Passes a partial result on; waits while the consumer is 64 behind, unless it is the "
           "last "
           "one. False when nobody wants the rest.")
      .def("finish", method(&Reply::finish),
           "Answers with what was written into the item. False when it was answered before.")
      .def("fail", method(&Reply::fail), py::arg("error"),
           "Answers with an exception. False when it was answered before.");
}

}  // namespace hami::bind

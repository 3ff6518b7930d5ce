#include "bind/python_backend.h"

#include <pybind11/pybind11.h>

#include <string>
#include <utility>

#include "bind/async_run.h"
#include "bind/convert.h"
#include "bind/errors.h"
#include "bind/gil.h"
#include "bind/host_batch.h"
#include "bind/item_dict.h"
#include "bind/owned.h"
#include "bind/python_condition.h"
#include "bind/python_deferred.h"
#include "bind/python_engine.h"
#include "bind/python_instance.h"
#include "bind/traced_gil.h"
#include "core/error.h"

namespace hami::bind {
namespace {

// Passes a partial result on. False when the producer should stop.
bool is_wanted(const Item& item, Value partial) {
  if (item.partials == nullptr) return true;
  const GilRelease no_gil;
  return item.partials->push(std::move(partial));
}

class PythonBackend final : public Backend {
 public:
  PythonBackend(Build& build, std::unique_ptr<PythonInstance> instance);

  void forward(Batch batch) override;
  void forward_with(Batch batch, Backend& dependency) override;
  void tear_down() noexcept override { instance_->tear_down(); }
  BatchRange batch_range() const override { return range_; }
  Traits traits() const override { return traits_; }
  std::string problem() const override { return instance_->problem(); }
  Figures own_figures() const override { return instance_->figures(); }
  size_t group_of(const Item& item) const override {
    return groups_by_shape_ ? Backend::group_of(item) : 0;
  }

 private:
  void read_traits();
  void read_range();
  bool is_generator() const;
  // Runs a generator on one item, whose partial results go out while it runs.
  void generate(Item& item) const;
  Owned call_forward(PyObject* list, Batch batch) const;

  const std::unique_ptr<PythonInstance> instance_;
  const Ref<PyHandle> forward_;
  // The node's event loop, if `forward` is a coroutine function.
  const Ref<PyHandle> loop_;
  const std::shared_ptr<PipelineLoad> load_;
  const int32_t trace_node_;
  BatchRange range_;
  Traits traits_;
  bool groups_by_shape_ = true;
  bool is_generator_ = false;
};

Ref<PyHandle> find_loop(Build& build, PyObject* forward) {
  const Owned is_async =
      checked(PyObject_CallMethod(import_instances().get(), "is_async", "O", forward));
  return is_async.get() == Py_True ? event_loop_of_node(build) : nullptr;
}

PythonBackend::PythonBackend(Build& build, std::unique_ptr<PythonInstance> instance)
    : instance_(std::move(instance)),
      forward_(make_ref<PyHandle>(
          checked(PyObject_GetAttrString(instance_->get(), "forward")).detach())),
      loop_(find_loop(build, forward_->get())),
      load_(build.scope().load()),
      trace_node_(load_->trace.find_node(build.node_name())) {
  read_traits();
  is_generator_ = is_generator();
  if (is_generator_) range_ = {1, 1};
  if (!loop_) return;
  instance_->set_loop(loop_);
  checked(PyObject_CallMethod(loop_->get(), "join", nullptr));
}

void PythonBackend::read_traits() {
  traits_ = {.is_inline = instance_->read_flag("is_inline") && !loop_,
             .is_reentrant = instance_->read_flag("is_reentrant"),
             .is_idempotent = instance_->read_flag("is_idempotent"),
             .reads_everything = true};
  if (const Owned group_by = instance_->trait("group_by")) {
    const auto is = [&](const char* text) {
      return PyUnicode_Check(group_by.get()) &&
             PyUnicode_CompareWithASCIIString(group_by.get(), text) == 0;
    };
    groups_by_shape_ = is("shape");
    if (!groups_by_shape_ && !is("none")) instance_->refuse_trait("group_by", "`shape` or `none`");
  }
  read_range();
}

void PythonBackend::read_range() {
  const Owned range = instance_->trait("batch_range");
  if (!range) return;
  const Owned pair(PySequence_Tuple(range.get()));
  PyObject* most = nullptr;
  long long least = 0;
  if (pair && PyArg_ParseTuple(pair.get(), "LO", &least, &most) != 0) {
    range_ = {least, most == Py_None ? BatchRange::kAny : PyLong_AsLongLong(most)};
  }
  const bool is_pair = PyErr_Occurred() == nullptr;
  PyErr_Clear();
  if (is_pair && least >= 1 && range_.max >= least) return;
  instance_->refuse_trait("batch_range",
                          "(fewest, most) with 1 <= fewest <= most, or None for any number");
}

bool PythonBackend::is_generator() const {
  const Owned module = checked(PyImport_ImportModule("inspect"));
  const Owned answer =
      checked(PyObject_CallMethod(module.get(), "isgeneratorfunction", "O", forward_->get()));
  return PyObject_IsTrue(answer.get()) == 1;
}

void PythonBackend::forward(Batch batch) {
  const PythonInstance::Stay stay(*instance_);
  const TracedGil gil(load_->trace, trace_node_);
  drain_released();
  if (is_generator_) {
    for (Item* item : batch) generate(*item);
    return;
  }
  HostBatch host(batch, instance_->node_name(), load_->container_depth);
  const Owned returned = call_forward(host.list(), batch);
  host.take_results(returned.get());
  host.take_changes();
}

Owned PythonBackend::call_forward(PyObject* list, Batch batch) const {
  if (loop_) {
    return checked(run_on_loop(loop_->get(), forward_->get(), list, batch, load_->run_watches));
  }
  PyObject* const args[] = {list};
  return checked(call_python(forward_->get(), args, 1));
}

// An object may surround the runs of another backend: it gets a function that runs it.
void PythonBackend::forward_with(Batch batch, Backend& dependency) {
  const PythonInstance::Stay stay(*instance_);
  const GilAcquire gil;
  const Owned surround = instance_->trait("forward_with");
  if (!surround) {
    const GilRelease no_gil;
    return dependency.forward(batch);
  }
  // Shared with the function, which user code may keep for longer than the run lasts.
  struct Inner {
    bool may_run = true;
    std::exception_ptr error;
  };
  const auto inner = std::make_shared<Inner>();
  const pybind11::cpp_function run([inner, batch, &dependency] {
    if (!std::exchange(inner->may_run, false)) {
      raise(Error(ErrorKind::kRequest, "backend-run-twice", "`run` was called a second time",
                  "call `run()` once, inside `forward_with`"));
    }
    {
      const GilRelease no_gil;
      inner->error = error_of([&] { dependency.forward(batch); });
    }
    if (inner->error != nullptr) raise(inner->error);
  });
  PyObject* const args[] = {run.ptr()};
  const Owned returned(call_python(surround.get(), args, 1));
  const std::exception_ptr own = returned ? nullptr : take_python_error();
  const bool has_run = !std::exchange(inner->may_run, false);
  // What the inner backend threw is thrown as it is, whatever became of it on the way.
  if (inner->error != nullptr) std::rethrow_exception(inner->error);
  if (own != nullptr) std::rethrow_exception(own);
  if (has_run) return;
  throw Error(ErrorKind::kRequest, "backend-not-run",
              "`forward_with` of " + backticked(Py_TYPE(instance_->get())->tp_name) +
                  " returned without a call of `run`",
              "call `run()` once, or raise an error");
}

void PythonBackend::generate(Item& item) const {
  Item* const batch[] = {&item};
  HostBatch host(batch, instance_->node_name(), load_->container_depth);
  PyObject* const dict = host.dict(0);
  PyObject* const args[] = {dict};
  const Owned generator = checked(call_python(forward_->get(), args, 1));
  while (true) {
    PyObject* sent = nullptr;
    const PySendResult status =
        survive_finalization([&] { return PyIter_Send(generator.get(), Py_None, &sent); });
    if (status == PYGEN_ERROR) throw_python_error();
    const Owned value(sent);
    // What a generator returns, if anything, is the whole; else the last part is the result.
    if (status == PYGEN_NEXT || value.get() != Py_None) {
      check(PyDict_SetItemString(dict, "result", value.get()));
    }
    if (status == PYGEN_RETURN) break;
    if (!is_wanted(item, to_value(value.get(), load_->container_depth))) {
      const Owned closed = checked(survive_finalization(
          [&] { return PyObject_CallMethod(generator.get(), "close", nullptr); }));
      throw Error(ErrorKind::kCancelled, "cancelled", "nobody wants the rest of the results");
    }
  }
  host.take_changes();
}

}  // namespace

std::shared_ptr<Backend> create_python_backend(Build& build) {
  if (build.expr().is_condition) return create_python_condition(build);
  const GilAcquire gil;
  auto instance = std::make_unique<PythonInstance>(build);
  std::shared_ptr<Backend> backend;
  if (is_engine(*instance)) {
    backend = create_python_engine(build, std::move(instance));
  } else if (is_deferred(*instance)) {
    backend = create_python_deferred(build, std::move(instance));
  } else {
    backend = std::make_shared<PythonBackend>(build, std::move(instance));
  }
  build.scope().add_owner(backend);
  return backend;
}

}  // namespace hami::bind

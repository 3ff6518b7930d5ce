#include "bind/python_backend.h"

#include <mutex>
#include <string>
#include <utility>

#include "bind/async_run.h"
#include "bind/convert.h"
#include "bind/errors.h"
#include "bind/gil.h"
#include "bind/host_batch.h"
#include "bind/item_dict.h"
#include "bind/kv_storage_object.h"
#include "bind/owned.h"
#include "bind/python_condition.h"
#include "core/error.h"

namespace hami::bind {
namespace {

Owned import_instances() { return checked(PyImport_ImportModule("hami.instances")); }

// Calls hami.instances.NAME(node, instance, loop); what it raises has nowhere to go.
void call_instances(const char* name, const std::string& node, PyObject* instance,
                    PyObject* loop) noexcept {
  const Owned module(PyImport_ImportModule("hami.instances"));
  if (module) {
    const Owned done(survive_finalization([&] {
      return PyObject_CallMethod(module.get(), name, "sOO", node.c_str(), instance, loop);
    }));
  }
  PyErr_Clear();
}

// Passes a partial result on. False when the producer should stop.
bool is_wanted(const Item& item, Value partial) {
  if (item.partials == nullptr) return true;
  const GilRelease no_gil;
  return item.partials->push(std::move(partial));
}

class PythonBackend final : public Backend {
 public:
  explicit PythonBackend(Build& build);

  void forward(Batch batch) override;
  void tear_down() noexcept override;
  BatchRange batch_range() const override { return range_; }
  Traits traits() const override { return traits_; }
  std::string problem() const override;
  size_t group_of(const Item& item) const override {
    return groups_by_shape_ ? Backend::group_of(item) : 0;
  }

 private:
  // Counts the runs inside user code, so that an instance is not ended under its feet.
  class Stay;

  void read_traits();
  void read_range();
  Owned trait(const char* name) const;
  bool read_flag(const char* name) const;
  [[noreturn]] void refuse_trait(const char* name, const char* expected) const;
  bool is_generator() const;
  // Runs a generator on one item, whose partial results go out while it runs.
  void generate(Item& item) const;
  Owned call_forward(PyObject* list, Batch batch) const;
  void enter();
  void leave() noexcept;
  void end_instance() noexcept;

  const std::string node_name_;
  const Ref<PyHandle> instance_;
  const Ref<PyHandle> forward_;
  // The node's event loop, if `forward` is a coroutine function.
  const Ref<PyHandle> loop_;
  const std::shared_ptr<PipelineLoad> load_;
  BatchRange range_;
  Traits traits_;
  bool groups_by_shape_ = true;
  bool is_generator_ = false;
  // Whether the object was made for this pipeline.
  const bool is_owner_;
  // `close` may be called during a run, in order to end it.
  bool closes_while_running_ = false;

  std::mutex mutex_;
  int num_inside_ = 0;
  bool is_torn_down_ = false;
};

class PythonBackend::Stay {
 public:
  explicit Stay(PythonBackend& backend) : backend_(backend) { backend.enter(); }
  ~Stay() { backend_.leave(); }
  Stay(const Stay&) = delete;
  Stay& operator=(const Stay&) = delete;

 private:
  PythonBackend& backend_;
};

// The options dict that the Python backends of one expression share. It begins with what the
// pipeline gives them.
PyObject* shared_options(Build& build) {
  static const Key options_key = Key::intern("python_options");
  if (const Value* options = build.options().find(options_key)) {
    return static_cast<const PyHandle&>(options->as_any()).get();
  }
  Owned dict = checked(PyDict_New());
  const Owned storage = kv_storage_object(build.scope().storage());
  const Owned node_name = checked(PyUnicode_FromString(build.node_name().c_str()));
  check(PyDict_SetItemString(dict.get(), "storage", storage.get()));
  check(PyDict_SetItemString(dict.get(), "node_name", node_name.get()));
  auto handle = make_ref<PyHandle>(dict.detach());
  build.options().put(options_key, Value(Ref<Any>(handle)));
  return handle->get();
}

Ref<PyHandle> make_instance(Build& build) {
  PyObject* const options = shared_options(build);
  const Owned module = import_instances();
  const Owned params = to_dict(build.params().values(), nullptr);
  PyObject* const host = static_cast<PyHandle*>(build.expr().host.get())->get();
  PyObject* instance = survive_finalization([&] {
    return PyObject_CallMethod(module.get(), "instantiate", "OOO", host, params.get(), options);
  });
  if (instance == nullptr) throw_python_error();
  return make_ref<PyHandle>(instance);
}

Ref<PyHandle> find_loop(Build& build, PyObject* forward) {
  const Owned is_async =
      checked(PyObject_CallMethod(import_instances().get(), "is_async", "O", forward));
  return is_async.get() == Py_True ? event_loop_of_node(build) : nullptr;
}

PythonBackend::PythonBackend(Build& build)
    : node_name_(build.node_name()),
      instance_(make_instance(build)),
      forward_(make_ref<PyHandle>(
          checked(PyObject_GetAttrString(instance_->get(), "forward")).detach())),
      loop_(find_loop(build, forward_->get())),
      load_(build.scope().load()),
      is_owner_(instance_->get() != static_cast<PyHandle*>(build.expr().host.get())->get()) {
  read_traits();
  is_generator_ = is_generator();
  if (is_generator_) range_ = {1, 1};
  if (loop_) checked(PyObject_CallMethod(loop_->get(), "join", nullptr));
}

// Null where the object has no such attribute; what else the attribute raises is thrown.
Owned PythonBackend::trait(const char* name) const {
  Owned found(survive_finalization([&] { return PyObject_GetAttrString(instance_->get(), name); }));
  if (found) return found;
  if (PyErr_ExceptionMatches(PyExc_AttributeError) == 0) throw_python_error();
  PyErr_Clear();
  return found;
}

bool PythonBackend::read_flag(const char* name) const {
  const Owned flag = trait(name);
  if (!flag) return std::string_view(name) == "is_idempotent";
  const int is_true = survive_finalization([&] { return PyObject_IsTrue(flag.get()); });
  check(is_true);
  return is_true == 1;
}

void PythonBackend::refuse_trait(const char* name, const char* expected) const {
  throw Error(
      ErrorKind::kBuild, "build-trait",
      quoted(name) + " of " + quoted(Py_TYPE(instance_->get())->tp_name) + " must be " + expected,
      "set it in the class, or in `init`", "node `" + node_name_ + "`");
}

void PythonBackend::read_traits() {
  closes_while_running_ = read_flag("closes_while_running");
  traits_ = {.is_inline = read_flag("is_inline") && !loop_,
             .is_reentrant = read_flag("is_reentrant"),
             .is_idempotent = read_flag("is_idempotent"),
             .reads_everything = true};
  if (const Owned group_by = trait("group_by")) {
    const auto is = [&](const char* text) {
      return PyUnicode_Check(group_by.get()) &&
             PyUnicode_CompareWithASCIIString(group_by.get(), text) == 0;
    };
    groups_by_shape_ = is("shape");
    if (!groups_by_shape_ && !is("none")) refuse_trait("group_by", "`shape` or `none`");
  }
  read_range();
}

void PythonBackend::read_range() {
  const Owned range = trait("batch_range");
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
  refuse_trait("batch_range", "(fewest, most) with 1 <= fewest <= most, or None for any number");
}

bool PythonBackend::is_generator() const {
  const Owned module = checked(PyImport_ImportModule("inspect"));
  const Owned answer =
      checked(PyObject_CallMethod(module.get(), "isgeneratorfunction", "O", forward_->get()));
  return PyObject_IsTrue(answer.get()) == 1;
}

std::string PythonBackend::problem() const {
  const GilAcquire gil;
  const Owned method(PyObject_GetAttrString(instance_->get(), "problem"));
  PyErr_Clear();
  if (!method) return {};
  const Owned answer(call_python(method.get(), nullptr, 0));
  if (!answer) return describe(take_python_error());
  const char* text = PyUnicode_Check(answer.get()) ? PyUnicode_AsUTF8(answer.get()) : nullptr;
  PyErr_Clear();
  return text == nullptr ? "" : text;
}

void PythonBackend::forward(Batch batch) {
  const Stay stay(*this);
  const GilAcquire gil;
  drain_released();
  if (is_generator_) {
    for (Item* item : batch) generate(*item);
    return;
  }
  HostBatch host(batch, node_name_, load_->container_depth);
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

void PythonBackend::generate(Item& item) const {
  Item* const batch[] = {&item};
  HostBatch host(batch, node_name_, load_->container_depth);
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

// --- the end ---

void PythonBackend::enter() {
  const std::lock_guard lock(mutex_);
  if (is_torn_down_) {
    throw Error(ErrorKind::kClosed, "closed", "the pipeline is closed",
                "create a new pipeline with `hami.pipe(...)`");
  }
  ++num_inside_;
}

void PythonBackend::leave() noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (--num_inside_ > 0 || !is_torn_down_ || closes_while_running_) return;
  }
  end_instance();
}

void PythonBackend::tear_down() noexcept {
  bool is_inside = false;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(is_torn_down_, true)) return;
    is_inside = num_inside_ > 0;
  }
  if (!is_inside || closes_while_running_) {
    end_instance();
  } else if (!loop_) {
    // Whoever is inside ends it when the code of the user comes back.
    const GilAcquire gil;
    call_instances("report_abandoned", node_name_, instance_->get(), Py_None);
  }
}

void PythonBackend::end_instance() noexcept {
  const GilAcquire gil;
  // An object that the user registered goes on without this pipeline.
  PyObject* const own = is_owner_ ? instance_->get() : Py_None;
  call_instances("end", node_name_, own, loop_ ? loop_->get() : Py_None);
}

}  // namespace

std::shared_ptr<Backend> create_python_backend(Build& build) {
  if (build.expr().is_condition) return create_python_condition(build);
  const GilAcquire gil;
  auto backend = std::make_shared<PythonBackend>(build);
  build.scope().add_owner(backend);
  return backend;
}

}  // namespace hami::bind

#include "bind/python_instance.h"

#include <utility>

#include "bind/convert.h"
#include "bind/errors.h"
#include "bind/item_dict.h"
#include "bind/kv_storage_object.h"
#include "core/error.h"

namespace hami::bind {
namespace {

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
  const Owned instance_index = checked(PyLong_FromLong(build.instance_index()));
  check(PyDict_SetItemString(dict.get(), "node_name", node_name.get()));
  check(PyDict_SetItemString(dict.get(), "instance_index", instance_index.get()));
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

}  // namespace

Owned import_instances() { return checked(PyImport_ImportModule("hami.instances")); }

PythonInstance::PythonInstance(Build& build)
    : node_name_(build.node_name()),
      object_(make_instance(build)),
      is_owner_(object_->get() != static_cast<PyHandle*>(build.expr().host.get())->get()),
      closes_while_running_(read_flag("closes_while_running")) {}

Owned PythonInstance::trait(const char* name) const {
  Owned found(survive_finalization([&] { return PyObject_GetAttrString(get(), name); }));
  if (found) return found;
  if (PyErr_ExceptionMatches(PyExc_AttributeError) == 0) throw_python_error();
  PyErr_Clear();
  return found;
}

bool PythonInstance::read_flag(const char* name) const {
  const Owned flag = trait(name);
  if (!flag) return std::string_view(name) == "is_idempotent";
  const int is_true = survive_finalization([&] { return PyObject_IsTrue(flag.get()); });
  check(is_true);
  return is_true == 1;
}

void PythonInstance::refuse_trait(const char* name, const char* expected) const {
  throw Error(
      ErrorKind::kBuild, "build-trait",
      backticked(name) + " of " + backticked(Py_TYPE(get())->tp_name) + " must be " + expected,
      "set it in the class, or in `init`", "node `" + node_name_ + "`");
}

std::string PythonInstance::problem() const {
  const GilAcquire gil;
  const Owned method(PyObject_GetAttrString(get(), "problem"));
  PyErr_Clear();
  if (!method) return {};
  const Owned answer(call_python(method.get(), nullptr, 0));
  if (!answer) return describe(take_python_error());
  const char* text = PyUnicode_Check(answer.get()) ? PyUnicode_AsUTF8(answer.get()) : nullptr;
  PyErr_Clear();
  return text == nullptr ? "" : text;
}

Figures PythonInstance::figures() const {
  const GilAcquire gil;
  const Owned method(PyObject_GetAttrString(get(), "stats"));
  PyErr_Clear();
  Figures figures;
  if (!method) return figures;
  const Owned module(PyImport_ImportModule("hami.instances"));
  const Owned numbers(module ? survive_finalization([&] {
    return PyObject_CallMethod(module.get(), "figures", "sO", node_name_.c_str(), method.get());
  })
                             : nullptr);
  PyErr_Clear();
  if (!numbers) return figures;
  PyObject* name = nullptr;
  PyObject* number = nullptr;
  Py_ssize_t place = 0;
  while (PyDict_Next(numbers.get(), &place, &name, &number) != 0) {
    if (const char* text = PyUnicode_AsUTF8(name)) figures[text] = PyFloat_AsDouble(number);
  }
  PyErr_Clear();
  return figures;
}

void PythonInstance::enter() {
  const std::lock_guard lock(mutex_);
  if (is_torn_down_) {
    throw Error(ErrorKind::kClosed, "closed", "the pipeline is closed",
                "create a new pipeline with `hami.pipe(...)`");
  }
  ++num_inside_;
}

void PythonInstance::leave() noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (--num_inside_ > 0 || !is_torn_down_ || closes_while_running_) return;
  }
  end();
}

void PythonInstance::tear_down() noexcept {
  bool is_inside = false;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(is_torn_down_, true)) return;
    is_inside = num_inside_ > 0;
  }
  if (!is_inside || closes_while_running_) {
    end();
  } else if (!loop_) {
    // Whoever is inside ends it when the code of the user comes back.
    const GilAcquire gil;
    call_instances("report_abandoned", node_name_, get(), Py_None);
  }
}

void PythonInstance::end() noexcept {
  const GilAcquire gil;
  // An object that the user registered goes on without this pipeline.
  PyObject* const own = is_owner_ ? get() : Py_None;
  call_instances("end", node_name_, own, loop_ ? loop_->get() : Py_None);
}

}  // namespace hami::bind

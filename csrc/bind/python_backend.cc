#include "bind/python_backend.h"

#include <string>
#include <vector>

#include "bind/convert.h"
#include "bind/errors.h"
#include "bind/gil.h"
#include "bind/kv_storage_object.h"
#include "bind/owned.h"
#include "core/error.h"

namespace hami::bind {
namespace {

PyObject* base_of(const Item& item) {
  return item.base ? static_cast<PyHandle*>(item.base.get())->get() : nullptr;
}

Owned to_dict(const Dict& values, PyObject* base) {
  Owned dict = checked(base == nullptr ? PyDict_New() : PyDict_Copy(base));
  for (const auto& [key, value, is_written] : values) {
    const Owned name = checked(key_object(key));
    const Owned object = checked(from_value(value));
    check(PyDict_SetItem(dict.get(), name.get(), object.get()));
  }
  return dict;
}

// The dicts that user code sees, and copies from before it ran: what differs was set by it.
struct HostBatch {
  std::vector<Owned> before;
  Owned list;

  explicit HostBatch(Batch batch) {
    list = checked(PyList_New(static_cast<Py_ssize_t>(batch.size())));
    for (size_t i = 0; i < batch.size(); ++i) {
      Owned dict = to_dict(batch[i]->dict, base_of(*batch[i]));
      before.push_back(checked(PyDict_Copy(dict.get())));
      PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), Py_NewRef(dict.get()));
    }
  }
  // Kept apart from the list, which user code may change.
  std::vector<Owned> dicts() const {
    std::vector<Owned> dicts;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i) {
      dicts.emplace_back(Py_NewRef(PyList_GET_ITEM(list.get(), i)));
    }
    return dicts;
  }
};

Error wrong_count(const std::string& node, size_t expected, const std::string& got) {
  return Error(ErrorKind::kRequest, "backend-result-count",
               "`forward` got " + std::to_string(expected) + " items and returned " + got,
               "return a list with one result per item, or set `item[\"result\"]` and return None",
               "node `" + node + "`");
}

class PythonBackend final : public Backend {
 public:
  explicit PythonBackend(Build& build);

  void forward(Batch batch) override;
  BatchRange batch_range() const override { return range_; }
  Traits traits() const override { return traits_; }
  size_t group_of(const Item& item) const override {
    return groups_by_shape_ ? Backend::group_of(item) : 0;
  }

 private:
  void read_traits();
  bool read_flag(const char* name) const;
  // What user code set, or returned, goes into the items.
  void take_results(Batch batch, const std::vector<Owned>& dicts, PyObject* returned) const;
  std::exception_ptr error_of_item(PyObject* object) const;
  void take_changes(Item& item, PyObject* before, PyObject* dict) const;
  void take_removals(Item& item, PyObject* before, PyObject* dict) const;

  const std::string node_name_;
  const Ref<PyHandle> instance_;
  const Ref<PyHandle> forward_;
  const std::shared_ptr<PipelineLoad> load_;
  BatchRange range_;
  Traits traits_;
  bool groups_by_shape_ = true;
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
  const Owned module = checked(PyImport_ImportModule("hami.backend"));
  const Owned params = to_dict(build.params().values(), nullptr);
  PyObject* const host = static_cast<PyHandle*>(build.expr().host.get())->get();
  PyObject* instance = survive_finalization([&] {
    return PyObject_CallMethod(module.get(), "instantiate", "OOO", host, params.get(), options);
  });
  if (instance == nullptr) throw_python_error();
  return make_ref<PyHandle>(instance);
}

PythonBackend::PythonBackend(Build& build)
    : node_name_(build.node_name()),
      instance_(make_instance(build)),
      forward_(make_ref<PyHandle>(PyObject_GetAttrString(instance_->get(), "forward"))),
      load_(build.scope().load()) {
  if (forward_->get() == nullptr) throw_python_error();
  read_traits();
}

bool PythonBackend::read_flag(const char* name) const {
  const Owned flag(PyObject_GetAttrString(instance_->get(), name));
  if (!flag) {
    PyErr_Clear();
    return std::string_view(name) == "is_idempotent";
  }
  return PyObject_IsTrue(flag.get()) == 1;
}

void PythonBackend::read_traits() {
  traits_ = {.is_inline = read_flag("is_inline"),
             .is_reentrant = read_flag("is_reentrant"),
             .is_idempotent = read_flag("is_idempotent"),
             .reads_everything = true};
  const Owned group_by(PyObject_GetAttrString(instance_->get(), "group_by"));
  PyErr_Clear();
  groups_by_shape_ = !group_by || PyUnicode_CompareWithASCIIString(group_by.get(), "none") != 0;
  const Owned range(PyObject_GetAttrString(instance_->get(), "batch_range"));
  PyErr_Clear();
  if (!range) return;
  PyObject* most = nullptr;
  long long least = 1;
  if (PyArg_ParseTuple(range.get(), "LO", &least, &most) == 0) throw_python_error();
  range_ = {least, most == Py_None ? BatchRange::kAny : PyLong_AsLongLong(most)};
}

void PythonBackend::forward(Batch batch) {
  const GilAcquire gil;
  drain_released();
  const HostBatch host(batch);
  const std::vector<Owned> dicts = host.dicts();
  PyObject* const args[] = {host.list.get()};
  const Owned returned = checked(call_python(forward_->get(), args, 1));
  take_results(batch, dicts, returned.get());
  for (size_t i = 0; i < batch.size(); ++i) {
    try {
      take_changes(*batch[i], host.before[i].get(), dicts[i].get());
    } catch (...) {
      batch[i]->error = std::current_exception();
    }
  }
}

void PythonBackend::take_results(Batch batch, const std::vector<Owned>& dicts,
                                 PyObject* returned) const {
  if (returned == Py_None) return;
  if (!PyList_Check(returned) && !PyTuple_Check(returned)) {
    throw wrong_count(node_name_, batch.size(),
                      std::string("a `") + Py_TYPE(returned)->tp_name + "`");
  }
  const auto size = static_cast<size_t>(PySequence_Fast_GET_SIZE(returned));
  if (size != batch.size()) {
    throw wrong_count(node_name_, batch.size(), std::to_string(size) + " results");
  }
  for (size_t i = 0; i < size; ++i) {
    PyObject* result = PySequence_Fast_GET_ITEM(returned, static_cast<Py_ssize_t>(i));
    check(PyDict_SetItemString(dicts[i].get(), "result", result));
  }
}

// What user code put under `error`: an exception, or a class of one as `raise` accepts it.
std::exception_ptr PythonBackend::error_of_item(PyObject* object) const {
  if (PyExceptionInstance_Check(object)) return to_error(object);
  if (!PyExceptionClass_Check(object)) {
    return std::make_exception_ptr(
        Error(ErrorKind::kRequest, "backend-error-type",
              std::string("a backend set `error` to a `") + Py_TYPE(object)->tp_name + "`",
              "set it to an exception", "node `" + node_name_ + "`"));
  }
  const Owned exception = checked(call_python(object, nullptr, 0));
  return to_error(exception.get());
}

void PythonBackend::take_changes(Item& item, PyObject* before, PyObject* dict) const {
  PyObject* name = nullptr;
  PyObject* object = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(dict, &position, &name, &object) != 0) {
    PyObject* known = PyDict_GetItemWithError(before, name);
    if (known == object) continue;
    if (known == nullptr && PyErr_Occurred() != nullptr) throw_python_error();
    Key key = keys::data;
    if (!PyUnicode_Check(name) || !to_key(name, key)) {
      throw Error(ErrorKind::kRequest, "backend-result-key",
                  "a backend set a key of type " + quoted(Py_TYPE(name)->tp_name),
                  "use text as keys", "node `" + node_name_ + "`");
    }
    if (key == keys::error && object != Py_None) {
      item.error = error_of_item(object);
    } else {
      item.dict.set(key, to_value(object, load_->container_depth));
    }
  }
  take_removals(item, before, dict);
}

void PythonBackend::take_removals(Item& item, PyObject* before, PyObject* dict) const {
  PyObject* name = nullptr;
  PyObject* object = nullptr;
  Py_ssize_t position = 0;
  Owned base;
  while (PyDict_Next(before, &position, &name, &object) != 0) {
    if (PyDict_Contains(dict, name) == 1) continue;
    Key key = keys::data;
    if (PyUnicode_Check(name) && to_key(name, key)) item.dict.erase(key);
    if (base_of(item) == nullptr || PyDict_Contains(base_of(item), name) != 1) continue;
    if (!base) base = checked(PyDict_Copy(base_of(item)));
    check(PyDict_DelItem(base.get(), name));
  }
  if (base) item.base = hold(base.get());
}

}  // namespace

std::shared_ptr<Backend> create_python_backend(Build& build) {
  const GilAcquire gil;
  return std::make_shared<PythonBackend>(build);
}

}  // namespace hami::bind

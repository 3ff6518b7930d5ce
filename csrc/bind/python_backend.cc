#include "bind/python_backend.h"

#include <string>
#include <vector>

#include "bind/convert.h"
#include "bind/errors.h"
#include "bind/gil.h"
#include "bind/item_dict.h"
#include "bind/owned.h"
#include "bind/python_condition.h"
#include "core/error.h"

namespace hami::bind {
namespace {

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

// Passes a partial result on. False when the producer should stop.
bool is_wanted(const Item& item, Value partial) {
  if (item.partials == nullptr) return true;
  const GilRelease no_gil;
  return item.partials->push(std::move(partial));
}

Error wrong_key(const std::string& node, PyObject* name) {
  const char* what =
      PyUnicode_Check(name) ? "that has no form in UTF-8 (lone surrogates), of type " : "of type ";
  return Error(ErrorKind::kRequest, "backend-result-key",
               std::string("a backend set a key ") + what + quoted(Py_TYPE(name)->tp_name),
               "use text as keys", "node `" + node + "`");
}

bool contains(PyObject* dict, PyObject* name) {
  const int found = PyDict_Contains(dict, name);
  check(found);
  return found == 1;
}

class PythonBackend final : public Backend {
 public:
  explicit PythonBackend(Build& build);

  void forward(Batch batch) override;
  BatchRange batch_range() const override { return range_; }
  Traits traits() const override { return traits_; }
  std::string problem() const override;
  size_t group_of(const Item& item) const override {
    return groups_by_shape_ ? Backend::group_of(item) : 0;
  }

 private:
  void read_traits();
  void read_range();
  Owned trait(const char* name) const;
  bool read_flag(const char* name) const;
  bool is_generator() const;
  // Runs a generator on one item, whose partial results go out while it runs.
  void generate(Item& item) const;
  [[noreturn]] void refuse_trait(const char* name, const char* expected) const;
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
  bool is_generator_ = false;
};

Ref<PyHandle> make_instance(Build& build) {
  static const Key options_key = Key::intern("python_options");
  const Value* options = build.options().find(options_key);
  if (options == nullptr) {
    PyObject* dict = PyDict_New();
    if (dict == nullptr) throw_python_error();
    build.options().put(options_key, Value(Ref<Any>(make_ref<PyHandle>(dict))));
    options = build.options().find(options_key);
  }
  const Owned module = checked(PyImport_ImportModule("hami.backend"));
  const Owned params = to_dict(build.params().values(), nullptr);
  PyObject* const host = static_cast<PyHandle*>(build.expr().host.get())->get();
  PyObject* instance = survive_finalization([&] {
    return PyObject_CallMethod(module.get(), "instantiate", "OOO", host, params.get(),
                               static_cast<const PyHandle&>(options->as_any()).get());
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
  is_generator_ = is_generator();
  if (is_generator_) range_ = {1, 1};
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
  traits_ = {.is_inline = read_flag("is_inline"),
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
  const GilAcquire gil;
  drain_released();
  if (is_generator_) {
    for (Item* item : batch) generate(*item);
    return;
  }
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

void PythonBackend::generate(Item& item) const {
  Item* const batch[] = {&item};
  const HostBatch host(batch);
  PyObject* const dict = PyList_GET_ITEM(host.list.get(), 0);
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
  take_changes(item, host.before[0].get(), dict);
}

void PythonBackend::take_results(Batch batch, const std::vector<Owned>& dicts,
                                 PyObject* returned) const {
  if (returned == Py_None) return;
  if (!PyList_Check(returned) && !PyTuple_Check(returned)) {
    throw wrong_count(node_name_, batch.size(),
                      std::string("a `") + Py_TYPE(returned)->tp_name + "`");
  }
  // A copy: what a result takes the place of may run code that changes the list.
  const Owned results =
      checked(PyList_Check(returned) ? PyList_AsTuple(returned) : Py_NewRef(returned));
  const auto size = static_cast<size_t>(PyTuple_GET_SIZE(results.get()));
  if (size != batch.size()) {
    throw wrong_count(node_name_, batch.size(), std::to_string(size) + " results");
  }
  for (size_t i = 0; i < size; ++i) {
    PyObject* result = PyTuple_GET_ITEM(results.get(), static_cast<Py_ssize_t>(i));
    check(PyDict_SetItemString(dicts[i].get(), "result", result));
  }
}

// What user code put under `error`: an exception, or a class of one as `raise` accepts it.
std::exception_ptr PythonBackend::error_of_item(PyObject* object) const {
  if (PyExceptionInstance_Check(object)) return to_error(object);
  Owned made;
  if (PyExceptionClass_Check(object)) made = checked(call_python(object, nullptr, 0));
  if (made && PyExceptionInstance_Check(made.get())) return to_error(made.get());
  return std::make_exception_ptr(
      Error(ErrorKind::kRequest, "backend-error-type",
            std::string("a backend set `error` to a `") + Py_TYPE(object)->tp_name + "`",
            "set it to an exception", "node `" + node_name_ + "`"));
}

void PythonBackend::take_changes(Item& item, PyObject* before, PyObject* dict) const {
  PyObject* name = nullptr;
  PyObject* object = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(dict, &position, &name, &object) != 0) {
    PyObject* known = PyDict_GetItemWithError(before, name);
    if (known == object) continue;
    if (known == nullptr && PyErr_Occurred() != nullptr) throw_python_error();
    // Held, because looking at the object may run code that takes it out of the dict.
    const Owned held_name(Py_NewRef(name));
    const Owned held_object(Py_NewRef(object));
    Key key = keys::data;
    if (!PyUnicode_Check(name) || !to_key(name, key)) throw wrong_key(node_name_, name);
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
    if (contains(dict, name)) continue;
    Key key = keys::data;
    if (PyUnicode_Check(name) && to_key(name, key)) item.dict.erase(key);
    if (base_of(item) == nullptr || !contains(base_of(item), name)) continue;
    if (!base) base = checked(PyDict_Copy(base_of(item)));
    check(PyDict_DelItem(base.get(), name));
  }
  if (base) item.base = hold(base.get());
}

}  // namespace

std::shared_ptr<Backend> create_python_backend(Build& build) {
  if (build.expr().is_condition) return create_python_condition(build);
  const GilAcquire gil;
  return std::make_shared<PythonBackend>(build);
}

}  // namespace hami::bind

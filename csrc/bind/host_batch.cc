#include "bind/host_batch.h"

#include "bind/convert.h"
#include "bind/errors.h"
#include "bind/free_threading.h"
#include "bind/gil.h"
#include "bind/item_dict.h"
#include "bind/settle.h"
#include "core/error.h"

namespace hami::bind {
namespace {

bool contains(PyObject* dict, PyObject* name) {
  const int found = PyDict_Contains(dict, name);
  check(found);
  return found == 1;
}

}  // namespace

HostBatch::HostBatch(Batch batch, const std::string& node, int container_depth)
    : batch_(batch), node_(node), container_depth_(container_depth) {
  list_ = checked(PyList_New(static_cast<Py_ssize_t>(batch.size())));
  for (size_t i = 0; i < batch.size(); ++i) {
    dicts_.push_back(to_dict(batch[i]->dict, base_of(*batch[i])));
    before_.push_back(checked(PyDict_Copy(dict(i))));
    PyList_SET_ITEM(list_.get(), static_cast<Py_ssize_t>(i), Py_NewRef(dict(i)));
  }
}

void HostBatch::take_results(PyObject* returned) {
  if (returned == Py_None) return;
  if (!PyList_Check(returned) && !PyTuple_Check(returned)) {
    throw wrong_count(std::string("a `") + Py_TYPE(returned)->tp_name + "`");
  }
  // A copy: what a result takes the place of may run code that changes the list.
  const Owned results =
      checked(PyList_Check(returned) ? PyList_AsTuple(returned) : Py_NewRef(returned));
  const auto size = static_cast<size_t>(PyTuple_GET_SIZE(results.get()));
  if (size != batch_.size()) throw wrong_count(std::to_string(size) + " results");
  for (size_t i = 0; i < size; ++i) {
    PyObject* result = PyTuple_GET_ITEM(results.get(), static_cast<Py_ssize_t>(i));
    check(PyDict_SetItemString(dict(i), "result", result));
  }
}

void HostBatch::take_changes() {
  const SettledOnce scope;  // whatever the backend made, it made before it returned
  for (size_t i = 0; i < batch_.size(); ++i) {
    try {
      take_changes_of(i);
    } catch (...) {
      batch_[i]->error = std::current_exception();
    }
  }
}

void HostBatch::take_changes_of(size_t index) const {
  Item& item = *batch_[index];
  PyObject* name = nullptr;
  PyObject* object = nullptr;
  Py_ssize_t position = 0;
  const ObjectLock lock(dict(index));
  while (PyDict_Next(dict(index), &position, &name, &object) != 0) {
    // Held, because looking at them may run code that takes them out of the dict.
    const Owned held_name(Py_NewRef(name));
    const Owned held_object(Py_NewRef(object));
    if (find_in(before_[index].get(), name).get() == object) continue;
    Key key = keys::data;
    if (!PyUnicode_Check(name) || !to_key(name, key)) throw wrong_key(name);
    if (key == keys::error && object != Py_None) {
      item.error = error_of_item(object);
    } else {
      item.dict.set(key, to_value(object, container_depth_));
    }
  }
  take_removals_of(index);
}

void HostBatch::take_removals_of(size_t index) const {
  Item& item = *batch_[index];
  PyObject* name = nullptr;
  PyObject* object = nullptr;
  Py_ssize_t position = 0;
  Owned base;
  while (PyDict_Next(before_[index].get(), &position, &name, &object) != 0) {
    if (contains(dict(index), name)) continue;
    Key key = keys::data;
    if (PyUnicode_Check(name) && to_key(name, key)) item.dict.erase(key);
    if (base_of(item) == nullptr || !contains(base_of(item), name)) continue;
    if (!base) base = checked(PyDict_Copy(base_of(item)));
    check(PyDict_DelItem(base.get(), name));
  }
  if (base) item.base = hold(base.get());
}

// What user code put under `error`: an exception, or a class of one as `raise` accepts it.
std::exception_ptr HostBatch::error_of_item(PyObject* object) const {
  if (PyExceptionInstance_Check(object)) return to_error(object);
  Owned made;
  if (PyExceptionClass_Check(object)) made = checked(call_python(object, nullptr, 0));
  if (made && PyExceptionInstance_Check(made.get())) return to_error(made.get());
  return std::make_exception_ptr(
      Error(ErrorKind::kRequest, "backend-error-type",
            std::string("a backend set `error` to a `") + Py_TYPE(object)->tp_name + "`",
            "set it to an exception", "node `" + node_ + "`"));
}

Error HostBatch::wrong_count(const std::string& got) const {
  return Error(ErrorKind::kRequest, "backend-result-count",
               "`forward` got " + std::to_string(batch_.size()) + " items and returned " + got,
               "return a list with one result per item, or set `item[\"result\"]` and return None",
               "node `" + node_ + "`");
}

Error HostBatch::wrong_key(PyObject* name) const {
  const char* what =
      PyUnicode_Check(name) ? "that has no form in UTF-8 (lone surrogates), of type " : "of type ";
  return Error(ErrorKind::kRequest, "backend-result-key",
               std::string("a backend set a key ") + what + backticked(Py_TYPE(name)->tp_name),
               "use text as keys", "node `" + node_ + "`");
}

}  // namespace hami::bind

#include "bind/convert.h"

#include "bind/errors.h"
#include "bind/free_threading.h"
#include "bind/gil.h"
#include "bind/owned.h"
#include "bind/tensor_object.h"
#include "core/failure.h"
#include "core/tensor.h"

namespace hami::bind {
namespace {

// The characters stay in the Python object, which caches them as UTF-8.
bool to_text(PyObject* object, Value& value) {
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(object, &size);
  if (text == nullptr) {  // lone surrogates have no UTF-8 form
    PyErr_Clear();
    return false;
  }
  value = Value::str(
      make_ref<Text>(std::string_view(text, static_cast<size_t>(size)), Ref<Object>(hold(object))));
  return true;
}

// Looking at an element may run code of its class, which may change the container: hence the size
// is read anew each time, and the element is held.
Value to_list(PyObject* sequence, int depth) {
  auto list = make_ref<List>();
  const ObjectLock lock(sequence);
  list->values.reserve(static_cast<size_t>(PySequence_Fast_GET_SIZE(sequence)));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence); ++i) {
    const Owned element(Py_NewRef(PySequence_Fast_GET_ITEM(sequence, i)));
    list->values.push_back(to_value(element.get(), depth - 1));
  }
  list->set_origin(hold(sequence));
  return Value(std::move(list));
}

bool to_table(PyObject* dict, int depth, Value& value) {
  auto table = make_ref<Table>();
  PyObject* name = nullptr;
  PyObject* element = nullptr;
  Py_ssize_t position = 0;
  const ObjectLock lock(dict);
  while (PyDict_Next(dict, &position, &name, &element)) {
    Key key = keys::data;
    if (!PyUnicode_CheckExact(name) || !to_key(name, key)) return false;
    const Owned held(Py_NewRef(element));
    table->dict.put(key, to_value(element, depth - 1));
  }
  table->set_origin(hold(dict));
  value = Value(std::move(table));
  return true;
}

PyObject* from_list(const List& list) {
  PyObject* object = PyList_New(static_cast<Py_ssize_t>(list.values.size()));
  if (object == nullptr) return nullptr;
  for (size_t i = 0; i < list.values.size(); ++i) {
    PyObject* element = from_value(list.values[i]);
    if (element == nullptr) {
      Py_DECREF(object);
      return nullptr;
    }
    PyList_SET_ITEM(object, static_cast<Py_ssize_t>(i), element);
  }
  return object;
}

PyObject* from_table(const Table& table) {
  PyObject* object = PyDict_New();
  for (const auto& [key, value, written_at] : table.dict) {
    PyObject* name = key_object(key);
    PyObject* element = from_value(value);
    const bool is_set = name != nullptr && element != nullptr && object != nullptr &&
                        PyDict_SetItem(object, name, element) == 0;
    Py_XDECREF(name);
    Py_XDECREF(element);
    if (!is_set) {
      Py_XDECREF(object);
      return nullptr;
    }
  }
  return object;
}

PyObject* from_any(const Any& any) {
  if (const auto* handle = dynamic_cast<const PyHandle*>(&any)) return Py_NewRef(handle->get());
  if (const auto* failure = dynamic_cast<const Failure*>(&any)) {
    return exception_object(failure->error, failure->site);
  }
  // A C++ backend's own object has no form in Python; its name is the best that can be shown.
  return PyUnicode_FromString(any.type_name().c_str());
}

}  // namespace

Value to_value(PyObject* object, int depth) {
  if (object == Py_None) return Value();
  if (object == Py_True) return Value(true);
  if (object == Py_False) return Value(false);
  if (PyLong_CheckExact(object)) {
    int overflow = 0;
    const int64_t integer = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow == 0) return Value(integer);
  } else if (PyFloat_CheckExact(object)) {
    return Value(PyFloat_AS_DOUBLE(object));
  } else if (PyUnicode_CheckExact(object)) {
    Value text;
    if (to_text(object, text)) return text;
  } else if (PyBytes_CheckExact(object)) {
    const std::string_view view(PyBytes_AS_STRING(object),
                                static_cast<size_t>(PyBytes_GET_SIZE(object)));
    return Value::bytes(make_ref<Bytes>(view, Ref<Object>(hold(object))));
  } else if (PyList_CheckExact(object) || PyTuple_CheckExact(object)) {
    if (depth > 0) return to_list(object, depth);
  } else if (PyDict_CheckExact(object)) {
    Value table;
    if (depth > 0 && to_table(object, depth, table)) return table;
  } else if (auto tensor = to_tensor(object)) {
    return Value(std::move(tensor));
  }
  return Value(Ref<Any>(hold(object)));
}

PyObject* from_value(const Value& value) {
  if (value.object() != nullptr) {
    if (PyObject* origin = host_object(*value.object())) return Py_NewRef(origin);
  }
  switch (value.kind()) {
    case Value::Kind::kNone:
      return Py_NewRef(Py_None);
    case Value::Kind::kBool:
      return PyBool_FromLong(value.as_bool());
    case Value::Kind::kInt:
      return PyLong_FromLongLong(value.as_int());
    case Value::Kind::kFloat:
      return PyFloat_FromDouble(value.as_float());
    case Value::Kind::kStr:
      return PyUnicode_DecodeUTF8(value.as_text().data(),
                                  static_cast<Py_ssize_t>(value.as_text().size()), "replace");
    case Value::Kind::kBytes:
      return PyBytes_FromStringAndSize(value.as_text().data(),
                                       static_cast<Py_ssize_t>(value.as_text().size()));
    case Value::Kind::kTensor:
      return from_tensor(Ref<Tensor>(&value.as_tensor()));
    case Value::Kind::kList:
      return from_list(value.as_list());
    case Value::Kind::kTable:
      return from_table(value.as_table());
    case Value::Kind::kAny:
      return from_any(value.as_any());
  }
  Py_RETURN_NONE;
}

PyObject* key_object(const Key& key) {
  if (PyObject* origin = host_object(*key.object())) return Py_NewRef(origin);
  PyObject* name =
      PyUnicode_FromStringAndSize(key.text().data(), static_cast<Py_ssize_t>(key.text().size()));
  if (name == nullptr) return nullptr;
  // Made once for each key. The dicts of Python compare interned names by address.
  PyUnicode_InternInPlace(&name);
  key.object()->set_origin(hold(name));
  return name;
}

bool to_key(PyObject* name, Key& key) {
  Value text;
  if (!to_text(name, text)) return false;
  key = Key(Ref<Text>(static_cast<Text*>(text.object().get())));
  return true;
}

}  // namespace hami::bind

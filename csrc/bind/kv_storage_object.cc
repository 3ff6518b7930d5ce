#include "bind/kv_storage_object.h"

#include <optional>
#include <string>

#include "bind/convert.h"
#include "bind/guarded.h"
#include "bind/method.h"

namespace py = pybind11;

namespace hami::bind {
namespace {

// Only what must be text or a number for C++ is opened; all other objects stay as they are.
Value stored(const py::object& object) { return to_value(object.ptr(), 0); }

py::object loaded(const std::optional<Value>& value, const py::object& otherwise) {
  if (!value) return otherwise;
  PyObject* object = from_value(*value);
  if (object == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(object);
}

py::object get(const KVStorage& storage, const py::object& request_id, const std::string& key,
               const py::object& otherwise) {
  return loaded(guarded([&] { return storage.get(stored(request_id), key); }), otherwise);
}

py::object pop(KVStorage& storage, const py::object& request_id, const std::string& key,
               const py::object& otherwise) {
  return loaded(guarded([&] { return storage.erase(stored(request_id), key); }), otherwise);
}

void set(KVStorage& storage, const py::object& request_id, const std::string& key,
         const py::object& value) {
  guarded([&] {
    storage.set(stored(request_id), key, stored(value));
    return true;
  });
}

size_t drop(KVStorage& storage, const py::object& request_id) {
  return guarded([&] { return storage.erase_all(stored(request_id)); });
}

}  // namespace

void define_kv_storage(py::module_& module) {
  py::class_<KVStorage, std::shared_ptr<KVStorage>>(
      module, "KVStorage", "What the backends of a pipeline keep, by request id and key.")
      .def(py::init<>())
      .def("get", method(&get), py::arg("request_id"), py::arg("key"),
           py::arg("default") = py::none())
      .def("set", method(&set), py::arg("request_id"), py::arg("key"), py::arg("value"))
      .def("pop", method(&pop), py::arg("request_id"), py::arg("key"),
           py::arg("default") = py::none())
      .def("drop", method(&drop), py::arg("request_id"),
           "Drops all that one request left; returns how many values that were.")
      .def("__len__", method(&KVStorage::size));
}

Owned kv_storage_object(const std::shared_ptr<KVStorage>& storage) {
  return Owned(py::cast(storage).release().ptr());
}

}  // namespace hami::bind

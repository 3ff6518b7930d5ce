// `Owned`: a Python reference for the length of a scope, and checks that turn Python errors into
// C++ exceptions. Everything here needs the GIL.
#pragma once

#include <Python.h>

#include <exception>
#include <utility>

#include "bind/errors.h"

namespace hami::bind {

class Owned {
 public:
  // Steals the reference.
  explicit Owned(PyObject* object = nullptr) : object_(object) {}
  Owned(Owned&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Owned& operator=(Owned other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Owned() { Py_XDECREF(object_); }
  PyObject* get() const noexcept { return object_; }
  PyObject* detach() noexcept { return std::exchange(object_, nullptr); }
  explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  PyObject* object_;
};

// The object, or the Python error that is set instead.
inline Owned checked(PyObject* object) {
  if (object == nullptr) throw_python_error();
  return Owned(object);
}

// The value of a key in a dict; null when absent. Owned, because looking at a value may run code of
// its class, which may take it out of the dict.
inline Owned find_in(PyObject* dict, PyObject* name) {
#if PY_VERSION_HEX >= 0x030D0000
  PyObject* found = nullptr;
  if (PyDict_GetItemRef(dict, name, &found) < 0) throw_python_error();
  return Owned(found);
#else
  PyObject* found = PyDict_GetItemWithError(dict, name);
  if (found == nullptr && PyErr_Occurred() != nullptr) throw_python_error();
  return Owned(Py_XNewRef(found));
#endif
}

inline void check(int status) {
  if (status < 0) throw_python_error();
}

// What `call` throws, or null. Python must not be called inside a catch block: should the
// interpreter end meanwhile, a second exception on top of the caught one would end the process.
template <class Call>
std::exception_ptr error_of(Call call) {
  try {
    call();
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace hami::bind

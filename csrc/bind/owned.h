// `Owned`: a Python reference for the length of a scope, and checks that turn Python errors into
// C++ exceptions. Everything here needs the GIL.
#pragma once

#include <Python.h>

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

inline void check(int status) {
  if (status < 0) throw_python_error();
}

}  // namespace hami::bind

// Classes for pybind11 whose objects may be there without ever having been made: by
// `Class.__new__(Class)`, or when `__init__` raised. pybind11 would hand out raw memory for them.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <utility>

namespace hami::bind {

// What `self` holds. Throws TypeError when it is of another class, or was never made.
template <class Class>
Class& made(pybind11::handle self) {
  if (pybind11::isinstance<Class>(self)) {
    auto* const object = reinterpret_cast<pybind11::detail::instance*>(self.ptr());
    if (object->get_value_and_holder().holder_constructed()) return self.cast<Class&>();
  }
  const std::string name = pybind11::str(pybind11::type::of<Class>().attr("__name__"));
  throw pybind11::type_error("this `" + name + "` was never made: its `__init__` has not run");
}

// A member, or a function that takes the object first, as a method that refuses such objects.
template <class Result, class Class, class... Args>
auto method(Result (Class::*member)(Args...)) {
  return [member](pybind11::handle self, Args... args) -> Result {
    return (made<Class>(self).*member)(std::forward<Args>(args)...);
  };
}

template <class Result, class Class, class... Args>
auto method(Result (Class::*member)(Args...) const) {
  return [member](pybind11::handle self, Args... args) -> Result {
    return (made<Class>(self).*member)(std::forward<Args>(args)...);
  };
}

template <class Result, class Class>
auto method(Result (Class::*member)() const noexcept) {
  return [member](pybind11::handle self) -> Result { return (made<Class>(self).*member)(); };
}

template <class Result, class Class, class... Args>
auto method(Result (*function)(Class&, Args...)) {
  return [function](pybind11::handle self, Args... args) -> Result {
    return function(made<Class>(self), std::forward<Args>(args)...);
  };
}

// For classes whose objects only the core makes.
inline void refuse_new(PyHeapTypeObject* type) {
  type->ht_type.tp_new = [](PyTypeObject* wanted, PyObject*, PyObject*) -> PyObject* {
    PyErr_Format(PyExc_TypeError, "only the core makes objects of `%s`", wanted->tp_name);
    return nullptr;
  };
}

}  // namespace hami::bind

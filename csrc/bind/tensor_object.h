// Arrays of the host language as tensors and back: through the buffer protocol first (numpy refuses
// to export read-only arrays through DLPack), DLPack second. Everything here needs the GIL.
#pragma once

#include <Python.h>
#include <pybind11/pybind11.h>

#include "core/tensor.h"

namespace hami::bind {

// A view of the array's memory, kept alive by the view; null when the object is not an array of
// numbers. Leaves no Python error behind.
Ref<Tensor> to_tensor(PyObject* object);

// A numpy array that shares the memory, where numpy is installed and knows the type; else a torch
// tensor, where torch is loaded; else an object of `hami._core.Tensor`. A new reference, or null
// with a Python error.
PyObject* from_tensor(Ref<Tensor> tensor);

// Calls hami.tensors.NAME: a new reference, or null with a Python error.
PyObject* call_tensors(const char* name, PyObject* first, PyObject* second = nullptr);

void define_tensor(pybind11::module_& module);

}  // namespace hami::bind

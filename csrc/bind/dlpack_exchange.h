// Arrays of libraries that offer DLPack's table of functions (torch since 2.10): they cross the
// border without a call of Python code. Everything here needs the GIL and leaves no Python error.
#pragma once

#include <Python.h>

#include "core/dlpack.h"
#include "core/tensor.h"

namespace hami::bind {

// The table of a class of arrays; null where it offers none of our version.
const dlpack::ExchangeTable* exchange_table(PyTypeObject* type);

// A view of the array's memory, or null where the table refuses it. No stream is waited for.
Ref<Tensor> from_exchange(const dlpack::ExchangeTable& table, PyObject* object);

// An array of the library that shares the memory, a new reference; null where it refuses.
PyObject* to_exchange(const dlpack::ExchangeTable& table, Ref<Tensor> tensor);

}  // namespace hami::bind

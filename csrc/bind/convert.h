// Values of the core from Python objects and back. An object that only passes through comes back as
// itself. Everything here needs the GIL.
#pragma once

#include <Python.h>

#include "core/dict.h"
#include "core/value.h"

namespace hami::bind {

// Never fails: what the core cannot look into becomes an opaque handle. Lists, tuples and dicts
// are opened `container_depth` levels deep.
Value to_value(PyObject* object, int container_depth);

// A new reference; null with a Python error set when memory or an import fails.
PyObject* from_value(const Value& value);

// The name as a Python string, a new reference.
PyObject* key_object(const Key& key);
// REQUIRES: a Python string. False where it has no UTF-8 form.
bool to_key(PyObject* name, Key& key);

}  // namespace hami::bind

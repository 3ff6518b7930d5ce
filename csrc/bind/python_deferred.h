// Python backends that answer later: `start(item, reply)` takes a request over, and whoever holds
// the `reply` ends it, on any thread.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "bind/python_instance.h"

namespace hami::bind {

// Whether the object has a `start` instead of a `forward`. REQUIRES: the GIL.
bool is_deferred(const PythonInstance& instance);

// REQUIRES: the GIL; `is_deferred(*instance)`.
std::shared_ptr<Backend> create_python_deferred(Build& build,
                                                std::unique_ptr<PythonInstance> instance);

// The class `Reply`.
void define_reply(pybind11::module_& module);

}  // namespace hami::bind

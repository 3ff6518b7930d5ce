// `PythonBackend`: a class, function or object of the user as a backend. It takes the GIL once per
// batch, hands over real dicts, and carries what they gained back into the items.
#pragma once

#include <Python.h>

#include <memory>

#include "core/backend.h"
#include "plan/build.h"

namespace hami::bind {

// Makes the backend that `build.expr().host` describes. Throws what the user's code raises.
std::shared_ptr<Backend> create_python_backend(Build& build);

}  // namespace hami::bind

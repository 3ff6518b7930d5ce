// An engine whose model is run by Python code (hami.engine.Engine): requests are checked, gathered
// and handed out by the core, and the GIL is taken once for the run of a batch.
#pragma once

#include <memory>

#include "bind/python_instance.h"

namespace hami::bind {

// Whether the object says of itself that it is an engine. REQUIRES: the GIL.
bool is_engine(const PythonInstance& instance);

// Reads the description of the object. Throws a build error where it is not one.
// REQUIRES: the GIL; `is_engine(*instance)`.
std::shared_ptr<Backend> create_python_engine(Build& build,
                                              std::unique_ptr<PythonInstance> instance);

}  // namespace hami::bind

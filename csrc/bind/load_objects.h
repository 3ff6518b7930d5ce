// `LoadSamples` and `LoadRun`: inputs that are read once, and one round of load on a pipeline. The
// round runs on threads of the core; Python waits for it without the GIL.
#pragma once

#include <pybind11/pybind11.h>

namespace hami::bind {

void define_load(pybind11::module_& module);

}  // namespace hami::bind

// `hami._core.Pipeline`: the pipeline as Python calls it. It owns nothing but the core's pipeline
// and the list of dicts in flight, which the GIL guards.
#pragma once

#include <pybind11/pybind11.h>

namespace hami::bind {

void define_pipeline(pybind11::module_& module);

}  // namespace hami::bind

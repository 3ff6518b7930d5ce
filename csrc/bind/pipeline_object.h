// `hami._core.Pipeline`: the pipeline as Python calls it. It owns nothing but the core's pipeline
// and the list of dicts in flight, which the GIL guards.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "graph/pipeline.h"

namespace hami::bind {

// The core's pipeline behind an object of `Pipeline`. Throws TypeError for another object, and an
// error in a forked child.
std::shared_ptr<Pipeline> core_pipeline(pybind11::handle pipeline);

void define_pipeline(pybind11::module_& module);

}  // namespace hami::bind

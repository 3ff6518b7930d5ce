// `hami._core.LlmScheduler`: the scheduler of a language model for an engine in Python.
#pragma once

#include <pybind11/pybind11.h>

namespace hami::bind {

void define_llm_scheduler(pybind11::module_& module);

}  // namespace hami::bind

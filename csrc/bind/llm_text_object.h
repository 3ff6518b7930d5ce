// `hami._core.TokenTable` and `TextStream`: tokens to text as they come.
#pragma once

#include <pybind11/pybind11.h>

namespace hami::bind {

void define_llm_text(pybind11::module_& module);

}  // namespace hami::bind

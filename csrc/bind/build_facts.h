// How this core was built, for `hami --version` and for reports of faults.
#pragma once

#include <pybind11/pybind11.h>

namespace hami::bind {

void define_build_facts(pybind11::module_& module);

}  // namespace hami::bind

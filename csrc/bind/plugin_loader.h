// `load_plugin`: the way by which Python loads backends that were compiled elsewhere.
#pragma once

#include <pybind11/pybind11.h>

namespace hami::bind {

void define_plugins(pybind11::module_& module);

}  // namespace hami::bind

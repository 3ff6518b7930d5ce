// The planner's plain Python data as a Plan of the core. The planner has checked it; a missing
// entry here is a fault of ours and shows as the Python error it is.
#pragma once

#include <pybind11/pybind11.h>

#include "plan/expr.h"

namespace hami::bind {

Plan read_plan(const pybind11::dict& plan);

// The declarations of all C++ classes, as the planner reads them.
pybind11::list declarations();

}  // namespace hami::bind

// The recording of a pipeline's trace as plain Python data.
#pragma once

#include <pybind11/pybind11.h>

#include "core/trace.h"

namespace hami::bind {

// Ends the recording. None when there is none. REQUIRES: the GIL.
pybind11::object stop_and_list(Trace& trace);

}  // namespace hami::bind

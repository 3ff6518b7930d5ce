// What a pipeline tells of itself, as Python data: its statistics, what is wrong with it, and what
// its nodes take and give. Needs the GIL.
#pragma once

#include <pybind11/pybind11.h>

#include "graph/pipeline.h"

namespace hami::bind {

// One dict for each node.
pybind11::list stats_of(const Pipeline& pipeline, bool with_buckets);
// One text for each problem.
pybind11::list problems_of(const Pipeline& pipeline);
// One dict for each node, in their order: `node`, `inputs`, `outputs`, `max_rows`. Inputs and
// outputs are tuples (name, type, shape, has_rows), or None where no engine says what they are.
pybind11::list ports_of(const Pipeline& pipeline);

}  // namespace hami::bind

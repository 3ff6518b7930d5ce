// The statistics of a pipeline as Python data. Needs the GIL.
#pragma once

#include <pybind11/pybind11.h>

#include <vector>

#include "schedule/node_stats.h"

namespace hami::bind {

// One dict for each node.
pybind11::list to_rows(const std::vector<NodeStats>& nodes, bool with_buckets);

}  // namespace hami::bind

// How a batch is divided among several copies of a backend.
#pragma once

#include <vector>

#include "core/backend.h"

namespace hami {

// Cuts the batch into parts of neighbours with about the same number of rows: at most `num_parts`
// of at least `range.min` rows, unless more are needed because none may exceed `range.max`.
// REQUIRES: no item alone has more rows than that.
std::vector<Batch> divide_batch(Batch batch, size_t num_parts, const BatchRange& range);

}  // namespace hami

// The rule by which axis 0 of a model's arrays counts rows, for models that say nothing but shapes.
#pragma once

#include "core/description.h"

namespace hami::engine {

// Sets `has_rows` of all inputs and outputs, and `fixed_rows`. Axis 0 counts rows
// - of every input whose axis 0 is dynamic, when there is one (the others are then whole: equal
//   for all rows of a run);
// - else of every input, when their axes 0 are equal: the model has a fixed batch;
// - of no input, when they differ.
// It counts the rows of an output where it is dynamic or as long as the batch.
void find_rows(EngineDescription& description);

}  // namespace hami::engine

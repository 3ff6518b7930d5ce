// From a loaded model to what the rest of hami needs to know of it: which outputs are wanted, and
// which inputs and outputs have rows on axis 0. Used once per instance, while it is built.
#pragma once

#include <string>
#include <vector>

#include "backends/onnxruntime/session.h"
#include "core/description.h"

namespace hami::onnxruntime {

// The indices of the outputs of these names, in that order; of all outputs for no names. Throws a
// build error for an unknown name.
std::vector<size_t> select_outputs(const Session& session, const std::vector<std::string>& names);

// The inputs and the chosen outputs, with rows as engine/rows.h finds them, or with none where
// `has_batch_axis` is false.
// Throws build errors for inputs and outputs that are not arrays.
Ref<EngineDescription> describe(const Session& session, const std::vector<size_t>& outputs,
                                bool has_batch_axis);

}  // namespace hami::onnxruntime

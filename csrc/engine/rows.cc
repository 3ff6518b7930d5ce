#include "engine/rows.h"

#include <algorithm>

namespace hami::engine {
namespace {

void find_rows_of_inputs(EngineDescription& description) {
  std::vector<TensorSpec>& inputs = description.inputs;
  const auto is_dynamic = [](const TensorSpec& spec) {
    return !spec.shape.empty() && spec.shape[0] < 0;
  };
  if (std::ranges::any_of(inputs, is_dynamic)) {
    for (TensorSpec& input : inputs) input.has_rows = is_dynamic(input);
    return;
  }
  std::optional<int64_t> rows;
  for (const TensorSpec& input : inputs) {
    if (input.shape.empty()) continue;
    if (rows.value_or(input.shape[0]) != input.shape[0] || input.shape[0] == 0) return;
    rows = input.shape[0];
  }
  for (TensorSpec& input : inputs) input.has_rows = !input.shape.empty();
  description.fixed_rows = rows;
}

void find_rows_of_outputs(EngineDescription& description) {
  if (std::ranges::none_of(description.inputs, &TensorSpec::has_rows)) return;
  // Exporters often leave the 1 of the example they traced where the batch is in fact dynamic.
  const int64_t expected = description.fixed_rows.value_or(1);
  for (TensorSpec& output : description.outputs) {
    output.has_rows = !output.shape.empty() && (output.shape[0] < 0 || output.shape[0] == expected);
  }
}

}  // namespace

void find_rows(EngineDescription& description) {
  for (TensorSpec& input : description.inputs) input.has_rows = false;
  for (TensorSpec& output : description.outputs) output.has_rows = false;
  find_rows_of_inputs(description);
  find_rows_of_outputs(description);
}

}  // namespace hami::engine

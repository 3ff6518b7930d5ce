#include "backends/onnxruntime/describe.h"

#include <algorithm>

#include "core/error.h"

namespace hami::onnxruntime {
namespace {

std::string names_of(const std::vector<Port>& ports) {
  std::string names;
  for (const Port& port : ports) names += (names.empty() ? "" : ", ") + quoted(port.name);
  return names;
}

TensorSpec spec_of(const Port& port, const std::string& what, const std::string& help) {
  if (!port.dtype) {
    throw Error(ErrorKind::kBuild, "model-type",
                what + " " + quoted(port.name) + " of the model has the type " +
                    quoted(port.type_name) + ", which no array holds",
                help);
  }
  return {port.name, *port.dtype, port.shape, false};
}

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

std::vector<size_t> select_outputs(const Session& session, const std::vector<std::string>& names) {
  const std::vector<Port>& outputs = session.outputs();
  std::vector<size_t> selected;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(outputs, name, &Port::name);
    if (found == outputs.end()) {
      throw Error(ErrorKind::kBuild, "model-output", "the model has no output " + quoted(name),
                  "its outputs are " + names_of(outputs));
    }
    selected.push_back(static_cast<size_t>(found - outputs.begin()));
  }
  if (names.empty()) {
    for (size_t i = 0; i < outputs.size(); ++i) selected.push_back(i);
  }
  return selected;
}

Ref<EngineDescription> describe(const Session& session, const std::vector<size_t>& outputs,
                                bool has_batch_axis) {
  auto description = make_ref<EngineDescription>();
  for (const Port& input : session.inputs()) {
    description->inputs.push_back(
        spec_of(input, "input", "export the model with numeric inputs only"));
  }
  for (size_t index : outputs) {
    description->outputs.push_back(spec_of(session.outputs()[index], "output",
                                           "name the outputs that you need with `outputs`"));
  }
  if (has_batch_axis) {
    find_rows_of_inputs(*description);
    find_rows_of_outputs(*description);
  }
  return description;
}

}  // namespace hami::onnxruntime

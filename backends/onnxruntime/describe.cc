#include "backends/onnxruntime/describe.h"

#include <algorithm>

#include "core/error.h"
#include "engine/rows.h"

namespace hami::onnxruntime {
namespace {

std::string names_of(const std::vector<Port>& ports) {
  std::string names;
  for (const Port& port : ports) names += (names.empty() ? "" : ", ") + backticked(port.name);
  return names;
}

TensorSpec spec_of(const Port& port, const std::string& what, const std::string& help) {
  if (!port.dtype) {
    throw Error(ErrorKind::kBuild, "model-type",
                what + " " + backticked(port.name) + " of the model has the type " +
                    backticked(port.type_name) + ", which no array holds",
                help);
  }
  return {port.name, *port.dtype, port.shape, false};
}

}  // namespace

std::vector<size_t> select_outputs(const Session& session, const std::vector<std::string>& names) {
  const std::vector<Port>& outputs = session.outputs();
  std::vector<size_t> selected;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(outputs, name, &Port::name);
    if (found == outputs.end()) {
      throw Error(ErrorKind::kBuild, "model-output", "the model has no output " + backticked(name),
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
  if (has_batch_axis) engine::find_rows(*description);
  return description;
}

}  // namespace hami::onnxruntime

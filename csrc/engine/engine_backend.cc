#include "engine/engine_backend.h"

#include <algorithm>

#include "core/error.h"

namespace hami::engine {
namespace {

[[noreturn]] void refuse(std::string message, std::string help) {
  throw Error(ErrorKind::kBuild, "model-batch", std::move(message), std::move(help));
}

BatchRange range_of(const RowRange& asked, const EngineDescription& model,
                    const std::string& name) {
  const int64_t model_rows = model.fixed_rows.value_or(1);
  const BatchRange range{asked.min.value_or(1),
                         asked.max.value_or(std::max(model_rows, asked.min.value_or(1)))};
  if (range.is_empty()) {
    refuse("`min` is " + backticked(std::to_string(range.min)) + ", above the `max` of " +
               backticked(std::to_string(range.max)),
           "set `max` to at least `min`");
  }
  if (model.fixed_rows && range.max > model_rows) {
    refuse("`max` is " + backticked(std::to_string(range.max)) + ", but the model " +
               backticked(name) + " has a fixed batch of " + backticked(std::to_string(model_rows)),
           "set `max` to " + std::to_string(model_rows) +
               ", or export the model with a dynamic batch axis");
  }
  return range;
}

}  // namespace

EngineBackend::EngineBackend(std::unique_ptr<Model> model, Ref<EngineDescription> description,
                             const RowRange& range, const std::string& name)
    : description_(std::move(description)),
      runner_(std::move(model), description_),
      range_(range_of(range, *description_, name)) {}

void EngineBackend::forward(Batch batch) {
  std::vector<ItemInputs> accepted;
  for_each_item(batch, [&](Item& item) { accepted.push_back(read_inputs(item, *description_)); });
  // Usually one group: others appear where an expression makes arrays of several shapes.
  std::vector<std::vector<ItemInputs>> groups;
  for (ItemInputs& inputs : accepted) {
    auto group = std::ranges::find_if(
        groups, [&](const auto& candidate) { return may_join(candidate, inputs); });
    if (group == groups.end()) group = groups.emplace(groups.end());
    group->push_back(std::move(inputs));
  }
  for (const auto& group : groups) runner_.run(group);
}

bool EngineBackend::may_join(std::span<const ItemInputs> group, const ItemInputs& inputs) const {
  int64_t rows = inputs.rows;
  for (const ItemInputs& member : group) rows += member.rows;
  if (rows > range_.max || runner_.runs_items_alone()) return false;
  for (size_t i = 0; i < description_->inputs.size(); ++i) {
    const TensorSpec& spec = description_->inputs[i];
    const Tensor& first = *group[0].tensors[i];
    const Tensor& other = *inputs.tensors[i];
    const bool is_same_place =
        first.device() == other.device() || (first.device().is_cpu() && other.device().is_cpu());
    if (!is_same_place || !std::ranges::equal(row_shape(first, spec), row_shape(other, spec))) {
      return false;
    }
  }
  return true;
}

size_t EngineBackend::group_of(const Item& item) const {
  size_t group = 0;
  for (size_t i = 0; i < description_->inputs.size(); ++i) {
    const Tensor* tensor = find_input(item, *description_, i);
    if (tensor == nullptr) return 0;  // will be refused
    const TensorSpec& spec = description_->inputs[i];
    const bool has_batch_axis = spec.has_rows && tensor->rank() == spec.shape.size();
    for (int64_t extent : std::span(tensor->shape()).subspan(has_batch_axis ? 1 : 0)) {
      group = group * 1'000'003 + static_cast<size_t>(extent) + 1;
    }
    group = group * 1'000'003 + (tensor->device().is_cpu() ? 0 : 1);
  }
  return group;
}

}  // namespace hami::engine

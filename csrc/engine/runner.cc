#include "engine/runner.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"

namespace hami::engine {
namespace {

// Whether the engine can read the array where it is.
bool is_readable_in_place(const Tensor& tensor) {
  const size_t size_bytes = std::min<size_t>(tensor.dtype().size_bytes(), alignof(double));
  return tensor.is_contiguous() && tensor.size() > 0 &&
         reinterpret_cast<uintptr_t>(tensor.data()) % size_bytes == 0;
}

// The array itself, or a view of it under another shape.
Ref<Tensor> reshaped(const Tensor& tensor, Shape shape) {
  if (tensor.shape() == shape) return Ref<Tensor>(const_cast<Tensor*>(&tensor));
  return tensor.reshape(std::move(shape));
}

// Rows [begin, begin + num_rows), without axis 0 unless `keeps_axis`. REQUIRES: contiguous.
Ref<Tensor> rows_of(const Tensor& tensor, int64_t begin, int64_t num_rows, bool keeps_axis) {
  Shape shape = tensor.shape();
  shape[0] = num_rows;
  if (!keeps_axis) shape.erase(shape.begin());
  const int64_t offset = begin * tensor.strides()[0];
  char* data = tensor.data_as<char>() + offset * static_cast<int64_t>(tensor.dtype().size_bytes());
  Shape strides = contiguous_strides(shape);
  return make_ref<Tensor>(data, tensor.dtype(), std::move(shape), std::move(strides),
                          tensor.owner(), tensor.device());
}

int64_t total_rows(std::span<const ItemInputs> group) {
  int64_t rows = 0;
  for (const ItemInputs& inputs : group) rows += inputs.rows;
  return rows;
}

}  // namespace

Runner::Runner(std::unique_ptr<Model> model, Ref<const EngineDescription> description)
    : model_(std::move(model)),
      description_(std::move(description)),
      buffers_(description_->inputs.size()) {
  for (const TensorSpec& output : description_->outputs) output_keys_.emplace_back(output.name);
  for (const TensorSpec& input : description_->inputs) {
    has_whole_inputs_ = has_whole_inputs_ || !input.has_rows;
  }
}

std::vector<bool> Runner::outputs_with_rows() const {
  std::vector<bool> has_rows;
  for (size_t i = 0; i < description_->outputs.size(); ++i) {
    has_rows.push_back(description_->outputs[i].has_rows && !model_->is_known_whole(i));
  }
  return has_rows;
}

bool Runner::runs_items_alone() const {
  return has_whole_inputs_ || std::ranges::count(outputs_with_rows(), false) > 0;
}

void Runner::run(std::span<const ItemInputs> group) {
  if (group.size() > 1) {
    run_together(group);
    return;
  }
  try {
    run_together(group);
  } catch (...) {
    group[0].item->error = std::current_exception();
  }
}

void Runner::run_alone(std::span<const ItemInputs> group) {
  for (const ItemInputs& inputs : group) run({&inputs, 1});
}

void Runner::run_together(std::span<const ItemInputs> group) {
  // Taken once: another instance may find out more in the meantime.
  std::vector<bool> has_rows = outputs_with_rows();
  const bool is_by_rows = !has_whole_inputs_ && std::ranges::count(has_rows, false) == 0;
  if (!is_by_rows && group.size() > 1) return run_alone(group);

  const int64_t rows = total_rows(group);
  const int64_t num_rows = description_->fixed_rows.value_or(rows);
  if (rows > num_rows || (rows < num_rows && !is_by_rows)) {
    throw Error(ErrorKind::kRequest, "input-rows",
                "the model takes exactly " + backticked(std::to_string(num_rows)) +
                    " rows and cannot be filled up, got " + backticked(std::to_string(rows)),
                "send that many rows, or export the model with a dynamic batch axis");
  }
  const std::vector<Ref<Tensor>> results = gather_and_run(group, num_rows);

  bool is_surprised = false;
  for (size_t i = 0; i < results.size(); ++i) {
    const Shape& shape = results[i]->shape();
    if (!has_rows[i] || (!shape.empty() && shape[0] == num_rows)) continue;
    has_rows[i] = false;
    model_->learn_whole(i);
    is_surprised = true;
  }
  // Rows of others, or filled up ones, are mixed into such an output.
  if (is_surprised && (group.size() > 1 || rows < num_rows)) return run_alone(group);
  hand_out(results, group, has_rows);
}

std::vector<Ref<Tensor>> Runner::gather_and_run(std::span<const ItemInputs> group,
                                                int64_t num_rows) {
  const bool is_on_device = std::ranges::any_of(
      group[0].tensors, [](const Tensor* tensor) { return !tensor->device().is_cpu(); });
  // Not while memory of the host is copied, which takes a while.
  const auto turn = is_on_device ? model_->take_turn() : nullptr;
  std::vector<Ref<Tensor>> arrays;
  for (size_t i = 0; i < description_->inputs.size(); ++i) {
    arrays.push_back(gather(i, group, num_rows));
  }
  return model_->run(arrays);
}

Ref<Tensor> Runner::gather(size_t input, std::span<const ItemInputs> group, int64_t num_rows) {
  const TensorSpec& spec = description_->inputs[input];
  const Tensor& first = *group[0].tensors[input];
  Shape shape = first.shape();
  if (spec.has_rows) {
    const auto row = row_shape(first, spec);
    shape.assign(row.begin(), row.end());
    shape.insert(shape.begin(), num_rows);
  }
  if (!first.device().is_cpu()) return gather_on_device(input, group, std::move(shape));
  const size_t size_bytes = static_cast<size_t>(num_elements(shape)) * first.dtype().size_bytes();
  Ref<Tensor> staging = model_->staging(input, size_bytes);
  if (staging == nullptr && !model_->may_write_inputs() && first.size_bytes() == size_bytes &&
      is_readable_in_place(first)) {
    return reshaped(first, std::move(shape));
  }
  if (staging == nullptr) staging = buffer(input, size_bytes);
  char* const begin = staging->data_as<char>();
  char* to = begin;
  for (const ItemInputs& inputs : group) {
    inputs.tensors[input]->copy_to(to);
    to += inputs.tensors[input]->size_bytes();
  }
  // A fixed batch is filled up with its last row: unlike zeros it is surely valid.
  const size_t row_bytes = size_bytes / static_cast<size_t>(spec.has_rows ? num_rows : 1);
  for (; to < begin + size_bytes; to += row_bytes) std::memcpy(to, to - row_bytes, row_bytes);
  Shape strides = contiguous_strides(shape);
  return make_ref<Tensor>(begin, first.dtype(), std::move(shape), std::move(strides),
                          staging->owner());
}

Ref<Tensor> Runner::gather_on_device(size_t input, std::span<const ItemInputs> group, Shape shape) {
  const int64_t num_rows = shape.empty() ? 1 : shape[0];
  std::vector<DevicePart> parts;
  for (const ItemInputs& inputs : group) {
    const Tensor& part = *inputs.tensors[input];
    const bool is_whole = group.size() == 1 && part.size() == num_elements(shape);
    if (is_whole && !model_->may_write_inputs() && part.is_contiguous()) {
      return reshaped(part, std::move(shape));
    }
    // As it came: the host language knows it by the object that it was made from.
    parts.push_back({Ref<Tensor>(const_cast<Tensor*>(&part)), part.rank() < shape.size()});
  }
  return model_->join(parts, num_rows);
}

Ref<Tensor> Runner::buffer(size_t input, size_t size_bytes) {
  Ref<Tensor>& kept = buffers_[input];
  if (!kept || kept->size_bytes() < size_bytes) {
    kept = Tensor::allocate({DType::kUInt, 8}, {static_cast<int64_t>(size_bytes)});
  }
  return kept;
}

void Runner::hand_out(std::span<const Ref<Tensor>> results, std::span<const ItemInputs> group,
                      const std::vector<bool>& has_rows) const {
  int64_t begin = 0;
  for (const ItemInputs& inputs : group) {
    auto table = results.size() > 1 ? make_ref<Table>() : nullptr;
    for (size_t i = 0; i < results.size(); ++i) {
      Value value(has_rows[i] ? rows_of(*results[i], begin, inputs.rows, inputs.has_batch_axis)
                              : results[i]);
      if (table) {
        table->dict.put(output_keys_[i], std::move(value));
      } else {
        inputs.item->set_result(std::move(value));
      }
    }
    if (table) inputs.item->set_result(Value(std::move(table)));
    begin += inputs.rows;
  }
}

}  // namespace hami::engine

#include "engine/inputs.h"

#include <algorithm>

#include "core/error.h"

namespace hami::engine {
namespace {

[[noreturn]] void refuse(const char* code, std::string message, std::string help) {
  throw Error(ErrorKind::kRequest, code, std::move(message), std::move(help));
}

std::string names_of(const std::vector<TensorSpec>& specs) {
  std::string names;
  for (const TensorSpec& spec : specs) names += (names.empty() ? "" : ", ") + backticked(spec.name);
  return names;
}

std::string expected(const TensorSpec& spec) {
  return "input " + backticked(spec.name) + " must be " + backticked(spec.describe());
}

const Tensor& read_tensor(const Value& value, const TensorSpec& spec,
                          const EngineDescription& model) {
  if (!value.is(Value::Kind::kTensor)) {
    refuse("input-type", expected(spec) + ", got " + backticked(value.type_name()),
           value.is(Value::Kind::kTable)
               ? "the model has one input: pass the array itself as `data`"
               : "pass an array of numbers in the machine's own byte order, for example "
                 "`numpy.asarray(value, \"" +
                     spec.dtype.name() + "\")`");
  }
  const Tensor& tensor = value.as_tensor();
  if (!model.takes(tensor.device())) {
    const std::string there = model.device ? " or on " + backticked(model.device->name()) : "";
    refuse("input-device",
           expected(spec) + " in CPU memory" + there + ", got an array on " +
               backticked(tensor.device().name()),
           "copy it there before the call");
  }
  if (tensor.dtype() != spec.dtype) {
    refuse("input-dtype", expected(spec) + ", got " + backticked(tensor.describe()),
           "convert it to " + backticked(spec.dtype.name()) +
               " before the call, or let `FixTensor` do so in front of the engine");
  }
  return tensor;
}

// The arrays by input; only names and types are checked.
std::vector<const Tensor*> read_tensors(const Item& item, const EngineDescription& model) {
  const Value& data = item.data();
  if (model.inputs.size() == 1) return {&read_tensor(data, model.inputs[0], model)};
  const std::string names = names_of(model.inputs);
  if (!data.is(Value::Kind::kTable)) {
    refuse("input-type",
           "the model has several inputs, so `data` must be a dict of arrays, got " +
               backticked(data.type_name()),
           "pass one array for each of " + names);
  }
  std::vector<const Tensor*> tensors(model.inputs.size(), nullptr);
  for (const auto& [key, value, written_at] : data.as_table().dict) {
    const auto spec = std::ranges::find(model.inputs, key.text(), &TensorSpec::name);
    if (spec == model.inputs.end()) {
      refuse("input-unknown", "the model has no input " + backticked(key.text()),
             "its inputs are " + names);
    }
    tensors[static_cast<size_t>(spec - model.inputs.begin())] = &read_tensor(value, *spec, model);
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i] == nullptr) {
      refuse("input-missing", "input " + backticked(model.inputs[i].name) + " is missing in `data`",
             "pass one array for each of " + names);
    }
  }
  return tensors;
}

void check_extents(std::span<const int64_t> got, std::span<const int64_t> wanted,
                   const Tensor& tensor, const TensorSpec& spec) {
  for (size_t axis = 0; axis < wanted.size(); ++axis) {
    if (wanted[axis] >= 0 && wanted[axis] != got[axis]) {
      refuse("input-shape", expected(spec) + ", got " + backticked(tensor.describe()),
             "resize or reshape it before the call");
    }
  }
}

void check_rows(const Tensor& tensor, const TensorSpec& spec, int64_t rows) {
  const std::string input = "input " + backticked(spec.name);
  if (tensor.rank() + 1 == spec.shape.size()) {
    if (rows == 1) return;
    refuse("input-rows",
           input + " is " + backticked(tensor.describe()) +
               ", one row without a batch axis, but `request_size` is " +
               backticked(std::to_string(rows)),
           "stack the rows along a new axis 0, or leave `request_size` out");
  }
  const int64_t got = tensor.shape()[0];
  if (got == 0) {
    refuse("input-rows", input + " has no rows: " + backticked(tensor.describe()),
           "leave the call out when there is nothing to compute");
  }
  if (got == rows) return;
  const std::string count = std::to_string(got);
  refuse("input-rows",
         input + " has " + backticked(count) + " rows on axis 0, but `request_size` is " +
             backticked(std::to_string(rows)),
         "set `request_size` to " + count +
             "; if axis 0 is not the batch, set `has_batch_axis = false` at the node");
}

}  // namespace

ItemInputs read_inputs(Item& item, const EngineDescription& model) {
  ItemInputs inputs{&item, read_tensors(item, model), item.rows, true};
  const TensorSpec* first = nullptr;  // the first input with rows
  for (size_t i = 0; i < model.inputs.size(); ++i) {
    const TensorSpec& spec = model.inputs[i];
    const Tensor& tensor = *inputs.tensors[i];
    const bool lacks_axis = spec.has_rows && tensor.rank() + 1 == spec.shape.size();
    if (tensor.rank() != spec.shape.size() && !lacks_axis) {
      std::string help = "reshape it to rank " + std::to_string(spec.shape.size());
      if (spec.has_rows) help += ", or to one row of rank " + std::to_string(spec.shape.size() - 1);
      refuse("input-rank", expected(spec) + ", got " + backticked(tensor.describe()), help);
    }
    if (!spec.has_rows) {
      check_extents(tensor.shape(), spec.shape, tensor, spec);
      continue;
    }
    check_extents(row_shape(tensor, spec), std::span(spec.shape).subspan(1), tensor, spec);
    check_rows(tensor, spec, item.rows);
    if (first != nullptr && lacks_axis == inputs.has_batch_axis) {
      refuse("input-rank",
             "inputs " + backticked(first->name) + " and " + backticked(spec.name) +
                 " disagree: one has a batch axis, the other has none",
             "give all inputs the batch axis, or none");
    }
    first = first == nullptr ? &spec : first;
    inputs.has_batch_axis = !lacks_axis;
  }
  // `FixTensor` may have added the axis to an array that came without.
  inputs.has_batch_axis = inputs.has_batch_axis && item.has_batch_axis;
  return inputs;
}

const Tensor* find_input(const Item& item, const EngineDescription& model, size_t input) {
  const Value* value = item.dict.find(keys::data);
  if (value == nullptr) return nullptr;
  if (model.inputs.size() > 1) {
    if (!value->is(Value::Kind::kTable)) return nullptr;
    const Dict& dict = value->as_table().dict;
    const auto is_wanted = [&](const Dict::Entry& entry) {
      return entry.key.text() == model.inputs[input].name;
    };
    const auto found = std::find_if(dict.begin(), dict.end(), is_wanted);
    if (found == dict.end()) return nullptr;
    value = &found->value;
  }
  return value->is(Value::Kind::kTensor) ? &value->as_tensor() : nullptr;
}

std::span<const int64_t> row_shape(const Tensor& tensor, const TensorSpec& spec) {
  const std::span shape(tensor.shape());
  return tensor.rank() == spec.shape.size() ? shape.subspan(1) : shape;
}

}  // namespace hami::engine

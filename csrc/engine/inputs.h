// The check of one item against a model: it turns every mistake of a caller into an error of that
// item that names the input, what was expected and what came. Pure, and the same for all engines.
#pragma once

#include <vector>

#include "core/description.h"
#include "core/item.h"

namespace hami::engine {

// The arrays of one item, in the order of the model's inputs. They belong to the item's `data`.
struct ItemInputs {
  Item* item = nullptr;
  std::vector<const Tensor*> tensors;
  int64_t rows = 1;
  // False: the arrays lack axis 0, and so will the results.
  bool has_batch_axis = true;
};

// The checked inputs of `item`. Throws a request error.
ItemInputs read_inputs(Item& item, const EngineDescription& model);

// The array of one input in `data`, or null where `data` is not what the model takes. Never throws.
const Tensor* find_input(const Item& item, const EngineDescription& model, size_t input);

// The extents of an array behind the rows. REQUIRES: `spec.has_rows`, and a rank of the model's or
// one less.
std::span<const int64_t> row_shape(const Tensor& tensor, const TensorSpec& spec);

}  // namespace hami::engine

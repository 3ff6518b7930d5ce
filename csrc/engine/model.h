// `Model`: a loaded model of some engine, as far as batches need to know it. Each engine derives
// one; an instance owns it and uses it on one thread at a time.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/tensor.h"

namespace hami::engine {

// The rows of one item on a device.
struct DevicePart {
  Ref<Tensor> tensor;
  bool lacks_rows = false;  // one row, without the axis of rows
};

class Model {
 public:
  virtual ~Model() = default;

  // What an engine holds while it works, such as the lock of an interpreter.
  class Turn {
   public:
    virtual ~Turn() = default;
  };
  // Taken once for `join` and the `run` that follows, instead of by each of them. Null: nothing.
  virtual std::unique_ptr<Turn> take_turn() { return nullptr; }

  // Runs the model on one contiguous array for each input of its description. The results, one for
  // each output, own their memory, share none with the inputs, and are complete.
  virtual std::vector<Ref<Tensor>> run(std::span<const Ref<Tensor>> inputs) = 0;

  // Whether `run` may write to its inputs: they are then copies, even of a lone array.
  virtual bool may_write_inputs() const noexcept { return false; }

  // Memory of the host in which an input is always gathered, at least so large. Null: memory of the
  // runner, where the rows do not lie together already.
  virtual Ref<Tensor> staging(size_t /*input*/, size_t /*size_bytes*/) { return nullptr; }

  // Arrays on a device one after another along axis 0, the last row repeated up to `num_rows`.
  // REQUIRES: the description says that the engine takes such arrays.
  virtual Ref<Tensor> join(std::span<const DevicePart> parts, int64_t num_rows) = 0;

  // What runs have shown: axis 0 of this output does not count the rows of the input.
  virtual bool is_known_whole(size_t output) const noexcept = 0;
  virtual void learn_whole(size_t output) noexcept = 0;
};

}  // namespace hami::engine

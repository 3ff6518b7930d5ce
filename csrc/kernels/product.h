// `Product`: one product of activations with a packed matrix, cut into tasks for a team, with the
// norm and the rounding that its activations need before. A task is some panels by some rows: few
// enough rows that they stay in the cache of a processor, enough panels that taking the task costs
// little beside it.
#pragma once

#include <vector>

#include "kernels/memory.h"
#include "kernels/packed_matrix.h"
#include "kernels/thread_team.h"

namespace hami::kernels {

// A buffer with a row of floats for each token; what lies beyond the numbers of a row stays zero,
// up to the padded depth of a matrix. The stride is no multiple of a page, so that rows do not push
// each other out of the cache.
struct Rows {
  Rows() = default;
  Rows(int64_t num_rows, int64_t size);
  float* row(int64_t index) const noexcept {
    return memory.as<float>() + static_cast<size_t>(index) * stride;
  }
  size_t stride = 0;  // floats
  AlignedMemory memory;
};

// Where activations lie once they are ready for a product. One for all products of a decoder.
class Workspace {
 public:
  Workspace() = default;
  // `size`: the longest row.
  Workspace(int64_t num_rows, int64_t size, int num_members);

 private:
  friend struct Product;
  // Few rows each member prepares by itself, which costs less than to wait for others.
  static constexpr int kFewRows = 4;
  Rows shared_;
  std::vector<Rows> own_;
  std::vector<Rows> normed_;  // one row each, on its way from norm to rounding
};

struct Product {
  const PackedMatrix* matrix = nullptr;
  const Rows* x = nullptr;
  int num_rows = 0;
  float* out = nullptr;
  size_t out_stride = 0;
  Epilogue epilogue = Epilogue::kStore;
  const float* bias = nullptr;         // whole panels
  const float* norm_weight = nullptr;  // null: no norm
  float norm_eps = 0;

  // All of it, by all members.
  void run(Member& member, Workspace& workspace) const noexcept;

 private:
  // Rows ready for the kernel, and the bytes from one to the next.
  struct Ready {
    const std::byte* rows;
    size_t stride;
  };
  Ready prepare(Member& member, Workspace& workspace) const noexcept;
  void prepare_own(Member& member, Workspace& workspace) const noexcept;
  void prepare_row(int64_t row, float* normed, float* out) const noexcept;
};

}  // namespace hami::kernels

// `Product`: one product of activations with a packed matrix, cut into tasks for a team. A task is
// some panels by some rows: few enough rows that they stay in the cache of a processor, enough
// panels that taking the task costs little beside it.
#pragma once

#include "kernels/packed_matrix.h"
#include "kernels/thread_team.h"

namespace hami::kernels {

// Floats from row to row of a buffer for rows of `size` activations: as many as a padded matrix
// reads, and no multiple of a page, so that rows do not push each other out of the cache.
size_t row_stride(int64_t size) noexcept;

struct Product {
  const PackedMatrix* matrix = nullptr;
  const float* x = nullptr;  // rows padded with zeros up to the matrix's padded depth
  size_t x_stride = 0;
  int num_rows = 0;
  float* out = nullptr;
  size_t out_stride = 0;
  Epilogue epilogue = Epilogue::kStore;
  const float* bias = nullptr;  // whole panels

  // All of it, by all members.
  void run(Member& member) const noexcept;
};

}  // namespace hami::kernels

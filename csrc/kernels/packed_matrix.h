// `PackedMatrix`: weights [N, K] in panels, the form in which one copy serves one row of
// activations as well as hundreds. Filled once, by rows; then read on any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"
#include "kernels/memory.h"

namespace hami::kernels {

// Plain rows of float32, bfloat16 or float16 that somebody else owns.
struct PlainRows {
  const void* data = nullptr;
  Format format = Format::kFloat32;
  int64_t num_rows = 0;
  int64_t num_cols = 0;
};

// One row of `rows` as floats.
void read_row(const PlainRows& rows, int64_t row, float* out);

class PackedMatrix {
 public:
  PackedMatrix() = default;
  // N x K zeros in memory of the arena, which must outlive it. With `is_paired` there are two
  // matrices of N rows each, whose panels alternate.
  PackedMatrix(MemoryArena& arena, const Kernels& kernels, Format format, int num_rows, int depth,
               bool is_paired = false);

  // Rows [first, first + rows.num_rows) of the matrix (`half`: of which of a pair).
  // REQUIRES: they are there, and rows.num_cols is the depth.
  void set_rows(int first, const PlainRows& rows, int half = 0);
  // A row as floats, as many as the depth; what was rounded stays rounded.
  void read_row(int row, float* out) const;

  Format format() const noexcept { return format_; }
  const Kernels& kernels() const noexcept { return *kernels_; }
  int num_rows() const noexcept { return num_rows_; }
  int depth() const noexcept { return depth_; }
  // The depth with its zeros, of which activations must have as many.
  int padded_depth() const noexcept { return padded_depth_; }
  // Panels of one half, of so many columns.
  int num_panels() const noexcept { return num_panels_; }
  int panel_width() const noexcept { return kernels_->panel_width; }
  size_t panel_bytes() const noexcept { return panel_bytes_; }
  size_t size_bytes() const noexcept { return panel_bytes_ * num_panels_ * num_halves_; }

  // What the kernels need to know of this matrix.
  MatmulArgs args() const noexcept;
  void multiply(const MatmulArgs& args) const noexcept {
    kernels_->matmul[static_cast<int>(format_)](args);
  }

 private:
  std::byte* panel_of(int row, int half) const noexcept;
  void set_row(std::byte* panel, int column, const float* weights);
  void set_q8(std::byte* panel, int column, const float* weights);
  void set_q4(std::byte* panel, int column, const float* weights);
  float weight_of(const std::byte* block, int column, int index) const noexcept;

  const Kernels* kernels_ = nullptr;
  Format format_ = Format::kFloat32;
  int num_rows_ = 0;
  int depth_ = 0;
  int padded_depth_ = 0;
  int num_panels_ = 0;
  int num_halves_ = 1;
  size_t panel_bytes_ = 0;
  std::byte* panels_ = nullptr;
};

}  // namespace hami::kernels

#include "kernels/packed_matrix.h"

#include <cstring>
#include <vector>

#include "kernels/bits.h"

namespace hami::kernels {
namespace {

int round_up(int number, int step) { return (number + step - 1) / step * step; }

}  // namespace

void read_row(const PlainRows& rows, int64_t row, float* out) {
  const int64_t begin = row * rows.num_cols;
  if (rows.format == Format::kFloat32) {
    std::memcpy(out, static_cast<const float*>(rows.data) + begin,
                sizeof(float) * static_cast<size_t>(rows.num_cols));
    return;
  }
  const auto* bits = static_cast<const uint16_t*>(rows.data) + begin;
  if (rows.format == Format::kBfloat16) {
    for (int64_t k = 0; k < rows.num_cols; ++k) {
      out[k] = static_cast<float>(bits_to<Bfloat16>(bits[k]));
    }
  } else {
    for (int64_t k = 0; k < rows.num_cols; ++k) {
      out[k] = static_cast<float>(bits_to<Float16>(bits[k]));
    }
  }
}

PackedMatrix::PackedMatrix(const Kernels& kernels, Format format, int num_rows, int depth,
                           bool is_paired)
    : kernels_(&kernels),
      format_(format),
      num_rows_(num_rows),
      depth_(depth),
      padded_depth_(round_up(depth, kDepthStep)),
      num_panels_(round_up(num_rows, kernels.panel_width) / kernels.panel_width),
      num_halves_(is_paired ? 2 : 1) {
  panel_bytes_ = static_cast<size_t>(kernels.panel_width) * padded_depth_ * bytes_of(format);
  memory_ = AlignedMemory(panel_bytes_ * num_panels_ * num_halves_);
}

std::byte* PackedMatrix::panel_of(int row, int half) const noexcept {
  const size_t panel = static_cast<size_t>(row / kernels_->panel_width) * num_halves_ + half;
  return memory_.data() + panel * panel_bytes_;
}

void PackedMatrix::set_rows(int first, const PlainRows& rows, int half) {
  std::vector<float> row(static_cast<size_t>(padded_depth_));
  for (int64_t i = 0; i < rows.num_rows; ++i) {
    kernels::read_row(rows, i, row.data());
    const int index = first + static_cast<int>(i);
    set_row(panel_of(index, half), index % kernels_->panel_width, row.data());
  }
}

void PackedMatrix::set_row(std::byte* panel, int column, const float* weights) {
  const int width = kernels_->panel_width;
  auto* floats = reinterpret_cast<float*>(panel) + column;
  auto* halves = reinterpret_cast<uint16_t*>(panel);
  switch (format_) {
    case Format::kFloat32:
      for (int k = 0; k < padded_depth_; ++k) floats[k * width] = weights[k];
      return;
    case Format::kFloat16:
      for (int k = 0; k < padded_depth_; ++k) {
        halves[k * width + column] = bits_of(Float16(weights[k]));
      }
      return;
    case Format::kBfloat16:
      for (int k = 0; k < padded_depth_; ++k) {
        halves[(k / 2 * width + column) * 2 + k % 2] = bits_of(Bfloat16(weights[k]));
      }
      return;
    default:
      return;
  }
}

void PackedMatrix::read_row(int row, float* out) const {
  const int width = kernels_->panel_width;
  const int column = row % width;
  const std::byte* panel = panel_of(row, 0);
  const auto* floats = reinterpret_cast<const float*>(panel) + column;
  const auto* halves = reinterpret_cast<const uint16_t*>(panel);
  switch (format_) {
    case Format::kFloat32:
      for (int k = 0; k < depth_; ++k) out[k] = floats[k * width];
      return;
    case Format::kFloat16:
      for (int k = 0; k < depth_; ++k) {
        out[k] = static_cast<float>(bits_to<Float16>(halves[k * width + column]));
      }
      return;
    case Format::kBfloat16:
      for (int k = 0; k < depth_; ++k) {
        out[k] = static_cast<float>(
            bits_to<Bfloat16>(halves[(k / 2 * width + column) * 2 + k % 2]));
      }
      return;
    default:
      return;
  }
}

MatmulArgs PackedMatrix::args() const noexcept {
  MatmulArgs args;
  args.panels = memory_.data();
  args.panel_bytes = panel_bytes_;
  args.num_panels = num_panels_;
  args.depth = padded_depth_;
  args.num_cols = num_rows_;
  return args;
}

}  // namespace hami::kernels

#include "kernels/packed_matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/bits.h"

namespace hami::kernels {
namespace {

int round_up(int number, int step) { return (number + step - 1) / step * step; }

// Of the eight weights of a word, those with an even place fill the lower half.
int nibble_shift(int index) { return index % 2 * 16 + index % 8 / 2 * 4; }

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

PackedMatrix::PackedMatrix(MemoryArena& arena, const Kernels& kernels, Format format, int num_rows,
                           int depth, bool is_paired)
    : kernels_(&kernels),
      format_(format),
      num_rows_(num_rows),
      depth_(depth),
      padded_depth_(round_up(depth, kDepthStep)),
      num_panels_(round_up(num_rows, kernels.panel_width) / kernels.panel_width),
      num_halves_(is_paired ? 2 : 1) {
  const int num_units = is_blocked(format) ? padded_depth_ / kDepthStep : padded_depth_;
  panel_bytes_ = static_cast<size_t>(kernels.panel_width) * num_units * bytes_of(format);
  panels_ = arena.take(size_bytes());
}

std::byte* PackedMatrix::panel_of(int row, int half) const noexcept {
  const size_t panel = static_cast<size_t>(row / kernels_->panel_width) * num_halves_ + half;
  return panels_ + panel * panel_bytes_;
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
    case Format::kQ8:
      return set_q8(panel, column, weights);
    case Format::kQ4:
      return set_q4(panel, column, weights);
  }
}

// As blocks_body.h describes a block.
void PackedMatrix::set_q8(std::byte* panel, int column, const float* weights) {
  const int width = kernels_->panel_width;
  for (int k = 0; k < padded_depth_; k += kDepthStep, panel += width * bytes_of(format_)) {
    float highest = 0;
    for (int i = 0; i < kDepthStep; ++i) highest = std::max(highest, std::fabs(weights[k + i]));
    const Float16 scale(highest / 127);
    const auto step = static_cast<float>(scale);
    reinterpret_cast<uint16_t*>(panel)[column] = bits_of(scale);
    auto* const bytes = reinterpret_cast<int8_t*>(panel) + 2 * width;
    for (int i = 0; i < kDepthStep; ++i) {
      const float level = step > 0 ? std::nearbyint(weights[k + i] / step) : 0;
      bytes[(i / 2 * width + column) * 2 + i % 2] =
          static_cast<int8_t>(std::clamp(level, -127.0F, 127.0F));
    }
  }
}

void PackedMatrix::set_q4(std::byte* panel, int column, const float* weights) {
  const int width = kernels_->panel_width;
  for (int k = 0; k < padded_depth_; k += kDepthStep, panel += width * bytes_of(format_)) {
    const auto [low, high] = std::minmax_element(weights + k, weights + k + kDepthStep);
    const Float16 minimum(*low);
    const Float16 scale((*high - *low) / 15);
    const auto step = static_cast<float>(scale);
    auto* const halves = reinterpret_cast<uint16_t*>(panel);
    halves[column] = bits_of(scale);
    halves[width + column] = bits_of(minimum);
    auto* const words = reinterpret_cast<uint32_t*>(panel + 4 * width);
    for (int i = 0; i < kDepthStep; ++i) {
      const float above = weights[k + i] - static_cast<float>(minimum);
      const float level = step > 0 ? std::nearbyint(above / step) : 0;
      const auto nibble = static_cast<uint32_t>(std::clamp(level, 0.0F, 15.0F));
      uint32_t& word = words[i / 8 * width + column];
      const int shift = nibble_shift(i);
      word = (word & ~(0xFU << shift)) | nibble << shift;
    }
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
        out[k] =
            static_cast<float>(bits_to<Bfloat16>(halves[(k / 2 * width + column) * 2 + k % 2]));
      }
      return;
    default:
      for (int k = 0; k < depth_; ++k) {
        const std::byte* block = panel + k / kDepthStep * width * bytes_of(format_);
        out[k] = weight_of(block, column, k % kDepthStep);
      }
      return;
  }
}

float PackedMatrix::weight_of(const std::byte* block, int column, int index) const noexcept {
  const int width = kernels_->panel_width;
  const auto* halves = reinterpret_cast<const uint16_t*>(block);
  const auto scale = static_cast<float>(bits_to<Float16>(halves[column]));
  if (format_ == Format::kQ8) {
    const auto* bytes = reinterpret_cast<const int8_t*>(block) + 2 * width;
    return scale * static_cast<float>(bytes[(index / 2 * width + column) * 2 + index % 2]);
  }
  const auto minimum = static_cast<float>(bits_to<Float16>(halves[width + column]));
  const auto* words = reinterpret_cast<const uint32_t*>(block + 4 * width);
  const uint32_t nibble = words[index / 8 * width + column] >> nibble_shift(index) & 0xFU;
  return scale * static_cast<float>(nibble) + minimum;
}

MatmulArgs PackedMatrix::args() const noexcept {
  MatmulArgs args;
  args.panels = panels_;
  args.panel_bytes = panel_bytes_;
  args.num_panels = num_panels_;
  args.depth = padded_depth_;
  args.num_cols = num_rows_;
  return args;
}

}  // namespace hami::kernels

#include "kernels/product.h"

#include <algorithm>

namespace hami::kernels {
namespace {

constexpr int64_t kRowsBytes = 192 * 1024;  // of a second-level cache of 512 KiB or more
constexpr int64_t kTaskBytes = 64 * 1024;   // of weights: a few microseconds of reading
constexpr int64_t kTaskProducts = 1 << 20;  // about 30 microseconds of arithmetic

int64_t divide_up(int64_t number, int64_t by) { return (number + by - 1) / by; }

}  // namespace

Rows::Rows(int64_t num_rows, int64_t size)
    : stride(static_cast<size_t>(divide_up(size, kDepthStep) * kDepthStep + 16)),
      memory(static_cast<size_t>(num_rows) * stride * sizeof(float)) {}

Workspace::Workspace(int64_t num_rows, int64_t size, int num_members) : shared_(num_rows, size) {
  for (int i = 0; i < num_members; ++i) {
    own_.emplace_back(kFewRows, size);
    normed_.emplace_back(1, size);
  }
}

void Product::prepare_row(int64_t row, float* normed, float* out) const noexcept {
  const Kernels& kernels = matrix->kernels();
  const auto round = kernels.round[static_cast<int>(matrix->format())];
  const int depth = matrix->depth();
  const float* from = x->row(row);
  if (norm_weight != nullptr) {
    float* const to = round == nullptr ? out : normed;
    kernels.rms_norm(from, norm_weight, depth, norm_eps, to);
    // Rows of another length may have been here before.
    std::fill(to + depth, to + matrix->padded_depth(), 0.0F);
    from = to;
  }
  if (round != nullptr) round(from, matrix->padded_depth(), out);
}

Product::Ready Product::prepare(Member& member, Workspace& workspace) const noexcept {
  if (norm_weight == nullptr &&
      matrix->kernels().round[static_cast<int>(matrix->format())] == nullptr) {
    return {x->memory.data(), x->stride * sizeof(float)};
  }
  if (num_rows <= Workspace::kFewRows) {
    const Rows& own = workspace.own_[static_cast<size_t>(member.index())];
    return {own.memory.data(), own.stride * sizeof(float)};
  }
  float* const normed = workspace.normed_[static_cast<size_t>(member.index())].row(0);
  const Rows& shared = workspace.shared_;
  constexpr int64_t kRowsPerTask = 4;
  member.share(divide_up(num_rows, kRowsPerTask), [&](int64_t task) {
    const int64_t end = std::min<int64_t>(num_rows, (task + 1) * kRowsPerTask);
    for (int64_t i = task * kRowsPerTask; i < end; ++i) prepare_row(i, normed, shared.row(i));
  });
  return {shared.memory.data(), shared.stride * sizeof(float)};
}

// For few rows. Called inside a task, since before it the rows may belong to an earlier stage, or,
// for a member that is late, already to a later one.
void Product::prepare_own(Member& member, Workspace& workspace) const noexcept {
  const size_t self = static_cast<size_t>(member.index());
  for (int i = 0; i < num_rows; ++i) {
    prepare_row(i, workspace.normed_[self].row(0), workspace.own_[self].row(i));
  }
}

void Product::run(Member& member, Workspace& workspace) const noexcept {
  if (num_rows == 0) return;
  const Ready ready = prepare(member, workspace);
  MatmulArgs whole = matrix->args();
  const int64_t row_bytes = int64_t{whole.depth} * static_cast<int64_t>(sizeof(float));
  const int64_t most_rows = std::max<int64_t>(kRowsBytes / row_bytes, 24);
  const int64_t num_chunks = divide_up(num_rows, most_rows);
  const int64_t chunk = divide_up(num_rows, num_chunks);
  const int64_t products = chunk * whole.depth * matrix->panel_width();
  const int64_t panel_bytes = static_cast<int64_t>(whole.panel_bytes);
  const int64_t panels_per_task = std::max<int64_t>(
      1, std::min(divide_up(kTaskBytes, panel_bytes), divide_up(kTaskProducts, products)));
  const int64_t num_groups = divide_up(whole.num_panels, panels_per_task);
  whole.epilogue = epilogue;
  whole.bias = bias;
  whole.out_stride = out_stride;
  whole.x_stride = ready.stride;
  const int num_panels = whole.num_panels;
  bool is_prepared =
      ready.rows != workspace.own_[static_cast<size_t>(member.index())].memory.data();
  member.share(num_chunks * num_groups, [&](int64_t task) {
    const int64_t first_row = task / num_groups * chunk;
    const int64_t first_panel = task % num_groups * panels_per_task;
    if (first_row >= num_rows) return;
    if (!is_prepared) prepare_own(member, workspace);
    is_prepared = true;
    MatmulArgs args = whole;
    args.x = ready.rows + static_cast<size_t>(first_row) * ready.stride;
    args.num_rows = static_cast<int>(std::min(chunk, num_rows - first_row));
    args.out = out + static_cast<size_t>(first_row) * out_stride;
    args.first_panel = static_cast<int>(first_panel);
    args.num_panels = static_cast<int>(std::min(panels_per_task, num_panels - first_panel));
    matrix->multiply(args);
  });
}

}  // namespace hami::kernels

#include "kernels/product.h"

#include <algorithm>

namespace hami::kernels {
namespace {

constexpr int64_t kRowsBytes = 192 * 1024;   // of a second-level cache of 512 KiB or more
constexpr int64_t kTaskBytes = 16 * 1024;    // of weights: about a microsecond of reading
constexpr int64_t kTaskProducts = 1 << 20;   // about 30 microseconds of arithmetic

int64_t divide_up(int64_t number, int64_t by) { return (number + by - 1) / by; }

}  // namespace

size_t row_stride(int64_t size) noexcept {
  return static_cast<size_t>(divide_up(size, kDepthStep) * kDepthStep + 16);
}

void Product::run(Member& member) const noexcept {
  if (num_rows == 0) return;
  MatmulArgs whole = matrix->args();
  const int64_t row_bytes = int64_t{whole.depth} * static_cast<int64_t>(sizeof(float));
  const int64_t most_rows = std::max<int64_t>(kRowsBytes / row_bytes, 24);
  const int64_t num_chunks = divide_up(num_rows, most_rows);
  const int64_t chunk = divide_up(num_rows, num_chunks);
  const int64_t products = chunk * whole.depth * matrix->panel_width();
  const int64_t panel_bytes = static_cast<int64_t>(whole.panel_bytes);
  const int64_t panels_per_task =
      std::max<int64_t>(1, std::min(divide_up(kTaskBytes, panel_bytes),
                                    divide_up(kTaskProducts, products)));
  const int64_t num_groups = divide_up(whole.num_panels, panels_per_task);
  whole.epilogue = epilogue;
  whole.bias = bias;
  whole.out_stride = out_stride;
  whole.x_stride = x_stride * sizeof(float);
  const int num_panels = whole.num_panels;
  member.share(num_chunks * num_groups, [&](int64_t task) {
    const int64_t first_row = task / num_groups * chunk;
    const int64_t first_panel = task % num_groups * panels_per_task;
    MatmulArgs args = whole;
    args.x = x + static_cast<size_t>(first_row) * x_stride;
    args.num_rows = static_cast<int>(std::min(chunk, num_rows - first_row));
    args.out = out + static_cast<size_t>(first_row) * out_stride;
    args.first_panel = static_cast<int>(first_panel);
    args.num_panels = static_cast<int>(std::min(panels_per_task, num_panels - first_panel));
    matrix->multiply(args);
  });
}

}  // namespace hami::kernels

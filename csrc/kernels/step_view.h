// `StepView`: the arrays of one step's plan, as a decoder reads them, and the check that every
// index in them lies within its bounds. Whoever made the plan may have erred; memory must not
// suffer.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/decoder_config.h"

namespace hami::kernels {

struct StepView {
  using Array = std::span<const int32_t>;
  Array token_ids, positions, slots;  // [T]
  Array query_starts;                 // [R + 1]
  Array context_lens, table_rows;     // [R]
  Array page_table;                   // [., max_pages]
  int64_t max_pages = 0;
  Array logit_tokens;               // [L]
  Array swap_out, swap_in, copies;  // [., 2]: from, to

  int num_tokens() const noexcept { return static_cast<int>(token_ids.size()); }
  int num_rows() const noexcept { return static_cast<int>(context_lens.size()); }
  int num_logits() const noexcept { return static_cast<int>(logit_tokens.size()); }
  const int32_t* pages(int row) const noexcept {
    return page_table.data() + table_rows[static_cast<size_t>(row)] * max_pages;
  }
};

// The pages that a step may name.
struct PageBounds {
  int64_t num_pages = 0;
  int64_t page_size = 0;
  int64_t num_swap_pages = 0;
};

// Throws a request error that names the field, the place and the value.
void check(const StepView& step, const DecoderConfig& config, const PageBounds& pages);

}  // namespace hami::kernels

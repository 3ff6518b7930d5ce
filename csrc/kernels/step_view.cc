#include "kernels/step_view.h"

#include <string>

#include "core/error.h"

namespace hami::kernels {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorKind::kRequest, "decoder-plan", message,
              "make the plan of a step with the same sizes as the decoder and its pool");
}

// `name[index]` must lie in [0, limit).
void check_all(const char* name, StepView::Array values, int64_t limit) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] >= 0 && values[i] < limit) continue;
    refuse("`" + std::string(name) + "[" + std::to_string(i) + "]` is " +
           backticked(std::to_string(values[i])) + ", not below " + std::to_string(limit));
  }
}

void check_length(const char* name, StepView::Array values, size_t wanted) {
  if (values.size() == wanted) return;
  refuse("`" + std::string(name) + "` has " + backticked(std::to_string(values.size())) +
         " numbers where " + std::to_string(wanted) + " belong");
}

void check_most(const char* what, size_t number, const char* limit_name, int64_t limit) {
  if (static_cast<int64_t>(number) <= limit) return;
  refuse("the step has " + backticked(std::to_string(number)) + " " + what + ", and `" +
         limit_name + "` is " + std::to_string(limit));
}

void check_pairs(const char* name, StepView::Array pairs, int64_t from_limit, int64_t to_limit) {
  if (pairs.size() % 2 != 0) refuse("`" + std::string(name) + "` is no array of pairs");
  for (size_t i = 0; i < pairs.size(); ++i) {
    const int64_t limit = i % 2 == 0 ? from_limit : to_limit;
    if (pairs[i] < 0 || pairs[i] >= limit) check_all(name, pairs.subspan(i, 1), limit);
  }
}

void check_row(const StepView& step, size_t row, const PageBounds& pool, int64_t num_table_rows) {
  const std::string place = "[" + std::to_string(row) + "]`";
  const int32_t begin = step.query_starts[row];
  const int32_t end = step.query_starts[row + 1];
  if (begin >= end) refuse("row " + backticked(std::to_string(row)) + " has no tokens");
  const int64_t context = step.context_lens[row];
  if (context < end - begin) {
    refuse("`context_lens" + place + " is " + backticked(std::to_string(context)) +
           ", less than the " + std::to_string(end - begin) + " tokens of its row");
  }
  if (context > step.max_pages * pool.page_size) {
    refuse("`context_lens" + place + " is " + backticked(std::to_string(context)) +
           ", more than the " + std::to_string(step.max_pages) + " pages of a row hold");
  }
  const int64_t table_row = step.table_rows[row];
  if (table_row < 0 || table_row >= num_table_rows) {
    refuse("`table_rows" + place + " is " + backticked(std::to_string(table_row)) + ", not below " +
           std::to_string(num_table_rows));
  }
  const int64_t num_pages = (context + pool.page_size - 1) / pool.page_size;
  const int32_t* pages = step.pages(static_cast<int>(row));
  for (int64_t i = 0; i < num_pages; ++i) {
    if (pages[i] >= 0 && pages[i] < pool.num_pages) continue;
    refuse("`page_table[" + std::to_string(table_row) + ", " + std::to_string(i) + "]` is " +
           backticked(std::to_string(pages[i])) + ", not below " + std::to_string(pool.num_pages));
  }
}

}  // namespace

void check(const StepView& step, const DecoderConfig& config, const PageBounds& pool) {
  const size_t num_tokens = step.token_ids.size();
  const size_t num_rows = step.context_lens.size();
  check_most("tokens", num_tokens, "max_tokens_per_step", config.max_tokens_per_step);
  check_most("rows", num_rows, "max_rows", config.max_rows);
  check_most("wanted logits", step.logit_tokens.size(), "max_tokens_per_step",
             config.max_tokens_per_step);
  check_length("positions", step.positions, num_tokens);
  check_length("slots", step.slots, num_tokens);
  check_length("query_starts", step.query_starts, num_rows + 1);
  check_length("table_rows", step.table_rows, num_rows);
  check_all("token_ids", step.token_ids, config.vocab);
  check_all("positions", step.positions, int64_t{1} << 31);
  check_all("slots", step.slots, pool.num_pages * pool.page_size);
  check_all("logit_tokens", step.logit_tokens, static_cast<int64_t>(num_tokens));
  check_all("query_starts", step.query_starts, static_cast<int64_t>(num_tokens) + 1);
  if (step.query_starts.front() != 0 ||
      static_cast<size_t>(step.query_starts.back()) != num_tokens) {
    refuse("`query_starts` runs from " + backticked(std::to_string(step.query_starts.front())) +
           " to " + backticked(std::to_string(step.query_starts.back())) + ", not from 0 to " +
           std::to_string(num_tokens));
  }
  const int64_t num_table_rows =
      step.max_pages == 0 ? 0 : static_cast<int64_t>(step.page_table.size()) / step.max_pages;
  for (size_t row = 0; row < num_rows; ++row) check_row(step, row, pool, num_table_rows);
  check_pairs("swap_out", step.swap_out, pool.num_pages, pool.num_swap_pages);
  check_pairs("swap_in", step.swap_in, pool.num_swap_pages, pool.num_pages);
  check_pairs("copies", step.copies, pool.num_pages, pool.num_pages);
}

}  // namespace hami::kernels

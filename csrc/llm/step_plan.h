// `StepPlan`: one step as plain arrays, from `LlmScheduler` to an executor. The scheduler fills the
// same memory in every step; nothing in it moves after construction, so that views stay valid.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hami::llm {

// An array in memory that is taken once.
template <class T>
class PlanArray {
 public:
  explicit PlanArray(size_t capacity) { values_.reserve(capacity); }
  void push(T value) { values_.push_back(value); }
  void clear() noexcept { values_.clear(); }
  size_t size() const noexcept { return values_.size(); }
  bool empty() const noexcept { return values_.empty(); }
  T* data() noexcept { return values_.data(); }
  const T* data() const noexcept { return values_.data(); }
  T& operator[](size_t index) noexcept { return values_[index]; }
  const T& operator[](size_t index) const noexcept { return values_[index]; }
  auto begin() const noexcept { return values_.begin(); }
  auto end() const noexcept { return values_.end(); }

 private:
  std::vector<T> values_;
};

struct PagePair {
  int32_t from;
  int32_t to;
};
static_assert(sizeof(PagePair) == 2 * sizeof(int32_t));

// Names and shapes: docs/design/0008-the-language-model-in-rooms.md.
struct StepPlan {
  StepPlan(size_t max_rows, size_t max_tokens, size_t max_swaps)
      : sequences(max_rows),
        token_ids(max_tokens),
        positions(max_tokens),
        slots(max_tokens),
        query_starts(max_rows + 1),
        context_lens(max_rows),
        table_rows(max_rows),
        dirty_rows(max_rows),
        logit_tokens(max_tokens),
        sample_sequences(max_rows),
        sample_logits(max_rows),
        swap_out(max_swaps),
        swap_in(max_swaps),
        copies(max_rows) {}

  int64_t serial = 0;  // of the step
  int32_t num_decode_rows = 0;
  PlanArray<int64_t> sequences;
  PlanArray<int32_t> token_ids;
  PlanArray<int32_t> positions;
  PlanArray<int32_t> slots;
  PlanArray<int32_t> query_starts;
  PlanArray<int32_t> context_lens;
  PlanArray<int32_t> table_rows;
  PlanArray<int32_t> dirty_rows;
  PlanArray<int32_t> logit_tokens;
  PlanArray<int64_t> sample_sequences;
  PlanArray<int32_t> sample_logits;
  PlanArray<PagePair> swap_out;
  PlanArray<PagePair> swap_in;
  PlanArray<PagePair> copies;
  std::vector<std::pair<int64_t, const char*>> ended;
  std::span<int32_t> page_table;  // [max_rows, max_pages], of the scheduler
  int32_t max_pages = 0;

  int32_t num_rows() const noexcept { return static_cast<int32_t>(sequences.size()); }
  int32_t num_tokens() const noexcept { return static_cast<int32_t>(token_ids.size()); }

  void clear() noexcept {
    num_decode_rows = 0;
    for (auto* array : {&sequences, &sample_sequences}) array->clear();
    for (auto* array : {&token_ids, &positions, &slots, &query_starts, &context_lens, &table_rows,
                        &dirty_rows, &logit_tokens, &sample_logits}) {
      array->clear();
    }
    for (auto* array : {&swap_out, &swap_in, &copies}) array->clear();
    ended.clear();
  }
};

}  // namespace hami::llm

// `FakeModel`: an executor without a model. What it keeps in a slot is a hash of a token and of all
// that was on the pages before it when it was computed; logits are a hash of the whole context,
// read back through the page table. So any fault of paging changes what comes out, and the same
// tokens give the same logits under all settings. Tests and `backends/llm` use it; one thread at a
// time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "llm/step_plan.h"

namespace hami::llm {

class FakeModel {
 public:
  // Throws std::invalid_argument for sizes that cannot be.
  FakeModel(int32_t vocab_size, int32_t num_pages, int32_t page_size, int32_t num_swap_pages = 0);

  // Logits [L, vocabulary], valid until the next run. Throws std::logic_error, which says what is
  // wrong, for a plan that no executor could run: slots outside of the table or on page 0, a page
  // that one row writes and another one holds.
  std::span<float> run(const StepPlan& plan);

  // The logits after `tokens`, without pages.
  static void reference_logits(std::span<const int32_t> tokens, std::span<float> logits);

  int32_t vocab_size() const noexcept { return vocab_size_; }

 private:
  using Slots = std::vector<uint64_t>;

  void copy_pages(const PlanArray<PagePair>& pairs, const Slots& from, Slots& to);
  void check(const StepPlan& plan);
  void check_row(const StepPlan& plan, size_t row);
  void poison(const StepPlan& plan);
  uint64_t context_before(const StepPlan& plan, size_t row) const;
  std::span<const int32_t> pages_of(const StepPlan& plan, size_t row) const;

  int32_t vocab_size_;
  int32_t num_pages_;
  int32_t page_size_;
  Slots slots_;
  Slots swapped_;
  std::vector<int32_t> holders_;  // of a page, among the rows of a plan
  std::vector<uint64_t> contexts_;
  std::vector<uint64_t> folds_;
  std::vector<float> logits_;
};

}  // namespace hami::llm

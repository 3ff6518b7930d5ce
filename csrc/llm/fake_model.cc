#include "llm/fake_model.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace hami::llm {
namespace {

constexpr uint64_t kPoison = 0xdeadbeefdeadbeefULL;

uint64_t mixed(uint64_t a, uint64_t b) noexcept {
  uint64_t value = (a ^ (b + 0x9e3779b97f4a7c15ULL)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

// What is kept of a token, given all before it.
uint64_t state_of(uint64_t context, int32_t token, int32_t position) noexcept {
  return mixed(mixed(context, static_cast<uint64_t>(token)), static_cast<uint64_t>(position));
}

void write_logits(uint64_t context, std::span<float> logits) noexcept {
  for (size_t id = 0; id < logits.size(); ++id) {
    logits[id] = static_cast<float>(mixed(context, id) >> 40) / float{1 << 21} - 4.0F;
  }
}

[[noreturn]] void fail(const std::string& what) { throw std::logic_error("this plan " + what); }

std::string in_row(size_t row) { return " in row " + std::to_string(row); }

}  // namespace

FakeModel::FakeModel(int32_t vocab_size, int32_t num_pages, int32_t page_size,
                     int32_t num_swap_pages)
    : vocab_size_(vocab_size), num_pages_(num_pages), page_size_(page_size) {
  if (vocab_size < 1 || num_pages < 2 || page_size < 1 || num_swap_pages < 0) {
    throw std::invalid_argument("a model has at least 1 token, 2 pages and 1 slot in each");
  }
  slots_.resize(static_cast<size_t>(num_pages) * static_cast<size_t>(page_size));
  swapped_.resize(static_cast<size_t>(num_swap_pages) * static_cast<size_t>(page_size));
  holders_.resize(num_pages);
}

void FakeModel::reference_logits(std::span<const int32_t> tokens, std::span<float> logits) {
  uint64_t context = 0;
  int32_t position = 0;
  for (const int32_t token : tokens) {
    context = mixed(context, state_of(context, token, position++));
  }
  write_logits(context, logits);
}

std::span<float> FakeModel::run(const StepPlan& plan) {
  copy_pages(plan.swap_out, slots_, swapped_);
  copy_pages(plan.swap_in, swapped_, slots_);
  copy_pages(plan.copies, slots_, slots_);
  check(plan);
  poison(plan);
  contexts_.clear();
  for (size_t row = 0; row < plan.sequences.size(); ++row) {
    contexts_.push_back(context_before(plan, row));
  }
  folds_.resize(plan.token_ids.size());
  for (size_t row = 0; row < plan.sequences.size(); ++row) {
    uint64_t context = contexts_[row];
    for (int32_t token = plan.query_starts[row]; token < plan.query_starts[row + 1]; ++token) {
      const uint64_t state = state_of(context, plan.token_ids[token], plan.positions[token]);
      slots_[plan.slots[token]] = state;
      context = folds_[token] = mixed(context, state);
    }
  }
  const auto vocab_size = static_cast<size_t>(vocab_size_);
  logits_.resize(plan.logit_tokens.size() * vocab_size);
  for (size_t i = 0; i < plan.logit_tokens.size(); ++i) {
    write_logits(folds_[plan.logit_tokens[i]],
                 std::span(logits_).subspan(i * vocab_size, vocab_size));
  }
  return logits_;
}

void FakeModel::copy_pages(const PlanArray<PagePair>& pairs, const Slots& from, Slots& to) {
  const auto size = static_cast<size_t>(page_size_);
  for (const auto& [source, target] : pairs) {
    const auto begin = static_cast<size_t>(source) * size;
    const auto end = static_cast<size_t>(target) * size;
    if (source < 0 || target < 0 || begin + size > from.size() || end + size > to.size()) {
      fail("copies page " + std::to_string(source) + " to " + std::to_string(target));
    }
    std::copy_n(from.begin() + static_cast<ptrdiff_t>(begin), size,
                to.begin() + static_cast<ptrdiff_t>(end));
  }
}

std::span<const int32_t> FakeModel::pages_of(const StepPlan& plan, size_t row) const {
  const auto num_pages =
      static_cast<size_t>((int64_t{plan.context_lens[row]} + page_size_ - 1) / page_size_);
  return plan.page_table.subspan(
      static_cast<size_t>(plan.table_rows[row]) * static_cast<size_t>(plan.max_pages), num_pages);
}

// Whoever has written to the arrays in between gets an error, and nothing else.
void FakeModel::check(const StepPlan& plan) {
  std::fill(holders_.begin(), holders_.end(), 0);
  const int64_t most_tokens = int64_t{plan.max_pages} * page_size_;
  const int64_t num_table_rows = static_cast<int64_t>(plan.page_table.size()) / plan.max_pages;
  int32_t end = 0;
  for (size_t row = 0; row < plan.sequences.size(); ++row) {
    const int32_t num_tokens = plan.query_starts[row + 1] - plan.query_starts[row];
    const bool has_tokens = plan.query_starts[row] == end && num_tokens > 0;
    end = plan.query_starts[row + 1];
    if (!has_tokens || end > plan.num_tokens()) fail("has wrong tokens" + in_row(row));
    if (plan.context_lens[row] < num_tokens || plan.context_lens[row] > most_tokens) {
      fail("has a wrong context" + in_row(row));
    }
    if (plan.table_rows[row] < 0 || plan.table_rows[row] >= num_table_rows) {
      fail("has a wrong row of the table" + in_row(row));
    }
    for (const int32_t page : pages_of(plan, row)) {
      if (page < 1 || page >= num_pages_) fail("has page " + std::to_string(page) + in_row(row));
      ++holders_[page];
    }
  }
  if (end != plan.num_tokens()) fail("has tokens without a row");
  for (const int32_t token : plan.logit_tokens) {
    if (token < 0 || token >= end) fail("wants logits of token " + std::to_string(token));
  }
  for (size_t row = 0; row < plan.sequences.size(); ++row) check_row(plan, row);
}

void FakeModel::check_row(const StepPlan& plan, size_t row) {
  const auto pages = pages_of(plan, row);
  const int32_t begin = plan.query_starts[row];
  const int32_t num_tokens = plan.query_starts[row + 1] - begin;
  for (int32_t i = 0; i < num_tokens; ++i) {
    const int32_t position = plan.context_lens[row] - num_tokens + i;
    if (plan.positions[begin + i] != position) fail("skips a position" + in_row(row));
    const int32_t page = pages[position / page_size_];
    if (plan.slots[begin + i] != page * page_size_ + position % page_size_) {
      fail("writes slot " + std::to_string(plan.slots[begin + i]) + ", not the table's," +
           in_row(row));
    }
    if (holders_[page] != 1)
      fail("writes page " + std::to_string(page) + ", a shared one," + in_row(row));
  }
}

// Who reads what is written only now reads something else.
void FakeModel::poison(const StepPlan& plan) {
  for (const int32_t slot : plan.slots) slots_[slot] = kPoison;
}

uint64_t FakeModel::context_before(const StepPlan& plan, size_t row) const {
  const auto pages = pages_of(plan, row);
  const int32_t num_tokens = plan.query_starts[row + 1] - plan.query_starts[row];
  uint64_t context = 0;
  int32_t left = plan.context_lens[row] - num_tokens;
  for (size_t index = 0; left > 0; ++index) {
    const auto* slot = slots_.data() + static_cast<size_t>(pages[index]) * page_size_;
    for (int32_t i = 0; i < page_size_ && left > 0; ++i, --left) context = mixed(context, slot[i]);
  }
  return context;
}

}  // namespace hami::llm

#include <algorithm>

#include "llm/llm_scheduler.h"

namespace hami::llm {

// Back to the start, as one that waits. What it computed stays in the cache while there is room.
void LlmScheduler::recompute(Sequence& sequence) {
  pages_.release(sequence);
  sequence.num_computed = 0;
  sequence.may_cache = true;
  sequence.state = State::kWaiting;
  waiting_->push(sequence);
}

// Swapped ones first, then those that wait; the first that cannot come in keeps those behind it
// out.
void LlmScheduler::admit() {
  while (budget_ > 0 && !swapped_.empty() && bring_back(**swapped_.begin())) {
  }
  if (swapped_.empty()) {
    const auto most_deferred = static_cast<size_t>(settings_.max_running);
    while (budget_ > 0 && deferred_.size() < most_deferred && admit_first()) {
    }
  }
  for (Sequence* sequence : deferred_) waiting_->push(*sequence);
  deferred_.clear();
}

bool LlmScheduler::has_rows_for(const Request& request) const noexcept {
  return request.num_running > 0 || num_reserved_rows_ + request.width <= settings_.max_running;
}

// Whether all its known tokens fit, beside what the running ones still need. Somebody who would
// run alone need not leave anything.
bool LlmScheduler::can_have_pages(const Sequence& sequence) const noexcept {
  const int32_t spare = running_.empty() ? 0 : settings_.watermark();
  return pages_.num_owed(sequence) <= pages_.pool().num_available() - num_owed_ - spare;
}

bool LlmScheduler::bring_back(Sequence& sequence) {
  if (pages_.pages_for(sequence.num_known()) >= settings_.num_pages) {
    end_in_step(sequence);
    return true;
  }
  if (!has_rows_for(*sequence.request)) return false;
  pages_.take_cached(sequence, sequence.num_computed);
  if (!can_have_pages(sequence)) {
    pages_.give_back_cached(sequence);
    return false;
  }
  swapped_.erase(&sequence);
  pages_.swap_in(sequence, plan_);
  start_running(sequence);
  ++stats_.num_swapped_in;
  plan_row(sequence, sequence.num_left());
  num_owed_ += pages_.num_owed(sequence);
  return true;
}

bool LlmScheduler::admit_first() {
  Sequence* const sequence = waiting_->first();
  if (sequence == nullptr) return false;
  if (pages_.pages_for(sequence->num_known()) >= settings_.num_pages) {
    end_in_step(*sequence);
    return true;
  }
  if (!has_rows_for(*sequence->request)) return false;
  // One token at least is computed: its logits are wanted.
  if (!sequence->request->prompt_logits) pages_.take_cached(*sequence, sequence->num_known() - 1);
  if (should_defer(*sequence)) {
    pages_.give_back_cached(*sequence);
    waiting_->erase(*sequence);
    deferred_.push_back(sequence);
    ++sequence->request->num_deferred;
    ++stats_.num_deferred;
    return true;
  }
  if (!can_have_pages(*sequence)) {
    pages_.give_back_cached(*sequence);
    return false;
  }
  waiting_->erase(*sequence);
  pages_.open(*sequence);
  start_running(*sequence);
  plan_prefill(*sequence);
  num_owed_ += pages_.num_owed(*sequence);
  return true;
}

// Whether a prefill in this plan is about to compute the pages that come after those found.
bool LlmScheduler::should_defer(const Sequence& sequence) const noexcept {
  const Request& request = *sequence.request;
  if (settings_.prefix_cache == paged::PrefixCache::kNone || request.prompt_logits) return false;
  const auto page_size = static_cast<size_t>(settings_.page_size);
  const auto num_found = static_cast<size_t>(sequence.num_indexed) * page_size;
  const size_t most = (sequence.tokens.size() - 1) / page_size * page_size;
  for (const Row& row : rows_) {
    const Sequence& other = *row.sequence;
    if (row.num_tokens == 1 || !other.may_cache || other.request->salt != request.salt) continue;
    const size_t length = std::min(most, other.tokens.size());
    if (length < num_found + page_size) continue;
    const auto differ = std::mismatch(sequence.tokens.begin(),
                                      sequence.tokens.begin() + static_cast<ptrdiff_t>(length),
                                      other.tokens.begin());
    const auto num_common = static_cast<size_t>(differ.first - sequence.tokens.begin());
    if (num_common < num_found + page_size) continue;
    const size_t budget = static_cast<size_t>(settings_.max_batched_tokens);
    return static_cast<size_t>(request.num_deferred) < 2 * (num_common + budget - 1) / budget + 1;
  }
  return false;
}

}  // namespace hami::llm

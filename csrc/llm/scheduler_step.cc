#include <algorithm>
#include <stdexcept>

#include "llm/llm_scheduler.h"

namespace hami::llm {

StepPlan& LlmScheduler::step() {
  if (in_flight_) {
    throw std::logic_error("the plan of the last step was not committed: commit it, or discard it");
  }
  plan_.clear();
  plan_.serial = ++stats_.num_steps;
  rows_.clear();
  samples_.clear();
  budget_ = settings_.max_batched_tokens;
  plan_all();
  for (int attempt = 0; attempt < 3 && rows_.empty() && plan_.ended.empty() && has_work();
       ++attempt) {
    if (attempt > 0) break_deadlock(attempt == 1);
    plan_all();
  }
  // Nobody runs a plan without rows, so nothing would be copied.
  if (rows_.empty()) take_back_swaps();
  lay_out();
  in_flight_ = !rows_.empty();
  return plan_;
}

void LlmScheduler::plan_all() {
  has_preempted_ = false;
  const bool prefills_first = settings_.policy == Policy::kPrefillFirst;
  if (!prefills_first) plan_decodes();
  plan_prefills();
  if (!has_preempted_) admit();
  if (prefills_first && rows_.empty()) plan_decodes();
  // All the others made room for one that could not grow even so: somebody comes in.
  if (rows_.empty() && running_.empty()) {
    num_owed_ = 0;
    admit();
  }
}

void LlmScheduler::plan_decodes() {
  for (size_t i = 0; i < running_.size() && budget_ > 0;) {
    Sequence& sequence = *running_[i];
    if (sequence.num_left() == 1 && sequence.num_planned == 0) {
      if (is_in_group(sequence)) {
        plan_group(sequence);
      } else {
        plan_row(sequence, 1);
      }
    }
    // It may have made room, or ended; those after it may be gone as well.
    if (i < running_.size() && running_[i] == &sequence) ++i;
  }
}

void LlmScheduler::plan_prefills() {
  num_owed_ = 0;
  for (size_t i = 0; i < running_.size();) {
    Sequence& sequence = *running_[i];
    if (sequence.num_left() > 1 && sequence.num_planned == 0) plan_prefill(sequence);
    if (i < running_.size() && running_[i] == &sequence) {
      num_owed_ += pages_.num_owed(sequence);
      ++i;
    }
  }
}

void LlmScheduler::plan_prefill(Sequence& sequence) {
  // The last token of one in a group is planned with those of the others.
  const int32_t num_tokens = sequence.num_left() - (is_in_group(sequence) ? 1 : 0);
  if (budget_ > 0 && num_tokens > 0) plan_row(sequence, num_tokens);
}

// Plans as many of the tokens as budget and pages allow; false when that is none.
bool LlmScheduler::plan_row(Sequence& sequence, int32_t num_tokens) {
  if (!has_room(sequence, sequence.num_computed + 1)) return false;
  const int64_t most = pages_.most_tokens(sequence) - sequence.num_computed;
  const auto chunk = static_cast<int32_t>(std::min<int64_t>({num_tokens, budget_, most}));
  pages_.grow(sequence, sequence.num_computed + chunk, plan_);
  sequence.num_planned = chunk;
  budget_ -= chunk;
  rows_.push_back({&sequence, chunk});
  return true;
}

// Makes room for one token more, if need be at the cost of others. False when the sequence must do
// without a row; it may then have made room itself, or have ended.
bool LlmScheduler::has_room(Sequence& sequence, int32_t num_tokens) {
  while (pages_.most_tokens(sequence) < num_tokens) {
    if (make_room(sequence) == nullptr || sequence.state != State::kRunning) return false;
  }
  return true;
}

// Takes the pages of the last in order among those without a row in this step, `sequence` included,
// and returns it. One that was preempted often is spared; if that spares all, `sequence` waits for
// the rows of this step, and the first one, which has none to wait for, takes from the spared too.
// Null: nobody made room. The last one left ends.
Sequence* LlmScheduler::make_room(Sequence& sequence) {
  const bool has_mates = is_in_group(sequence);
  const auto num_own = static_cast<size_t>(has_mates ? sequence.request->num_running : 1);
  if (running_.size() == num_own) {
    end_in_step(sequence);
    return nullptr;
  }
  Sequence* spared = nullptr;
  for (size_t i = running_.size(); i > 0; --i) {
    Sequence& candidate = *running_[i - 1];
    if (candidate.num_planned > 0) continue;
    if (is_in_group(candidate) && has_planned_mate(candidate)) continue;
    if (candidate.num_preemptions < settings_.max_preemptions) {
      preempt(candidate);
      return &candidate;
    }
    const bool is_own = has_mates ? candidate.request == sequence.request : &candidate == &sequence;
    if (!is_own && spared == nullptr) spared = &candidate;
  }
  if (!rows_.empty()) return nullptr;
  preempt(*spared);
  return spared;
}

void LlmScheduler::preempt(Sequence& victim) {
  has_preempted_ = true;
  if (!is_in_group(victim)) {
    preempt_one(victim);
  } else {
    for (Sequence* member : running_of(*victim.request)) preempt_one(*member);
  }
}

void LlmScheduler::preempt_one(Sequence& victim) {
  ++victim.num_preemptions;
  stop_running(victim);
  // One that comes back for its mates has no row yet, and nothing is copied without one.
  const bool can_swap = settings_.preempt == Preempt::kSwap && !is_in_group(victim);
  if (can_swap && pages_.swap_out(victim, plan_)) {
    ++stats_.num_swapped_out;
    victim.state = State::kSwapped;
    swapped_.insert(&victim);
  } else {
    ++stats_.num_recomputed;
    recompute(victim);
  }
}

void LlmScheduler::end_in_step(Sequence& sequence) {
  plan_.ended.emplace_back(sequence.id, "length");
  remove(sequence, Ending::kFinish);
}

void LlmScheduler::lay_out() {
  // One token, one decode row, wherever it came from.
  const auto prefills = std::stable_partition(
      rows_.begin(), rows_.end(), [](const Row& row) { return row.sequence->num_left() == 1; });
  plan_.num_decode_rows = static_cast<int32_t>(prefills - rows_.begin());
  plan_.query_starts.push(0);
  for (const Row& row : rows_) lay_out_row(row);
  for (const int32_t row : pages_.table().dirty_rows()) plan_.dirty_rows.push(row);
  // Nobody runs a plan without rows: what changed is told again.
  if (!rows_.empty()) pages_.table().clean();
  stats_.num_tokens += plan_.num_tokens();
  stats_.num_copies += static_cast<int64_t>(plan_.copies.size());
}

void LlmScheduler::lay_out_row(const Row& row) {
  Sequence& sequence = *row.sequence;
  const int32_t page_size = settings_.page_size;
  const int32_t begin = sequence.num_computed;
  const int32_t end = begin + row.num_tokens;
  plan_.sequences.push(sequence.id);
  plan_.context_lens.push(end);
  plan_.table_rows.push(sequence.row);
  for (int32_t position = begin; position < end; ++position) {
    if (sequence.request->prompt_logits) plan_.logit_tokens.push(plan_.num_tokens());
    plan_.token_ids.push(sequence.tokens[position]);
    plan_.positions.push(position);
    plan_.slots.push(sequence.pages[position / page_size] * page_size + position % page_size);
  }
  plan_.query_starts.push(plan_.num_tokens());
  if (end < sequence.num_known()) return;
  if (!sequence.request->prompt_logits) plan_.logit_tokens.push(plan_.num_tokens() - 1);
  samples_.push_back(&sequence);
  plan_.sample_sequences.push(sequence.id);
  plan_.sample_logits.push(static_cast<int32_t>(plan_.logit_tokens.size()) - 1);
}

}  // namespace hami::llm

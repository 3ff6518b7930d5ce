#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

#include "llm/llm_scheduler.h"

namespace hami::llm {

void LlmScheduler::commit(std::span<const int64_t> parents, std::span<const int64_t> tokens,
                          std::vector<std::pair<int64_t, const char*>>& results) {
  results.clear();
  check_commit(parents, tokens);
  ending_.clear();
  close_rows();
  for (Sequence* sequence : ending_) remove(*sequence, sequence->ending);
  ending_.clear();
  for (size_t i = 0; i < parents.size(); ++i) {
    Sequence* sequence = parents_[i];
    if (sequence == nullptr) {
      results.emplace_back(parents[i], "gone");
      continue;
    }
    const bool is_first = std::exchange(sequence->num_appearances, 0) > 0;
    if (!is_first) sequence = &fork(*sequence);
    const char* const reason = append(*sequence, static_cast<int32_t>(tokens[i]));
    results.emplace_back(sequence->id, reason);
    if (*reason != '\0') ending_.push_back(sequence);
  }
  for (Sequence* sequence : ending_) remove(*sequence, Ending::kFinish);
  close_plan();
}

// The plan is in the past, and so are its sequences.
void LlmScheduler::close_plan() {
  in_flight_ = false;
  rows_.clear();
  samples_.clear();
}

// Who sampled under this id in the plan in flight; `index` is where it would stand without forks.
Sequence* LlmScheduler::sampling(size_t index, int64_t id) const noexcept {
  if (index < samples_.size() && samples_[index]->id == id) return samples_[index];
  const auto found = sequences_.find(id);
  if (found == sequences_.end()) return nullptr;
  Sequence* const sequence = found->second.get();
  const bool samples = sequence->num_planned > 0 && sequence->num_left() == sequence->num_planned;
  return samples ? sequence : nullptr;
}

void LlmScheduler::check_commit(std::span<const int64_t> parents, std::span<const int64_t> tokens) {
  if (parents.size() != tokens.size()) {
    throw std::invalid_argument(std::to_string(parents.size()) + " parents for " +
                                std::to_string(tokens.size()) + " tokens: there must be as many");
  }
  parents_.clear();
  bool has_forks = false;
  for (Sequence* sequence : samples_) sequence->num_appearances = 0;
  for (size_t i = 0; i < parents.size(); ++i) {
    Sequence* const sequence = sampling(i, parents[i]);
    if (sequence == nullptr) {
      throw std::invalid_argument("parent " + std::to_string(parents[i]) +
                                  " is none of the plan's `sample_sequences`");
    }
    if (tokens[i] < 0 || tokens[i] > std::numeric_limits<int32_t>::max()) {
      throw std::invalid_argument("token " + std::to_string(tokens[i]) + " of sequence " +
                                  std::to_string(parents[i]) + " is no token id");
    }
    if (++sequence->num_appearances > 1) has_forks = true;
    parents_.push_back(sequence->ending == Ending::kNone ? sequence : nullptr);
  }
  if (!has_forks) return;
  for (const Row& row : rows_) row.sequence->request->num_after = row.sequence->request->num_live;
  for (const Row& row : rows_) row.sequence->request->num_after -= 1;
  for (const Row& row : rows_) {
    Sequence& sequence = *row.sequence;
    if (sequence.ending != Ending::kNone) continue;
    Request& request = *sequence.request;
    const bool samples = sequence.num_left() == row.num_tokens;
    request.num_after += samples ? sequence.num_appearances : 1;
    if (request.num_after > request.width) {
      throw std::invalid_argument("sequence " + std::to_string(sequence.id) +
                                  " is forked beyond the `width` of its request, " +
                                  std::to_string(request.width));
    }
  }
}

// All rows are computed. What ended meanwhile, or sampled and goes nowhere, goes to `ending_`.
void LlmScheduler::close_rows() {
  for (const Row& row : rows_) {
    Sequence& sequence = *row.sequence;
    sequence.num_computed += sequence.num_planned;
    sequence.num_planned = 0;
    waiting_->serve(*sequence.request, row.num_tokens);
    if (sequence.ending != Ending::kFail) pages_.index(sequence);
    const bool is_dropped = sequence.num_left() == 0 && sequence.num_appearances == 0;
    if (sequence.ending != Ending::kNone || is_dropped) ending_.push_back(&sequence);
  }
}

Sequence& LlmScheduler::fork(Sequence& parent) {
  auto forked = std::make_unique<Sequence>();
  Sequence& child = *forked;
  child.id = next_id_++;
  child.request = parent.request;
  // The parent may have its token already.
  child.tokens.assign(parent.tokens.begin(), parent.tokens.begin() + parent.num_computed);
  child.num_computed = parent.num_computed;
  child.num_preemptions = parent.num_preemptions;
  sequences_.emplace(child.id, std::move(forked));
  pages_.fork(parent, child);
  ++child.request->num_live;
  start_running(child);
  ++stats_.num_forks;
  return child;
}

// Why the sequence ends with this token; empty when it goes on.
const char* LlmScheduler::append(Sequence& sequence, int32_t token) {
  sequence.tokens.push_back(token);
  ++stats_.num_sampled;
  const Request& request = *sequence.request;
  const int32_t num_sampled = sequence.num_sampled();
  if (num_sampled >= request.min_tokens &&
      std::find(request.stop_ids.begin(), request.stop_ids.end(), token) !=
          request.stop_ids.end()) {
    return "stop";
  }
  return num_sampled >= request.max_tokens ? "length" : "";
}

void LlmScheduler::discard() {
  for (const Row& row : rows_) {
    Sequence& sequence = *row.sequence;
    sequence.num_planned = 0;
    if (sequence.ending != Ending::kNone) {
      remove(sequence, sequence.ending);
    } else if (sequence.transfer_step == plan_.serial) {
      stop_running(sequence);
      recompute(sequence);
    }
  }
  take_back_swaps();
  close_plan();
  // Nobody may have copied the rows that changed.
  for (const Sequence* sequence : running_) pages_.table().touch(sequence->row);
}

// What this step should have swapped out is computed again instead.
void LlmScheduler::take_back_swaps() {
  plan_.swap_out.clear();
  std::vector<Sequence*> lost;
  for (Sequence* sequence : swapped_) {
    if (sequence->transfer_step == plan_.serial) lost.push_back(sequence);
  }
  for (Sequence* sequence : lost) {
    swapped_.erase(sequence);
    recompute(*sequence);
  }
}

}  // namespace hami::llm

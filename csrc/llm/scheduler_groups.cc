// Requests whose sequences stay together: whoever chooses among them, as a beam search does, needs
// the logits of all in one step. The last known token of each is planned with those of the others
// or not at all; all make room at once, and each comes back on its own.
#include <algorithm>

#include "llm/llm_scheduler.h"

namespace hami::llm {

bool LlmScheduler::is_in_group(const Sequence& sequence) const noexcept {
  return sequence.request->together && sequence.request->num_live > 1;
}

// The running sequences of a request, which stand side by side.
std::vector<Sequence*> LlmScheduler::running_of(const Request& request) const {
  std::vector<Sequence*> members;
  for (Sequence* sequence : running_) {
    if (sequence->request.get() == &request) members.push_back(sequence);
  }
  return members;
}

bool LlmScheduler::has_planned_mate(const Sequence& sequence) const noexcept {
  return std::any_of(rows_.begin(), rows_.end(),
                     [&](const Row& row) { return row.sequence->request == sequence.request; });
}

// One token for each, if all are there and have room.
void LlmScheduler::plan_group(Sequence& first) {
  const std::shared_ptr<Request> request = first.request;
  for (;;) {
    const auto members = running_of(*request);
    const auto num_live = static_cast<size_t>(request->num_live);
    const bool is_complete = members.size() == num_live &&
                             std::all_of(members.begin(), members.end(),
                                         [](auto* member) { return member->num_left() == 1; });
    if (members.empty() || !is_complete || static_cast<size_t>(budget_) < num_live) return;
    if (pages_.num_needed(members) <= pages_.pool().num_available()) {
      for (Sequence* member : members) plan_row(*member, 1);
      return;
    }
    const Sequence* const victim = make_room(*members.back());
    const bool has_ended = static_cast<size_t>(request->num_live) < num_live;
    if (victim == nullptr && !has_ended) return;
  }
}

// Groups that wait for mates who cannot come in while they hold their pages: the last of several
// makes room, and of the only one somebody ends.
void LlmScheduler::break_deadlock(bool may_preempt) {
  if (running_.empty()) return;
  Sequence& last = *running_.back();
  const std::shared_ptr<Request> request = running_.front()->request;
  if (may_preempt && last.request != request) {
    preempt(last);
    return;
  }
  Sequence* ending = &last;
  for (const auto& [id, sequence] : sequences_) {
    if (sequence->request == request && sequence->state != State::kRunning) ending = sequence.get();
  }
  end_in_step(*ending);
}

}  // namespace hami::llm

#include "schedule/stateful_policy.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "schedule/refusal.h"

namespace hami {
namespace {

// A text that tells ids apart, those of different types as well.
std::string key_of(const Task& task) {
  const Value* id = task.dict.find(keys::request_id);
  if (id == nullptr) {
    throw Error(ErrorKind::kRequest, "request-missing-key",
                "`StatefulBatching` finds no key `request_id` in the request",
                "name the sequence that the request belongs to, with an int, a text or bytes");
  }
  switch (id->kind()) {
    case Value::Kind::kInt:
      return "i" + std::to_string(id->as_int());
    case Value::Kind::kStr:
      return "s" + std::string(id->as_text());
    case Value::Kind::kBytes:
      return "b" + std::string(id->as_text());
    default:
      throw Error(
          ErrorKind::kRequest, "request-type",
          "`request_id` must be an int, a text or bytes, got " + backticked(id->type_name()),
          "use for example a text of `uuid.uuid4()`");
  }
}

bool is_last_of_sequence(const Task& task) {
  const Value* end = task.dict.find(keys::request_end);
  if (end == nullptr || end->is_none()) return false;
  if (end->is(Value::Kind::kBool)) return end->as_bool();
  return !end->is(Value::Kind::kInt) || end->as_int() != 0;
}

}  // namespace

// The items of a group that can run together now.
struct StatefulPolicy::Batch {
  const Task* head = nullptr;
  TimePoint first_arrival = TimePoint::max();
  size_t count = 0;
  int64_t rows = 0;
  bool is_full = false;  // nothing that arrives later could join
};

StatefulPolicy::StatefulPolicy(std::vector<BatchRange> instances, Duration ttl,
                               OnStateEnd on_state_end)
    : ttl_(ttl), on_state_end_(std::move(on_state_end)) {
  for (const BatchRange& range : instances) instances_.push_back({.range = range});
}

void StatefulPolicy::collect_reads(std::vector<Key>& reads) const {
  reads.push_back(keys::request_id);
  reads.push_back(keys::request_end);
}

// --- what comes and goes ---

SequenceState& StatefulPolicy::find_or_begin(const Task& task) {
  const std::string key = key_of(task);
  const auto [place, is_new] = states_.try_emplace(key);
  SequenceState& state = place->second;
  if (is_new) {
    state.key = key;
    state.request_id = *task.dict.find(keys::request_id);
    state.instance = place_for(task.rows);
    ++instances_[state.instance].num_live;
  }
  return state;
}

size_t StatefulPolicy::place_for(int64_t rows) const {
  const auto load = [rows](const Instance& instance) {
    return std::pair(rows > instance.range.max, instance.num_live);
  };
  return static_cast<size_t>(std::ranges::min_element(instances_, {}, load) - instances_.begin());
}

void StatefulPolicy::on_arrival(Task& task, TimePoint now) {
  end_idle(now);
  SequenceState& state = find_or_begin(task);
  Instance& instance = instances_[state.instance];
  if (task.rows > instance.range.max) {
    // A state that would begin here has nothing yet that could end.
    if (state.queued.empty() && !state.is_running && !state.idle_place) forget(state);
    throw Error(ErrorKind::kRequest, "request-too-large",
                "the instance that holds the state of this request takes " +
                    backticked(std::to_string(instance.range.max)) +
                    " rows at once, the request has " + backticked(std::to_string(task.rows)),
                "send fewer rows at a time");
  }
  if (state.idle_place) idle_.erase(*std::exchange(state.idle_place, std::nullopt));
  if (state.queued.empty()) ++instance.num_ready;
  state.queued.push_back(&task);
  task.sequence = &state;
  task.instance = state.instance;
  task.group = task.group * instances_.size() + state.instance;
}

void StatefulPolicy::leave_queue(const Task& task) {
  auto& queued = task.sequence->queued;
  queued.erase(std::ranges::find(queued, &task));
  if (queued.empty()) --instances_[task.instance].num_ready;
}

void StatefulPolicy::rest(SequenceState& state, TimePoint now) {
  if (!state.queued.empty() || state.is_running) return;
  state.idle_since = now;
  state.idle_place = idle_.insert(idle_.end(), &state);
}

void StatefulPolicy::on_leave(const Task& task, TimePoint now) {
  leave_queue(task);
  rest(*task.sequence, now);
}

void StatefulPolicy::on_start(std::span<Task* const> tasks) {
  for (const Task* task : tasks) {
    leave_queue(*task);
    task->sequence->is_running = true;
  }
}

void StatefulPolicy::on_end(std::span<Task* const> tasks, TimePoint now) {
  for (const Task* task : tasks) {
    SequenceState& state = *task->sequence;
    state.is_running = false;
    if (!is_last_of_sequence(*task)) {
      rest(state, now);
    } else if (state.queued.empty()) {
      end(state);
    } else {
      // What waits already begins a new sequence, in the place of the old one.
      on_state_end_(state.request_id);
    }
  }
}

void StatefulPolicy::end(SequenceState& state) {
  on_state_end_(state.request_id);
  forget(state);
}

void StatefulPolicy::forget(SequenceState& state) {
  --instances_[state.instance].num_live;
  if (state.idle_place) idle_.erase(*state.idle_place);
  states_.erase(std::string(state.key));
}

void StatefulPolicy::end_idle(TimePoint now) {
  while (!idle_.empty() && idle_.front()->idle_since + ttl_ <= now) end(*idle_.front());
}

// --- decision ---

StatefulPolicy::Batch StatefulPolicy::batch_of(const BatchQueue::Group& group) const {
  const Instance& instance = instances_[group.head().instance];
  Batch batch;
  for (const Task* task = group.first; task != nullptr; task = task->links.next) {
    // Every sequence has one item at most that can run, so that behind those there is no other.
    if (static_cast<int64_t>(batch.count) == instance.num_ready) break;
    if (!can_run(*task)) continue;
    batch.is_full = task->rows > instance.range.max - batch.rows;
    if (batch.is_full) break;
    if (batch.head == nullptr) batch.head = task;
    batch.first_arrival = std::min(batch.first_arrival, task->arrival);
    batch.rows += task->rows;
    ++batch.count;
  }
  batch.is_full |= batch.rows == instance.range.max;
  return batch;
}

Decision StatefulPolicy::decide(const BatchState& state) {
  end_idle(state.now);
  if (state.queue.empty()) return {};
  // With a backlog the very first item can run, and then nobody else needs to be looked at.
  const Choice first = choice_of(state, *state.queue.first());
  if (first.runs() && first.head == &first.decision.group->head()) return first.decision;
  const TimePoint next_expiry = idle_.empty() ? TimePoint::max() : idle_.front()->idle_since + ttl_;
  Choice best;
  for (BatchQueue::Group* group : state.queue.groups()) {
    Choice choice = choice_of(state, *group);
    if (choice.decision.action == Decision::Action::kIdle) continue;
    if (!choice.runs()) {
      if (best.runs()) continue;
      TimePoint& until = choice.decision.until;
      until = std::min({until, best.decision.until, next_expiry});
      best = choice;
    } else if (!best.runs() || choice.is_before(best)) {
      best = choice;
    }
  }
  return best.decision;
}

bool StatefulPolicy::Choice::runs() const noexcept {
  return decision.action == Decision::Action::kRun || decision.action == Decision::Action::kRefuse;
}

bool StatefulPolicy::Choice::is_before(const Choice& other) const noexcept {
  return std::pair(head->order, decision.group->serial) <
         std::pair(other.head->order, other.decision.group->serial);
}

StatefulPolicy::Choice StatefulPolicy::choice_of(const BatchState& state,
                                                 BatchQueue::Group& group) {
  const size_t home = group.head().instance;
  const auto free = std::ranges::find(state.free_instances, home);
  if (free == state.free_instances.end()) return {};
  Instance& instance = instances_[home];
  const Batch batch = batch_of(group);
  if (batch.count == 0) return {};
  if (instance.num_ready == instance.num_live) instance.complete = state.now;
  // Also what was complete with groups that have run meanwhile.
  const bool is_everyone_here = batch.head->arrival <= instance.complete;
  const TimePoint due = batch.first_arrival + state.timeout;
  Choice choice{{.group = &group, .count = batch.count}, batch.head};
  Decision& decision = choice.decision;
  decision.release = batch.is_full      ? Release::kFull
                     : is_everyone_here ? Release::kEveryoneHere
                                        : Release::kTimeout;
  if (decision.release == Release::kTimeout && state.now < due) {
    decision.action = Decision::Action::kWait;
    decision.until = due;
    return choice;
  }
  decision.action =
      batch.rows >= instance.range.min ? Decision::Action::kRun : Decision::Action::kRefuse;
  decision.instance = static_cast<size_t>(free - state.free_instances.begin());
  return choice;
}

}  // namespace hami

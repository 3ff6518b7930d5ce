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
      throw Error(ErrorKind::kRequest, "request-type",
                  "`request_id` must be an int, a text or bytes, got " + quoted(id->type_name()),
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

struct StatefulPolicy::Prefix {
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
    if (state.queued.empty() && !state.is_running && !state.idle_place) end(state);
    throw Error(ErrorKind::kRequest, "request-too-large",
                "the instance that holds the state of this request takes " +
                    quoted(std::to_string(instance.range.max)) + " rows at once, the request has " +
                    quoted(std::to_string(task.rows)),
                "send fewer rows at a time");
  }
  if (state.idle_place) idle_.erase(*std::exchange(state.idle_place, std::nullopt));
  if (state.queued.empty()) {
    ++instance.num_ready;
  } else {
    // Whatever the scheduler says of an item, it needs the state that those before it leave.
    task.order = std::max(task.order, state.queued.back()->order);
  }
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
  --instances_[state.instance].num_live;
  if (state.idle_place) idle_.erase(*state.idle_place);
  on_state_end_(state.request_id);
  states_.erase(std::string(state.key));
}

void StatefulPolicy::end_idle(TimePoint now) {
  while (!idle_.empty() && idle_.front()->idle_since + ttl_ <= now) end(*idle_.front());
}

// --- decision ---

StatefulPolicy::Prefix StatefulPolicy::prefix_of(const BatchQueue::Group& group) const {
  const int64_t max_rows = instances_[group.head().instance].range.max;
  Prefix prefix;
  for (const Task* task = group.first; task != nullptr; task = task->links.next) {
    // An item needs the state that those before it leave, here or in a group of another shape.
    if (task->rows > max_rows - prefix.rows || task->sequence->queued.front() != task) {
      prefix.is_full = true;
      break;
    }
    prefix.rows += task->rows;
    ++prefix.count;
  }
  prefix.is_full |= prefix.rows == max_rows;
  return prefix;
}

Decision StatefulPolicy::decide(const BatchState& state) {
  end_idle(state.now);
  if (state.queue.empty()) return {};
  // With a backlog the very first can run, and then nobody else needs to be looked at.
  const Decision first = decide_for(state, *state.queue.first());
  if (first.action != Decision::Action::kIdle && first.action != Decision::Action::kWait) {
    return first;
  }
  const TimePoint next_expiry = idle_.empty() ? TimePoint::max() : idle_.front()->idle_since + ttl_;
  Decision best;
  for (BatchQueue::Group* group : state.queue.groups()) {
    Decision decision = decide_for(state, *group);
    if (decision.action == Decision::Action::kIdle) continue;
    const bool best_runs =
        best.action == Decision::Action::kRun || best.action == Decision::Action::kRefuse;
    if (decision.action == Decision::Action::kWait) {
      if (best_runs) continue;
      decision.until = std::min({decision.until, best.until, next_expiry});
      best = decision;
    } else if (!best_runs || group->is_before(*best.group)) {
      best = decision;
    }
  }
  return best;
}

Decision StatefulPolicy::decide_for(const BatchState& state, BatchQueue::Group& group) {
  Decision decision{.group = &group};
  const Task& head = group.head();
  const auto free = std::ranges::find(state.free_instances, head.instance);
  if (free == state.free_instances.end()) return decision;
  Instance& instance = instances_[head.instance];
  const Prefix prefix = prefix_of(group);
  if (prefix.count == 0) return decision;
  if (instance.num_ready == instance.num_live) instance.complete = state.now;
  // Also what was complete with groups that have run meanwhile.
  const bool is_everyone_here = head.arrival <= instance.complete;
  const TimePoint due = group.first_arrival + state.timeout;
  decision.release = Release::kTimeout;
  if (!prefix.is_full && !is_everyone_here && state.now < due) {
    decision.action = Decision::Action::kWait;
    decision.until = due;
    return decision;
  }
  if (is_everyone_here) decision.release = Release::kEveryoneHere;
  if (prefix.is_full) decision.release = Release::kFull;
  decision.action =
      prefix.rows >= instance.range.min ? Decision::Action::kRun : Decision::Action::kRefuse;
  decision.count = prefix.count;
  decision.instance = static_cast<size_t>(free - state.free_instances.begin());
  return decision;
}

}  // namespace hami

#include "schedule/batch_policy.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace hami {
namespace {

// The tasks at the head of a group that fit into `max_rows`.
struct Prefix {
  size_t count = 0;
  int64_t rows = 0;
  bool is_full = false;  // no further task of the group could join
};

Prefix prefix_that_fits(const BatchQueue::Group& group, int64_t max_rows) {
  // Mostly all of them fit, and then nobody needs to be looked at.
  if (group.rows <= max_rows) return {group.size, group.rows, group.rows == max_rows};
  Prefix prefix{.is_full = true};
  for (const Task* task = group.first; task->rows <= max_rows - prefix.rows;
       task = task->links.next) {
    prefix.rows += task->rows;
    ++prefix.count;
  }
  return prefix;
}

// Best fit: the instance with the smallest `max` that holds the rows.
std::optional<size_t> best_fit(std::span<const BatchRange> ranges, int64_t rows) {
  std::optional<size_t> best;
  for (size_t i = 0; i < ranges.size(); ++i) {
    const bool fits = ranges[i].min <= rows && rows <= ranges[i].max;
    if (fits && (!best || ranges[i].max < ranges[*best].max)) best = i;
  }
  return best;
}

// When everybody is here who can or will come; `max` while somebody else is inside.
TimePoint time_of_all_here(const BatchState& state) {
  if (static_cast<int64_t>(state.queue.size()) < state.num_inside) return TimePoint::max();
  return state.num_expected > 0 ? state.last_change + state.grace : TimePoint::min();
}

// When this group's head must run although it is not full, and why.
std::pair<TimePoint, Release> due_time(const BatchState& state, TimePoint all_here,
                                       const BatchQueue::Group& group) {
  const bool is_everyone_inside_here = all_here != TimePoint::max();
  const TimePoint began =
      is_everyone_inside_here ? std::max(group.first_arrival, state.last_end) : group.first_arrival;
  const TimePoint timed_out = began + state.timeout;
  if (all_here < timed_out) return {all_here, Release::kEveryoneHere};
  return {timed_out, Release::kTimeout};
}

// The decision for one group alone; idle while it needs an instance that is busy.
Decision decide_for(const BatchState& state, int64_t max_rows, TimePoint all_here,
                    BatchQueue::Group& group) {
  Decision decision{.group = &group};
  // The head needs a larger instance, which is busy now.
  if (group.head().rows > max_rows) return decision;
  const auto [due, release] = due_time(state, all_here, group);
  if (group.rows < max_rows && state.now < due) {
    decision.action = Decision::Action::kWait;
    decision.until = due;
    const bool is_for_returns = all_here != TimePoint::max();
    decision.release = is_for_returns ? Release::kEveryoneHere : Release::kTimeout;
    return decision;
  }
  const Prefix prefix = prefix_that_fits(group, max_rows);
  const auto instance = best_fit(state.free, prefix.rows);
  if (!instance) {
    // Too few rows for the free instances, while a busy one would take them.
    if (best_fit(state.all, prefix.rows)) return decision;
    // Too few for any: whoever comes in time saves them, and be it a stranger.
    const TimePoint last_chance = group.first_arrival + state.timeout;
    if (!prefix.is_full && state.now < last_chance) {
      decision.action = Decision::Action::kWait;
      decision.until = last_chance;
      decision.release = Release::kTimeout;
      return decision;
    }
  }
  decision.action = instance ? Decision::Action::kRun : Decision::Action::kRefuse;
  decision.count = prefix.count;
  decision.instance = instance.value_or(0);
  decision.release = prefix.is_full ? Release::kFull : release;
  return decision;
}

// Looks at every group: for the rare case that one which would be next needs a busy instance or
// more rows.
Decision decide_for_each(const BatchState& state, int64_t max_rows, TimePoint all_here) {
  Decision best;
  for (BatchQueue::Group* group : state.queue.groups()) {
    const Decision decision = decide_for(state, max_rows, all_here, *group);
    if (decision.action == Decision::Action::kIdle) continue;
    const bool is_wait = decision.action == Decision::Action::kWait;
    const bool best_is_wait = best.action == Decision::Action::kWait;
    const bool is_better = best.action == Decision::Action::kIdle ||
                           (is_wait ? best_is_wait && decision.until < best.until
                                    : best_is_wait || group->is_before(*best.group));
    if (is_better) best = decision;
  }
  return best;
}

}  // namespace

const char* to_string(Release release) noexcept {
  switch (release) {
    case Release::kFull:
      return "full";
    case Release::kTimeout:
      return "timeout";
    case Release::kEveryoneHere:
      return "everyone_here";
  }
  return "unknown";
}

Decision decide(const BatchState& state) {
  BatchQueue& queue = state.queue;
  if (queue.empty() || state.free.empty()) return {};
  const int64_t max_rows = std::ranges::max(state.free, {}, &BatchRange::max).max;
  const TimePoint all_here = time_of_all_here(state);
  BatchQueue::Group* next = nullptr;
  bool is_due = true;
  if (all_here <= state.now) {
    next = queue.first();
  } else {
    queue.set_overdue(state.now - state.timeout);
    next = queue.first_with_rows(max_rows);
    BatchQueue::Group* const overdue = queue.first_overdue();
    // All that have waited longer than since the last end of a batch are due at the same time.
    const bool waits_from_end =
        all_here != TimePoint::max() && state.now < state.last_end + state.timeout;
    const bool runs = overdue != nullptr && !waits_from_end;
    if (runs && (next == nullptr || overdue->is_before(*next))) next = overdue;
    is_due = next != nullptr;
    // The one that waits for the shortest time still; those that are overdue wait from the end.
    if (!is_due) next = overdue != nullptr ? overdue : queue.next_overdue();
  }
  const Decision decision = decide_for(state, max_rows, all_here, *next);
  const bool is_as_expected = decision.action == Decision::Action::kWait
                                  ? !is_due
                                  : decision.action != Decision::Action::kIdle;
  if (is_as_expected) return decision;
  return decide_for_each(state, max_rows, all_here);
}

}  // namespace hami

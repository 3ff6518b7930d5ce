#include "schedule/batch_policy.h"

#include <algorithm>
#include <array>
#include <optional>

namespace hami {
namespace {

// The tasks at the head of a group that fit into `max_rows`.
struct Prefix {
  size_t count = 0;
  int64_t rows = 0;
  bool is_full = false;  // no further task of the group could join
};

Prefix prefix_that_fits(const BatchQueue::Group& group, int64_t max_rows) {
  Prefix prefix;
  for (const Task* task : group.tasks) {
    if (task->rows > max_rows - prefix.rows) {
      prefix.is_full = true;
      break;
    }
    prefix.rows += task->rows;
    ++prefix.count;
    if (prefix.rows == max_rows) {
      prefix.is_full = true;
      break;
    }
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

// When this group's head must run although it is not full, and why.
std::pair<TimePoint, Release> due_time(const BatchState& state, const BatchQueue::Group& group) {
  const TimePoint timed_out = group.first_arrival + state.timeout;
  const bool is_everyone_here = static_cast<int64_t>(state.queue.size()) >= state.num_inside;
  const TimePoint graced = state.last_change + state.grace;
  if (is_everyone_here && graced < timed_out) return {graced, Release::kEveryoneHere};
  return {timed_out, Release::kTimeout};
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
  Decision decision;
  if (state.queue.empty() || state.free.empty()) return decision;
  const int64_t max_rows = std::ranges::max(state.free, {}, &BatchRange::max).max;
  const auto& groups = state.queue.groups();
  for (size_t i = 0; i < groups.size(); ++i) {
    const Prefix prefix = prefix_that_fits(groups[i], max_rows);
    // The head needs a larger instance, which is busy now.
    if (prefix.count == 0) continue;
    const auto [due, release] = due_time(state, groups[i]);
    if (!prefix.is_full && state.now < due) {
      if (decision.action == Decision::Action::kIdle) decision.action = Decision::Action::kWait;
      if (decision.action == Decision::Action::kWait) {
        decision.until = std::min(decision.until, due);
      }
      continue;
    }
    const bool runs_already =
        decision.action == Decision::Action::kRun || decision.action == Decision::Action::kRefuse;
    if (runs_already && groups[decision.group].head().order <= groups[i].head().order) continue;
    const auto instance = best_fit(state.free, prefix.rows);
    // Too few rows for the free instances, while a busy one would take them.
    if (!instance && best_fit(state.all, prefix.rows)) continue;
    decision = {instance ? Decision::Action::kRun : Decision::Action::kRefuse,
                TimePoint::max(),
                i,
                prefix.count,
                instance.value_or(0),
                prefix.is_full ? Release::kFull : release};
  }
  return decision;
}

void GraceEstimator::add_gap(Duration gap) {
  gaps_[num_gaps_++ % kNumGaps] = gap;
  const size_t count = std::min(num_gaps_, kNumGaps);
  std::array<Duration, kNumGaps> sorted{};
  std::copy_n(gaps_, count, sorted.begin());
  const auto median = sorted.begin() + static_cast<std::ptrdiff_t>(count / 2);
  std::nth_element(sorted.begin(), median, sorted.begin() + static_cast<std::ptrdiff_t>(count));
  grace_ = std::max(kLeast, 4 * *median);
}

}  // namespace hami

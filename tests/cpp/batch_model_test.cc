// The queue and the decision against a plain model: everything in one list, and every group looked
// at each time.
#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "fake_task.h"
#include "schedule/batch_policy.h"
#include "schedule/order.h"

namespace hami {
namespace {

TEST_SUITE_BEGIN("policy");

using Action = Decision::Action;
using std::chrono::microseconds;
using std::chrono::milliseconds;

// What the model decides: the same as `Decision`, with the group as a number.
struct ModelDecision {
  Action action = Action::kIdle;
  TimePoint until = TimePoint::max();
  size_t group = 0;
  size_t count = 0;
  size_t instance = 0;
  Release release = Release::kFull;
};

class Model {
 public:
  struct Group {
    size_t key;
    std::deque<Task*> tasks;
    TimePoint first_arrival() const { return std::ranges::min(tasks, {}, &Task::arrival)->arrival; }
  };

  void push(Task& task) {
    auto group = std::ranges::find(groups, task.group, &Group::key);
    if (group == groups.end()) group = groups.insert(groups.end(), {task.group, {}});
    auto& tasks = group->tasks;
    tasks.insert(std::ranges::upper_bound(tasks, task.order, {}, &Task::order), &task);
  }

  std::vector<Task*> pop(size_t index, size_t count) {
    auto& tasks = groups[index].tasks;
    const auto end = tasks.begin() + static_cast<std::ptrdiff_t>(count);
    std::vector<Task*> taken(tasks.begin(), end);
    tasks.erase(tasks.begin(), end);
    drop_empty();
    return taken;
  }

  size_t remove_abandoned() {
    size_t num_removed = 0;
    for (Group& group : groups) {
      num_removed += std::erase_if(group.tasks, [](Task* task) { return task->is_abandoned(); });
    }
    drop_empty();
    return num_removed;
  }

  ModelDecision decide(const BatchState& state) const {
    ModelDecision best;
    size_t size = 0;
    for (const Group& group : groups) size += group.tasks.size();
    if (size == 0 || state.free.empty()) return best;
    const int64_t max_rows = std::ranges::max(state.free, {}, &BatchRange::max).max;
    const bool is_everyone_here = static_cast<int64_t>(size) >= state.num_inside;
    for (size_t i = 0; i < groups.size(); ++i) {
      const auto& tasks = groups[i].tasks;
      size_t count = 0;
      int64_t rows = 0;
      while (count < tasks.size() && rows + tasks[count]->rows <= max_rows) {
        rows += tasks[count++]->rows;
      }
      if (count == 0) continue;
      const bool is_full = count < tasks.size() || rows == max_rows;
      TimePoint due = groups[i].first_arrival() + state.timeout;
      Release release = Release::kTimeout;
      if (is_everyone_here) {
        due = std::max(groups[i].first_arrival(), state.last_end) + state.timeout;
        const TimePoint here =
            state.num_expected > 0 ? state.last_change + state.grace : TimePoint::min();
        if (here < due) {
          due = here;
          release = Release::kEveryoneHere;
        }
      }
      const bool runs = best.action == Action::kRun || best.action == Action::kRefuse;
      if (!is_full && state.now < due) {
        if (!runs) wait(best, due, is_everyone_here ? Release::kEveryoneHere : Release::kTimeout);
        continue;
      }
      const auto instance = best_fit(state.free, rows);
      if (!instance && best_fit(state.all, rows)) continue;
      const TimePoint last_chance = groups[i].first_arrival() + state.timeout;
      if (!instance && !is_full && state.now < last_chance) {
        if (!runs) wait(best, last_chance, Release::kTimeout);
        continue;
      }
      if (runs && groups[best.group].tasks[0]->order <= tasks[0]->order) continue;
      best = {instance ? Action::kRun : Action::kRefuse,
              TimePoint::max(),
              i,
              count,
              instance.value_or(0),
              is_full ? Release::kFull : release};
    }
    return best;
  }

  std::vector<Group> groups;

 private:
  void drop_empty() {
    std::erase_if(groups, [](const Group& group) { return group.tasks.empty(); });
  }

  static void wait(ModelDecision& best, TimePoint until, Release release) {
    if (best.action == Action::kWait && best.until <= until) return;
    best = {.action = Action::kWait, .until = until, .release = release};
  }

  static std::optional<size_t> best_fit(std::span<const BatchRange> ranges, int64_t rows) {
    std::optional<size_t> best;
    for (size_t i = 0; i < ranges.size(); ++i) {
      if (rows < ranges[i].min || rows > ranges[i].max) continue;
      if (!best || ranges[i].max < ranges[*best].max) best = i;
    }
    return best;
  }
};

// Steps at random, and after each the question of both.
void compare(const std::string& scheduler, std::vector<BatchRange> all, int64_t most_rows,
             uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](int64_t end) {
    return std::uniform_int_distribution<int64_t>(0, end - 1)(random);
  };
  const auto order = make_order(Value::str(scheduler));
  BatchQueue queue(order->is_arrival());
  Model model;
  std::deque<FakeTask> tasks;
  TimePoint now = at_ms(1000);
  TimePoint last_end{};
  TimePoint last_change{};
  const int64_t num_groups = 1 + below(12);
  for (int step = 0; step < 600; ++step) {
    now += microseconds(below(3000));
    for (int64_t i = below(4); i > 0; --i) {
      FakeTask& task = tasks.emplace_back(0, static_cast<size_t>(below(num_groups)) * 64);
      task.rows = 1 + below(most_rows);
      task.priority = below(3);
      task.deadline = now + milliseconds(below(5));
      task.arrival = last_change = now;
      task.order = order->order_of(task);
      queue.push(task);
      model.push(task);
    }
    if (below(20) == 0 && !tasks.empty()) {
      for (int i = 0; i < 3; ++i)
        tasks[static_cast<size_t>(below(std::ssize(tasks)))].is_gone = true;
      CHECK(queue.remove_abandoned().size() == model.remove_abandoned());
    }
    if (below(3) == 0) last_end = last_change = now;
    std::vector<BatchRange> free;
    for (const BatchRange& range : all) {
      if (below(3) > 0) free.push_back(range);
    }
    const BatchState state{.queue = queue,
                           .now = now,
                           .free = free,
                           .all = all,
                           .num_inside = static_cast<int64_t>(queue.size()) + below(3),
                           .timeout = milliseconds(below(2) * 6),
                           .num_expected = below(3),
                           .grace = microseconds(500),
                           .last_change = last_change,
                           .last_end = last_end};
    const ModelDecision expected = model.decide(state);
    const Decision decision = decide(state);
    REQUIRE(queue.num_groups() == model.groups.size());
    REQUIRE(decision.action == expected.action);
    if (decision.action == Action::kIdle) continue;
    if (decision.action == Action::kWait) {
      REQUIRE(decision.until == expected.until);
      continue;
    }
    REQUIRE(decision.release == expected.release);
    REQUIRE(decision.group->key == model.groups[expected.group].key);
    REQUIRE(decision.count == expected.count);
    REQUIRE(decision.instance == expected.instance);
    REQUIRE(queue.pop(decision.group, decision.count) == model.pop(expected.group, expected.count));
  }
}

TEST_CASE("the decision is the one that looking at every group would give") {
  for (const char* scheduler : {"fifo", "priority", "edf"}) {
    for (uint32_t seed = 0; seed < 20; ++seed) {
      CAPTURE(scheduler);
      CAPTURE(seed);
      compare(scheduler, {{1, 4}}, 1, seed);
      compare(scheduler, {{1, 4}, {1, 4}}, 3, seed);
      compare(scheduler, {{1, 2}, {2, 8}, {4, 16}}, 6, seed);
    }
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace hami

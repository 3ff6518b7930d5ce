// Random lives of a node with state, beside a plain model of what may happen at it: lists of items
// by id, and nothing of how the policy goes about its work.
#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "fake_task.h"
#include "schedule/stateful_policy.h"

namespace hami {
namespace {

TEST_SUITE_BEGIN("stateful");

using Action = Decision::Action;
using std::chrono::milliseconds;

constexpr int64_t kTimeoutMs = 20;
constexpr int64_t kTtlMs = 60;

// What the model knows of an item.
struct Known {
  std::string id;
  size_t shape = 0;
  int64_t arrival_ms = 0;
  bool is_last = false;
  bool was_complete = false;  // every live id had an item at its instance while this one waited
};

// What the model knows of a sequence that has begun and not ended.
struct Sequence {
  size_t home = 0;
  std::deque<Task*> waiting;  // as they arrived
  Task* running = nullptr;
  int64_t rests_since_ms = 0;

  bool is_resting() const { return waiting.empty() && running == nullptr; }
};

// One seed: a node, the model of it, and the steps.
class Life {
 public:
  explicit Life(unsigned seed)
      : chance_(seed),
        is_fifo_(up_to(2) == 0),
        queue_(is_fifo_),
        ranges_(make_ranges()),
        running_(ranges_.size()),
        policy_(ranges_, milliseconds(kTtlMs),
                [this](const Value& id) { reported_.emplace_back(id.as_text()); }) {}

  void step() {
    switch (up_to(8)) {
      case 0:
      case 1:
      case 2:
        arrive();
        break;
      case 3:
        now_ms_ += static_cast<int64_t>(up_to(up_to(10) == 0 ? 100 : 8));
        break;
      case 4:
        leave();
        break;
      case 5:
        if (const size_t index = up_to(ranges_.size()); !running_[index].empty()) end(index);
        break;
      default:
        decide(some_free());
    }
    check_states();
  }

  // Nobody comes any more: everything that waits must run, in no more time than it may wait.
  void drain() {
    while (!queue_.empty()) {
      for (size_t index = 0; index < ranges_.size(); ++index) {
        if (!running_[index].empty()) end(index);
      }
      const size_t num_before = queue_.size();
      const Decision decision = decide(all_free());
      REQUIRE(decision.action != Action::kIdle);
      if (decision.action == Action::kWait) {
        REQUIRE(decision.until > at_ms(now_ms_));
        REQUIRE(decision.until <= at_ms(now_ms_ + kTimeoutMs));
        while (at_ms(now_ms_) < decision.until) ++now_ms_;
      } else {
        REQUIRE(queue_.size() < num_before);
      }
      check_states();
    }
    for (size_t index = 0; index < ranges_.size(); ++index) {
      if (!running_[index].empty()) end(index);
    }
    now_ms_ += kTtlMs;
    decide(all_free());
    check_states();
    CHECK(sequences_.empty());
    CHECK(policy_.num_states() == 0);
  }

  // How often what came about, in all lives.
  static inline std::map<std::string, size_t> num_seen;

 private:
  size_t up_to(size_t count) { return chance_() % count; }

  std::vector<BatchRange> make_ranges() {
    std::vector<BatchRange> ranges;
    for (size_t i = 1 + up_to(3); i > 0; --i) {
      const auto max = static_cast<int64_t>(1 + up_to(5));
      ranges.push_back({1, max});
    }
    return ranges;
  }

  int64_t rows_of(const std::vector<Task*>& tasks) const {
    int64_t rows = 0;
    for (const Task* task : tasks) rows += task->rows;
    return rows;
  }

  size_t num_at(size_t home) const {
    return static_cast<size_t>(
        std::ranges::count(sequences_, home, [](const auto& entry) { return entry.second.home; }));
  }

  // --- steps ---

  void arrive() {
    expire();
    FakeTask& task = tasks_.emplace_back(0, up_to(3), static_cast<int64_t>(1 + up_to(3)));
    Known known{.id = std::string(1, static_cast<char>('a' + up_to(6))),
                .shape = task.group,
                .arrival_ms = now_ms_,
                .is_last = up_to(6) == 0};
    task.dict.put(keys::request_id, Value::str(known.id));
    if (known.is_last) task.dict.put(keys::request_end, Value(true));
    task.arrival = at_ms(now_ms_);
    task.order = is_fifo_ ? now_ms_ : static_cast<int64_t>(up_to(50));
    const auto found = sequences_.find(known.id);
    try {
      policy_.on_arrival(task, task.arrival);
    } catch (const Error& error) {
      ++num_seen["refused"];
      CHECK(error.code() == "request-too-large");
      // Only where the sequence lives already, or where nobody takes so many rows.
      const auto takes = [&](const BatchRange& range) { return task.rows <= range.max; };
      const bool has_place = found == sequences_.end() ? std::ranges::any_of(ranges_, takes)
                                                       : takes(ranges_[found->second.home]);
      CHECK_FALSE(has_place);
      return;
    }
    queue_.push(task);
    CHECK(task.rows <= ranges_[task.instance].max);
    if (found == sequences_.end()) {
      for (size_t i = 0; i < ranges_.size(); ++i) {
        if (task.rows <= ranges_[i].max) CHECK(num_at(task.instance) <= num_at(i));
      }
      sequences_[known.id].home = task.instance;
    }
    Sequence& sequence = sequences_[known.id];
    CHECK(task.instance == sequence.home);
    sequence.waiting.push_back(&task);
    known_[&task] = known;
  }

  // Some callers have gone.
  void leave() {
    for (auto& [id, sequence] : sequences_) {
      for (Task* task : sequence.waiting) {
        static_cast<FakeTask*>(task)->is_gone = up_to(8) == 0;
      }
    }
    for (Task* gone : queue_.remove_abandoned()) {
      Sequence& sequence = sequences_.at(known_.at(gone).id);
      std::erase(sequence.waiting, gone);
      sequence.rests_since_ms = now_ms_;
      policy_.on_leave(*gone, at_ms(now_ms_));
    }
  }

  void end(size_t index) {
    const std::vector<Task*> tasks = std::exchange(running_[index], {});
    policy_.on_end(tasks, at_ms(now_ms_));
    for (Task* task : tasks) {
      const Known& known = known_.at(task);
      Sequence& sequence = sequences_.at(known.id);
      CHECK(sequence.running == task);
      sequence.running = nullptr;
      sequence.rests_since_ms = now_ms_;
      if (!known.is_last) continue;
      expected_.push_back(known.id);
      // What waits for the same id is the next sequence, in the same place.
      if (sequence.waiting.empty()) sequences_.erase(known.id);
    }
  }

  // The policy looks for states without items at arrivals and decisions.
  void expire() {
    std::erase_if(sequences_, [this](const auto& entry) {
      const auto& [id, sequence] = entry;
      const bool is_over = sequence.is_resting() && sequence.rests_since_ms + kTtlMs <= now_ms_;
      if (is_over) expected_.push_back(id);
      return is_over;
    });
  }

  std::vector<size_t> all_free() const {
    std::vector<size_t> free;
    for (size_t i = 0; i < ranges_.size(); ++i) {
      if (running_[i].empty()) free.push_back(i);
    }
    return free;
  }

  std::vector<size_t> some_free() {
    std::vector<size_t> free = all_free();
    std::ranges::shuffle(free, chance_);
    if (!free.empty()) free.resize(1 + up_to(free.size()));
    return free;
  }

  Decision decide(const std::vector<size_t>& free) {
    expire();
    for (size_t index : free) note_complete(index);
    std::vector<BatchRange> free_ranges;
    for (size_t index : free) free_ranges.push_back(ranges_[index]);
    const Decision decision = policy_.decide({.queue = queue_,
                                              .now = at_ms(now_ms_),
                                              .free = free_ranges,
                                              .free_instances = free,
                                              .all = ranges_,
                                              .num_inside = 100,
                                              .timeout = milliseconds(kTimeoutMs),
                                              .grace = {},
                                              .last_change = {}});
    REQUIRE(decision.action != Action::kRefuse);
    if (decision.action == Action::kRun) {
      start(decision, free);
    } else {
      check_nobody_must_run(free);
    }
    return decision;
  }

  bool is_complete(size_t home) const {
    return std::ranges::none_of(sequences_, [home](const auto& entry) {
      return entry.second.home == home && entry.second.waiting.empty();
    });
  }

  void note_complete(size_t home) {
    if (!is_complete(home)) return;
    complete_ms_[home] = now_ms_;
    for (const auto& [id, sequence] : sequences_) {
      if (sequence.home != home) continue;
      for (Task* task : sequence.waiting) known_.at(task).was_complete = true;
    }
  }

  void start(const Decision& decision, const std::vector<size_t>& free) {
    const size_t index = free.at(decision.instance);
    const auto batch = queue_.pop(decision.group, decision.count,
                                  [this](const Task& task) { return policy_.can_run(task); });
    REQUIRE(!batch.empty());
    REQUIRE(running_[index].empty());
    CHECK(rows_of(batch) <= ranges_[index].max);
    check_reason(decision, batch, index);
    for (Task* task : batch) {
      const Known& known = known_.at(task);
      Sequence& sequence = sequences_.at(known.id);
      CHECK(known.shape == known_.at(batch[0]).shape);
      CHECK(sequence.home == index);
      REQUIRE(sequence.running == nullptr);  // neither elsewhere nor in this batch
      REQUIRE(sequence.waiting.front() == task);
      sequence.waiting.pop_front();
      sequence.running = task;
    }
    policy_.on_start(batch);
    running_[index] = batch;
    ++num_seen[to_string(decision.release)];
  }

  // Those of a batch's shape that the state they need does not keep from running.
  std::vector<Task*> candidates(size_t home, size_t shape) const {
    std::vector<Task*> found;
    for (const auto& [id, sequence] : sequences_) {
      if (sequence.home != home || sequence.waiting.empty()) continue;
      if (known_.at(sequence.waiting.front()).shape == shape) {
        found.push_back(sequence.waiting.front());
      }
    }
    return found;
  }

  void check_reason(const Decision& decision, const std::vector<Task*>& batch, size_t index) {
    const auto ready = candidates(index, known_.at(batch[0]).shape);
    const auto is_due = [this](const Task* task) {
      return known_.at(task).arrival_ms + kTimeoutMs <= now_ms_;
    };
    const int64_t left = ranges_[index].max - rows_of(batch);
    // Nobody is left behind who would fit and comes first.
    for (const Task* other : ready) {
      if (std::ranges::find(batch, other) != batch.end()) continue;
      CHECK(other->order >= batch.back()->order);
      CHECK(decision.release == Release::kFull);
    }
    if (decision.release == Release::kFull) {
      CHECK((left == 0 || ready.size() > batch.size()));
    } else if (decision.release == Release::kEveryoneHere) {
      // An arrival at the very moment counts as well.
      const Known& head = known_.at(batch[0]);
      CHECK((head.was_complete || head.arrival_ms == complete_ms_[index]));
    } else {
      CHECK(std::ranges::any_of(batch, is_due));
    }
  }

  // Where an instance is left free, everything there can still wait.
  void check_nobody_must_run(const std::vector<size_t>& free) const {
    for (const auto& [id, sequence] : sequences_) {
      if (sequence.waiting.empty() || std::ranges::find(free, sequence.home) == free.end())
        continue;
      CHECK(known_.at(sequence.waiting.front()).arrival_ms + kTimeoutMs > now_ms_);
      CHECK_FALSE(is_complete(sequence.home));
      const auto together = candidates(sequence.home, known_.at(sequence.waiting.front()).shape);
      CHECK(rows_of(together) < ranges_[sequence.home].max);
    }
  }

  // Each sequence ended once, when nothing of it was here, and no other did.
  void check_states() {
    CHECK(policy_.num_states() == sequences_.size());
    std::ranges::sort(reported_);
    std::ranges::sort(expected_);
    REQUIRE(reported_ == expected_);
    num_seen["ended"] += reported_.size();
    reported_.clear();
    expected_.clear();
  }

  std::mt19937 chance_;
  const bool is_fifo_;
  int64_t now_ms_ = 0;
  std::deque<FakeTask> tasks_;
  BatchQueue queue_;
  const std::vector<BatchRange> ranges_;
  std::vector<std::vector<Task*>> running_;  // by instance
  std::map<size_t, int64_t> complete_ms_;    // the last time, by instance
  std::map<const Task*, Known> known_;
  std::map<std::string, Sequence> sequences_;
  std::vector<std::string> reported_;
  std::vector<std::string> expected_;
  StatefulPolicy policy_;
};

TEST_CASE("random lives of a node with state follow the model") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    Life life(seed);
    for (int round = 0; round < 4; ++round) {
      for (int i = 0; i < 400; ++i) life.step();
      life.drain();
    }
  }
  // The lives were full ones.
  for (const std::string what : {"refused", "ended", "full", "timeout", "everyone_here"}) {
    CAPTURE(what);
    CHECK(Life::num_seen[what] > 500);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace hami

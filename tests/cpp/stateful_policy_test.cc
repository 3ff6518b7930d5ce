// The decision for backends with state: no threads, no clock.
#include "schedule/stateful_policy.h"

#include <doctest/doctest.h>

#include <deque>
#include <string>

#include "core/error.h"
#include "fake_task.h"

namespace hami {
namespace {

TEST_SUITE_BEGIN("stateful");

using Action = Decision::Action;
using std::chrono::milliseconds;

struct Node {
  std::vector<BatchRange> all;
  std::vector<std::string> ended;
  StatefulPolicy policy;
  BatchQueue queue;
  std::deque<FakeTask> tasks;
  Duration timeout = milliseconds(50);

  explicit Node(size_t num_instances = 1, int64_t max = 4, Duration ttl = milliseconds(1000))
      : Node(std::vector(num_instances, BatchRange{1, max}), ttl) {}
  explicit Node(std::vector<BatchRange> ranges, Duration ttl = milliseconds(1000))
      : all(std::move(ranges)),
        policy(all, ttl, [this](const Value& id) { ended.emplace_back(id.as_text()); }) {}

  FakeTask& arrive(const std::string& id, int64_t ms, bool is_last = false, int64_t rows = 1) {
    return arrive_in(0, ms, id, ms, is_last, rows);
  }

  // With a shape, and a place in the scheduler's order, of its own.
  FakeTask& arrive_in(size_t group, int64_t order, const std::string& id, int64_t ms,
                      bool is_last = false, int64_t rows = 1) {
    FakeTask& task = tasks.emplace_back(0, group, rows);
    task.dict.put(keys::request_id, Value::str(id));
    if (is_last) task.dict.put(keys::request_end, Value(true));
    task.arrival = at_ms(ms);
    task.order = order;
    policy.on_arrival(task, task.arrival);
    queue.push(task);
    return task;
  }

  Decision decide_at(int64_t ms, std::vector<size_t> free = {0}) {
    std::vector<BatchRange> ranges;
    for (size_t index : free) ranges.push_back(all[index]);
    return policy.decide({.queue = queue,
                          .now = at_ms(ms),
                          .free = ranges,
                          .free_instances = free,
                          .all = all,
                          .num_inside = 100,
                          .timeout = timeout,
                          .num_expected = 0,
                          .grace = {},
                          .last_change = {}});
  }

  // Runs what was decided, until `ms`.
  std::vector<Task*> run(const Decision& decision, int64_t ms) {
    auto batch = queue.pop(decision.group, decision.count,
                           [this](const Task& task) { return policy.can_run(task); });
    policy.on_start(batch);
    policy.on_end(batch, at_ms(ms));
    return batch;
  }

  // Lets each id run once, so that its state lives.
  void begin(const std::vector<std::string>& ids) {
    for (const std::string& id : ids) arrive(id, 0);
    while (!queue.empty()) {
      std::vector<size_t> free;
      for (size_t i = 0; i < all.size(); ++i) free.push_back(i);
      run(decide_at(0, free), 0);
    }
  }
};

TEST_CASE("a batch runs when all live ids of the instance are there") {
  Node node;
  node.begin({"a", "b"});
  node.arrive("a", 1);
  CHECK(node.decide_at(1).action == Action::kWait);
  node.arrive("b", 2);
  const Decision decision = node.decide_at(2);
  CHECK(decision.action == Action::kRun);
  CHECK(decision.count == 2);
  CHECK(decision.release == Release::kEveryoneHere);
}

TEST_CASE("three of four ready run at the timeout") {
  Node node;
  node.begin({"a", "b", "c", "d"});
  for (const char* id : {"a", "b", "c"}) node.arrive(id, 10);
  Decision decision = node.decide_at(59);
  CHECK(decision.action == Action::kWait);
  CHECK(decision.until == at_ms(60));
  decision = node.decide_at(60);
  CHECK(decision.action == Action::kRun);
  CHECK(decision.count == 3);
  CHECK(decision.release == Release::kTimeout);
}

TEST_CASE("a full batch waits for nobody") {
  Node node(1, 2);
  node.begin({"a", "b", "c"});
  node.arrive("a", 1);
  node.arrive("b", 1);
  const Decision decision = node.decide_at(1);
  CHECK(decision.action == Action::kRun);
  CHECK(decision.count == 2);
  CHECK(decision.release == Release::kFull);
}

TEST_CASE("two items of one id never share a batch and keep their order") {
  Node node;
  FakeTask& first = node.arrive("a", 1);
  FakeTask& second = node.arrive("a", 2);
  Decision decision = node.decide_at(2);
  CHECK(decision.action == Action::kRun);
  CHECK(decision.count == 1);
  CHECK(node.run(decision, 3) == std::vector<Task*>{&first});
  decision = node.decide_at(3);
  CHECK(node.run(decision, 4) == std::vector<Task*>{&second});
}

TEST_CASE("items of an id go to the instance that holds its state") {
  Node node(2);
  node.begin({"a", "b"});
  const size_t home = node.arrive("a", 1).instance;
  CHECK(node.arrive("b", 1).instance != home);
  const Decision decision = node.decide_at(1, {1 - home});
  CHECK(decision.group->head().instance == 1 - home);
  node.run(decision, 2);
  CHECK(node.decide_at(1000, {1 - home}).action == Action::kIdle);
  CHECK(node.decide_at(1000, {home}).action == Action::kRun);
}

TEST_CASE("a new id goes to the instance with the fewest states") {
  Node node(3);
  std::vector<int> num_ids(3);
  for (int i = 0; i < 9; ++i) {
    ++num_ids[node.arrive(std::to_string(i), 0).instance];
  }
  CHECK(num_ids == std::vector<int>{3, 3, 3});
}

TEST_CASE("a state ends with the item that says so") {
  Node node;
  node.begin({"a", "b"});
  node.arrive("a", 1, true);
  node.arrive("b", 1);
  node.run(node.decide_at(1), 2);
  CHECK(node.ended == std::vector<std::string>{"a"});
  CHECK(node.policy.num_states() == 1);
  node.arrive("b", 3);
  CHECK(node.decide_at(3).action == Action::kRun);  // nobody is left to wait for
}

TEST_CASE("what waits behind the end of its id begins a new sequence there") {
  Node node;
  node.arrive("a", 1, true);
  node.arrive("a", 1);
  node.run(node.decide_at(1), 2);
  CHECK(node.ended == std::vector<std::string>{"a"});
  CHECK(node.policy.num_states() == 1);
  CHECK(node.decide_at(2).action == Action::kRun);
}

TEST_CASE("an idle state ends after its time and nobody waits for it any longer") {
  Node node(1, 4, milliseconds(30));
  node.begin({"a", "b"});
  node.arrive("a", 10);
  Decision decision = node.decide_at(10);
  CHECK(decision.action == Action::kWait);
  CHECK(decision.until == at_ms(30));
  decision = node.decide_at(30);
  CHECK(decision.action == Action::kRun);
  CHECK(decision.release == Release::kEveryoneHere);
  CHECK(node.ended == std::vector<std::string>{"b"});
}

TEST_CASE("a state does not end while its item waits or runs") {
  Node node(1, 4, milliseconds(30));
  node.timeout = milliseconds(500);
  node.begin({"a", "b"});
  node.arrive("a", 0);
  node.arrive("b", 25);
  auto batch = node.queue.pop(node.queue.first(), 2);
  node.policy.on_start(batch);
  node.policy.decide({.queue = node.queue, .now = at_ms(200), .free = {}, .all = node.all});
  CHECK(node.ended.empty());
  node.policy.on_end(batch, at_ms(300));
  CHECK(node.policy.num_states() == 2);
}

TEST_CASE("an item that leaves the queue without a run keeps the state") {
  Node node;
  node.begin({"a", "b"});
  FakeTask& task = node.arrive("a", 1);
  task.is_gone = true;
  for (Task* gone : node.queue.remove_abandoned()) node.policy.on_leave(*gone, at_ms(2));
  node.arrive("b", 3);
  CHECK(node.decide_at(3).action == Action::kWait);
  CHECK(node.policy.num_states() == 2);
}

TEST_CASE("an int, a text and bytes of the same characters are different ids") {
  Node node;
  node.arrive("1", 0);
  for (const Value& id : {Value(int64_t{1}), Value::bytes(make_ref<Bytes>(std::string("1")))}) {
    FakeTask& task = node.tasks.emplace_back();
    task.dict.put(keys::request_id, id);
    node.policy.on_arrival(task, at_ms(0));
  }
  CHECK(node.policy.num_states() == 3);
}

TEST_CASE("an item without an id, or with one of another type, is refused") {
  Node node;
  FakeTask& none = node.tasks.emplace_back();
  CHECK_THROWS_WITH(node.policy.on_arrival(none, at_ms(0)),
                    "`StatefulBatching` finds no key `request_id` in the request");
  FakeTask& real = node.tasks.emplace_back();
  real.dict.put(keys::request_id, Value(1.5));
  CHECK_THROWS_WITH(node.policy.on_arrival(real, at_ms(0)),
                    "`request_id` must be an int, a text or bytes, got `float`");
  CHECK(node.policy.num_states() == 0);
}

TEST_CASE("an item larger than its instance is refused and leaves no state behind") {
  Node node(1, 4);
  CHECK_THROWS_AS(node.arrive("a", 0, false, 5), const Error&);
  CHECK(node.policy.num_states() == 0);
  CHECK(node.ended.empty());  // what others keep under the id is not theirs to lose
}

TEST_CASE("an item too large for the home of its sequence leaves the sequence as it was") {
  Node node(std::vector<BatchRange>{{1, 2}, {1, 8}});
  node.arrive("a", 0);
  CHECK_THROWS_AS(node.arrive("a", 0, false, 5), const Error&);
  CHECK(node.policy.num_states() == 1);
  CHECK(node.run(node.decide_at(0), 1).size() == 1);
  CHECK_THROWS_AS(node.arrive("a", 2, false, 5), const Error&);
  CHECK(node.policy.num_states() == 1);
  CHECK(node.ended.empty());
}

TEST_CASE("a new id goes to the emptiest instance of those that take its rows") {
  Node node(std::vector<BatchRange>{{1, 2}, {1, 8}, {1, 4}});
  CHECK(node.arrive("five", 0, false, 5).instance == 1);
  CHECK(node.arrive("seven", 0, false, 7).instance == 1);  // the others are empty, and too small
  CHECK(node.arrive("three", 0, false, 3).instance == 2);
  CHECK(node.arrive("small", 0).instance == 0);
  CHECK(node.arrive("smaller", 0).instance == 0);
  CHECK(node.arrive("four", 0, false, 4).instance == 2);
}

TEST_CASE("a place that was left by its state is empty again") {
  Node node(2);
  node.begin({"a", "b", "c"});
  const size_t home = node.arrive("b", 1, true).instance;
  node.run(node.decide_at(100, {home}), 101);
  CHECK(node.arrive("d", 102).instance == home);
}

TEST_CASE("items of an id run as they arrived whatever the scheduler says") {
  Node node;
  FakeTask& first = node.arrive_in(0, 9, "a", 1);
  FakeTask& second = node.arrive_in(0, 1, "a", 2);
  FakeTask& third = node.arrive_in(0, 5, "a", 3);
  for (FakeTask* task : {&first, &second, &third}) {
    CHECK(node.run(node.decide_at(3), 3) == std::vector<Task*>{task});
  }
}

TEST_CASE("among different ids the scheduler's order counts, also for what had to wait") {
  Node node(1, 1);
  FakeTask& first = node.arrive_in(0, 5, "a", 1);
  FakeTask& urgent = node.arrive_in(0, 1, "a", 2);
  FakeTask& other = node.arrive_in(0, 7, "b", 3);
  for (FakeTask* task : {&first, &urgent, &other}) {
    CHECK(node.run(node.decide_at(3), 3) == std::vector<Task*>{task});
  }
}

TEST_CASE("an item whose predecessor leaves takes its own place in the order") {
  Node node(1, 1);
  FakeTask& first = node.arrive_in(0, 9, "a", 1);
  FakeTask& urgent = node.arrive_in(0, 1, "a", 2);
  node.arrive_in(0, 5, "b", 3);
  first.is_gone = true;
  for (Task* gone : node.queue.remove_abandoned()) node.policy.on_leave(*gone, at_ms(4));
  CHECK(node.run(node.decide_at(4), 4) == std::vector<Task*>{&urgent});
}

TEST_CASE("an item waits while an earlier one of its id waits in a group of another shape") {
  Node node;
  FakeTask& first = node.arrive_in(1, 9, "a", 1);
  FakeTask& second = node.arrive_in(2, 1, "a", 2);
  FakeTask& third = node.arrive_in(1, 3, "a", 3);
  for (FakeTask* task : {&first, &second, &third}) {
    CHECK(node.run(node.decide_at(3), 3) == std::vector<Task*>{task});
  }
}

TEST_CASE("an item that waits for another shape holds up nobody of its own") {
  Node node;
  node.begin({"a", "b", "c"});
  node.arrive_in(1, 9, "a", 40);                   // waits for company until 90
  node.arrive_in(2, 1, "a", 41);                   // waits for it
  FakeTask& late = node.arrive_in(2, 5, "b", 10);  // has waited long enough at 60
  const Decision decision = node.decide_at(60);
  CHECK(decision.action == Action::kRun);
  CHECK(decision.release == Release::kTimeout);
  CHECK(node.run(decision, 61) == std::vector<Task*>{&late});
  CHECK(node.decide_at(89).until == at_ms(90));
}

TEST_CASE("who has waited longest says when a batch is due, whatever runs first in it") {
  Node node;
  node.begin({"a", "b", "c"});
  node.arrive_in(0, 9, "a", 10);
  node.arrive_in(0, 1, "b", 40);
  CHECK(node.decide_at(40).until == at_ms(60));
  CHECK(node.decide_at(60).count == 2);
}

TEST_CASE("the second item of an id keeps nobody behind it from the batch") {
  Node node;
  FakeTask& a = node.arrive("a", 1);
  FakeTask& next = node.arrive("a", 2);
  FakeTask& b = node.arrive("b", 3);
  CHECK(node.run(node.decide_at(3), 4) == std::vector<Task*>{&a, &b});
  CHECK(node.queue.pop_all() == std::vector<Task*>{&next});
}

TEST_CASE("an item with a successor waits for the company that its instance needs") {
  Node node(std::vector<BatchRange>{{2, 4}});
  node.arrive("a", 0);
  node.arrive("b", 0);
  node.run(node.decide_at(0), 0);
  node.arrive("a", 1);
  node.arrive("a", 2);
  CHECK(node.decide_at(2).action == Action::kWait);
  node.arrive("b", 3);
  const Decision decision = node.decide_at(3);
  CHECK(decision.action == Action::kRun);
  CHECK(decision.count == 2);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hami

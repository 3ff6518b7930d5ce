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
      : all(num_instances, BatchRange{1, max}),
        policy(all, ttl, [this](const Value& id) { ended.emplace_back(id.as_text()); }) {}

  FakeTask& arrive(const std::string& id, int64_t ms, bool is_last = false, int64_t rows = 1) {
    FakeTask& task = tasks.emplace_back(0, 0, rows);
    task.dict.put(keys::request_id, Value::str(id));
    if (is_last) task.dict.put(keys::request_end, Value(true));
    task.arrival = at_ms(ms);
    task.order = ms;
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
    auto batch = queue.pop(decision.group, decision.count);
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
}

TEST_SUITE_END();

}  // namespace
}  // namespace hami

// The batching decision, as a table: no threads, no clock.
#include "schedule/batch_policy.h"

#include <doctest/doctest.h>

#include <deque>

#include "fake_task.h"
#include "schedule/order.h"

namespace hami {
namespace {

TEST_SUITE_BEGIN("policy");

using Action = Decision::Action;
using std::chrono::microseconds;
using std::chrono::milliseconds;

// A node under test: what waits, which instances are free, who else is inside.
struct Situation {
  std::unique_ptr<Order> order;
  std::deque<FakeTask> tasks;
  BatchQueue queue;
  std::vector<BatchRange> free = {{1, 4}};
  std::vector<BatchRange> all = {{1, 4}};
  int64_t num_inside = 100;
  int64_t num_expected = 0;
  Duration timeout = milliseconds(50);
  TimePoint last_change = at_ms(0);

  explicit Situation(const std::string& scheduler = "fifo")
      : order(make_order(Value::str(scheduler))), queue(order->is_arrival()) {}

  FakeTask& arrive(int64_t ms, int64_t rows = 1, size_t group = 0, int64_t priority = 0) {
    FakeTask& task = tasks.emplace_back(0, group, rows);
    task.arrival = last_change = at_ms(ms);
    task.priority = priority;
    task.order = order->order_of(task);
    queue.push(task);
    return task;
  }

  Decision decide_at(TimePoint now) {
    return decide({.queue = queue,
                   .now = now,
                   .free = free,
                   .all = all,
                   .num_inside = num_inside,
                   .timeout = timeout,
                   .num_expected = num_expected,
                   .grace = microseconds(200),
                   .last_change = last_change});
  }
};

TEST_CASE("an empty queue waits for nothing") {
  CHECK(Situation().decide_at(at_ms(0)).action == Action::kIdle);
}

TEST_CASE("while every instance is busy the batch keeps filling") {
  Situation node;
  for (int i = 0; i < 9; ++i) node.arrive(0);
  node.free.clear();
  CHECK(node.decide_at(at_ms(1000)).action == Action::kIdle);
}

TEST_CASE("a full batch runs at once") {
  Situation node;
  for (int i = 0; i < 5; ++i) node.arrive(0);
  const Decision decision = node.decide_at(at_ms(0));
  CHECK(decision.action == Action::kRun);
  CHECK(decision.count == 4);
  CHECK(decision.release == Release::kFull);
}

TEST_CASE("a part-filled batch waits until its first item has waited the timeout") {
  Situation node;
  node.arrive(10);
  node.arrive(30);
  const Decision wait = node.decide_at(at_ms(40));
  CHECK(wait.action == Action::kWait);
  CHECK(wait.until == at_ms(60));
  const Decision run = node.decide_at(at_ms(60));
  CHECK(run.action == Action::kRun);
  CHECK(run.count == 2);
  CHECK(run.release == Release::kTimeout);
}

TEST_CASE("nobody waits for someone who cannot come") {
  Situation node;
  node.arrive(10);
  node.arrive(11);
  node.num_inside = 2;
  const Decision run = node.decide_at(at_ms(11));
  CHECK(run.action == Action::kRun);
  CHECK(run.count == 2);
  CHECK(run.release == Release::kEveryoneHere);
}

TEST_CASE("those who are expected back are waited for, but not for long") {
  Situation node;
  node.arrive(10);
  node.arrive(11);
  node.num_inside = 2;
  node.num_expected = 1;
  const Decision wait = node.decide_at(at_ms(11));
  CHECK(wait.action == Action::kWait);
  CHECK(wait.until == at_ms(11) + microseconds(200));
  CHECK(wait.release == Release::kEveryoneHere);
  const Decision run = node.decide_at(at_ms(11) + microseconds(200));
  CHECK(run.action == Action::kRun);
  CHECK(run.count == 2);
  CHECK(run.release == Release::kEveryoneHere);
}

TEST_CASE("while somebody else is inside the timeout counts, whoever is expected") {
  Situation node;
  node.arrive(10);
  node.num_inside = 2;
  for (const int64_t num_expected : {0, 1}) {
    node.num_expected = num_expected;
    const Decision wait = node.decide_at(at_ms(30));
    CHECK(wait.action == Action::kWait);
    CHECK(wait.until == at_ms(60));
    CHECK(wait.release == Release::kTimeout);
  }
}

TEST_CASE("a full batch waits for nobody who is expected") {
  Situation node;
  for (int i = 0; i < 4; ++i) node.arrive(0);
  node.num_inside = 4;
  node.num_expected = 9;
  CHECK(node.decide_at(at_ms(0)).release == Release::kFull);
}

TEST_CASE("the grace starts anew with each change") {
  Situation node;
  node.num_inside = 2;
  node.num_expected = 1;
  node.arrive(0);
  node.arrive(7);
  CHECK(node.decide_at(at_ms(7)).until == at_ms(7) + microseconds(200));
  node.last_change = at_ms(9);
  CHECK(node.decide_at(at_ms(9)).until == at_ms(9) + microseconds(200));
}

TEST_CASE("the grace never outlasts the timeout") {
  Situation node;
  node.num_inside = node.num_expected = 1;
  node.timeout = microseconds(100);
  node.arrive(0);
  CHECK(node.decide_at(at_ms(0)).until == at_ms(0) + microseconds(100));
}

TEST_CASE("without a timeout an item never waits") {
  Situation node;
  node.timeout = Duration::zero();
  node.arrive(3);
  CHECK(node.decide_at(at_ms(3)).action == Action::kRun);
}

TEST_CASE("the rows of a batch never exceed max") {
  Situation node;
  node.free = node.all = {{1, 10}};
  for (int i = 0; i < 8; ++i) node.arrive(0, 3);
  const Decision decision = node.decide_at(at_ms(0));
  CHECK(decision.action == Action::kRun);
  CHECK(decision.count == 3);  // a fourth would make 12 rows
  CHECK(decision.release == Release::kFull);
}

TEST_CASE("the best-fitting instance is the smallest that holds the batch") {
  Situation node;
  node.free = node.all = {{1, 16}, {1, 2}, {1, 8}};
  node.timeout = Duration::zero();
  node.arrive(0, 3);
  CHECK(node.decide_at(at_ms(0)).instance == 2);
  node.arrive(0, 6);
  CHECK(node.decide_at(at_ms(0)).instance == 0);
}

TEST_CASE("a small free instance takes what it can while the large one is busy") {
  Situation node;
  node.all = {{1, 1}, {1, 8}};
  node.free = {{1, 1}};
  for (int i = 0; i < 3; ++i) node.arrive(0);
  const Decision decision = node.decide_at(at_ms(0));
  CHECK(decision.action == Action::kRun);
  CHECK(decision.count == 1);
}

TEST_CASE("an item that needs a busy instance waits for it and blocks nobody else") {
  Situation node;
  node.all = {{1, 2}, {1, 8}};
  node.free = {{1, 2}};
  node.arrive(0, 5, 1);
  CHECK(node.decide_at(at_ms(1000)).action == Action::kIdle);
  node.arrive(1, 2, 2);
  const Decision decision = node.decide_at(at_ms(1));
  CHECK(decision.action == Action::kRun);
  CHECK(decision.group->key == 2);
}

TEST_CASE("each group has its own timeout and unlike items never share a batch") {
  Situation node;
  node.arrive(0, 1, 1);
  node.arrive(20, 1, 2);
  node.arrive(21, 1, 1);
  const Decision first = node.decide_at(at_ms(50));
  CHECK(first.action == Action::kRun);
  CHECK(first.group->key == 1);
  CHECK(first.count == 2);
  CHECK(node.queue.pop(first.group, first.count).size() == 2);
  CHECK(node.decide_at(at_ms(50)).until == at_ms(70));
}

TEST_CASE("a full group does not wait behind a part-filled older one") {
  Situation node;
  node.arrive(0, 1, 1);
  for (int i = 0; i < 4; ++i) node.arrive(1, 1, 2);
  const Decision decision = node.decide_at(at_ms(1));
  CHECK(decision.action == Action::kRun);
  CHECK(decision.group->key == 2);
}

TEST_CASE("of two groups that may run the policy's head goes first") {
  Situation node("priority");
  node.timeout = Duration::zero();
  node.arrive(0, 1, 1, 0);
  node.arrive(1, 1, 2, 5);
  CHECK(node.decide_at(at_ms(1)).group->key == 2);
}

TEST_CASE("fewer rows than every min are refused once nobody else can come") {
  Situation node;
  node.free = node.all = {{3, 4}};
  node.arrive(0);
  CHECK(node.decide_at(at_ms(0)).action == Action::kWait);
  CHECK(node.decide_at(at_ms(50)).action == Action::kRefuse);
}

TEST_CASE("fewer rows than the min of a free instance wait for a busy one that takes them") {
  Situation node;
  node.all = {{3, 4}, {1, 4}};
  node.free = {{3, 4}};
  node.arrive(0);
  CHECK(node.decide_at(at_ms(50)).action == Action::kIdle);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hami

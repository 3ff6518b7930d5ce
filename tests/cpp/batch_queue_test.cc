// What waits at a node: order and groups.
#include "schedule/batch_queue.h"

#include <doctest/doctest.h>

#include <deque>

#include "core/error.h"
#include "fake_task.h"
#include "schedule/order.h"

namespace hami {
namespace {

TEST_SUITE_BEGIN("queue");

std::vector<int64_t> data_of(const std::vector<Task*>& tasks) {
  std::vector<int64_t> data;
  for (const Task* task : tasks) data.push_back(task->dict.find(keys::data)->as_int());
  return data;
}

struct Arrivals {
  explicit Arrivals(const std::string& scheduler)
      : order(make_order(Value::str(scheduler))), queue(order->is_arrival()) {}
  void arrive(int64_t data, int64_t ms, int64_t priority = 0, int64_t deadline_ms = 1000000) {
    FakeTask& task = tasks.emplace_back(data);
    task.arrival = at_ms(ms);
    task.priority = priority;
    task.deadline = at_ms(deadline_ms);
    task.order = order->order_of(task);
    queue.push(task);
  }
  std::vector<int64_t> in_order() { return data_of(queue.pop_all()); }

  std::unique_ptr<Order> order;
  std::deque<FakeTask> tasks;
  BatchQueue queue;
};

TEST_CASE("fifo keeps the order of arrival, also of simultaneous ones") {
  Arrivals arrivals("fifo");
  for (int i = 0; i < 5; ++i) arrivals.arrive(i, 7, 5 - i);
  CHECK(arrivals.in_order() == std::vector<int64_t>{0, 1, 2, 3, 4});
}

TEST_CASE("priority runs the higher first and equals in order of arrival") {
  Arrivals arrivals("priority");
  arrivals.arrive(0, 0, 0);
  arrivals.arrive(1, 1, 9);
  arrivals.arrive(2, 2, 0);
  arrivals.arrive(3, 3, 9);
  CHECK(arrivals.in_order() == std::vector<int64_t>{1, 3, 0, 2});
}

TEST_CASE("waiting 100 ms is worth one step of priority, so that nobody starves") {
  Arrivals arrivals("priority");
  arrivals.arrive(0, 0, 0);
  arrivals.arrive(1, 99, 1);
  arrivals.arrive(2, 101, 1);
  CHECK(arrivals.in_order() == std::vector<int64_t>{1, 0, 2});
}

TEST_CASE("priorities beyond reason order without overflow") {
  Arrivals arrivals("priority");
  arrivals.arrive(0, 0, std::numeric_limits<int64_t>::min());
  arrivals.arrive(1, 0, std::numeric_limits<int64_t>::max());
  arrivals.arrive(2, 0, 0);
  CHECK(arrivals.in_order() == std::vector<int64_t>{1, 2, 0});
}

TEST_CASE("edf runs the earliest deadline first") {
  Arrivals arrivals("edf");
  arrivals.arrive(0, 0, 0, 300);
  arrivals.arrive(1, 1, 0, 100);
  arrivals.arrive(2, 2, 0, 200);
  CHECK(arrivals.in_order() == std::vector<int64_t>{1, 2, 0});
}

TEST_CASE("a group remembers its earliest arrival whatever runs first") {
  Arrivals arrivals("priority");
  arrivals.arrive(0, 5, 0);
  arrivals.arrive(1, 9, 50);
  CHECK(arrivals.queue.first()->first_arrival == at_ms(5));
  CHECK(data_of(arrivals.queue.pop(arrivals.queue.first(), 1)) == std::vector<int64_t>{1});
  CHECK(arrivals.queue.first()->first_arrival == at_ms(5));
}

TEST_CASE("tasks that cannot run keep their places") {
  Arrivals arrivals("fifo");
  for (int i = 0; i < 6; ++i) arrivals.arrive(i, i);
  const auto is_odd = [](const Task& task) { return task.order / 1000000 % 2 == 1; };
  CHECK(data_of(arrivals.queue.pop(arrivals.queue.first(), 2, is_odd)) ==
        std::vector<int64_t>{1, 3});
  CHECK(arrivals.queue.size() == 4);
  CHECK(arrivals.in_order() == std::vector<int64_t>{0, 2, 4, 5});
}

TEST_CASE("a group goes with its last task") {
  Arrivals arrivals("fifo");
  arrivals.arrive(0, 0);
  CHECK(arrivals.queue.size() == 1);
  arrivals.queue.pop(arrivals.queue.first(), 1);
  CHECK(arrivals.queue.empty());
  CHECK(arrivals.queue.groups().empty());
}

TEST_CASE("an unknown scheduler is named") {
  CHECK_THROWS_AS(make_order(Value::str(std::string("lifo"))), const Error&);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hami

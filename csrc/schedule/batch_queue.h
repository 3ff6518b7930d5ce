// `BatchQueue`: what waits at one node, by group and in the order of the node's policy. Plain data
// without a lock or a clock; its owner guards it.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "schedule/task.h"

namespace hami {

// The order in which waiting tasks run.
enum class Order {
  kFifo,
  kPriority,  // higher first; waiting 100 ms is worth one step, so that nobody starves
  kEdf,       // earliest deadline first
};
Order parse_order(const std::string& name);

class BatchQueue {
 public:
  struct Group {
    size_t key;
    std::deque<Task*> tasks;  // in policy order
    TimePoint first_arrival;  // the earliest arrival among them

    Task& head() const noexcept { return *tasks.front(); }
  };

  explicit BatchQueue(Order order = Order::kFifo) : order_(order) {}

  // REQUIRES: arrival, deadline, priority and group of the task are set.
  void push(Task& task);
  // Takes the first `count` tasks of a group; the group disappears with its last task.
  std::vector<Task*> pop(size_t group_index, size_t count);
  std::vector<Task*> pop_all();
  // Takes out the tasks whose callers have gone.
  std::vector<Task*> remove_abandoned();

  const std::vector<Group>& groups() const noexcept { return groups_; }
  size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }

 private:
  // After tasks were taken out of a group: brings its facts up to date. False when it is empty.
  bool refresh(Group& group) const;

  Order order_;
  std::vector<Group> groups_;
  size_t size_ = 0;
};

}  // namespace hami

// `BatchQueue`: what waits at one node, by group and in the order of the node's scheduler. Plain
// data without a lock or a clock; its owner guards it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "schedule/task.h"

namespace hami {

class BatchQueue {
 public:
  struct Group {
    size_t key;
    std::deque<Task*> tasks;  // by `order`
    TimePoint first_arrival;  // the earliest arrival among them

    Task& head() const noexcept { return *tasks.front(); }
  };

  // `is_fifo`: tasks come in their order.
  explicit BatchQueue(bool is_fifo = true) : is_fifo_(is_fifo) {}

  // REQUIRES: arrival, group and order of the task are set.
  void push(Task& task);
  // Takes the first `count` tasks of a group that can run; the group disappears with its last task.
  // REQUIRES: there are so many.
  std::vector<Task*> pop(size_t group_index, size_t count,
                         const std::function<bool(const Task&)>& can_run);
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

  const bool is_fifo_;
  std::vector<Group> groups_;
  size_t size_ = 0;
};

}  // namespace hami

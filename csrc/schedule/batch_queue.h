// `BatchQueue`: what waits at one node, by group and in the order of the node's scheduler. Plain
// data without a lock or a clock; its owner guards it. Finding the group that runs next, and
// putting in and taking out, cost the logarithm of the number of groups and of tasks; nothing is
// allocated where an earlier task or group has left its place.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "schedule/batch_group.h"

namespace hami {

class BatchQueue {
 public:
  using Group = BatchGroup;

  // `is_fifo`: tasks come in their order.
  explicit BatchQueue(bool is_fifo = true);
  BatchQueue(const BatchQueue&) = delete;
  BatchQueue& operator=(const BatchQueue&) = delete;

  // REQUIRES: arrival, group and order of the task are set.
  void push(Task& task);
  // Appends the first `count` tasks of a group that `can_run`; the group disappears with its last
  // task. REQUIRES: there are so many.
  template <class CanRun>
  void pop(Group& group, size_t count, std::vector<Task*>& taken, CanRun&& can_run) {
    for (Task* task = group.first; count > 0;) {
      Task* const next = task->links.next;
      if (can_run(*task)) {
        taken.push_back(task);
        unlink(group, *task);
        --count;
      }
      task = next;
    }
    refresh(group);
  }
  template <class CanRun>
  std::vector<Task*> pop(Group* group, size_t count, CanRun&& can_run) {
    std::vector<Task*> taken;
    pop(*group, count, taken, can_run);
    return taken;
  }
  std::vector<Task*> pop(Group* group, size_t count) {
    return pop(group, count, [](const Task&) { return true; });
  }
  std::vector<Task*> pop_all();
  // Takes out the tasks whose callers have gone.
  std::vector<Task*> remove_abandoned();

  size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  size_t num_groups() const noexcept { return by_order_.groups().size(); }
  // In no order. For whoever must look at each.
  std::span<Group* const> groups() const noexcept { return by_order_.groups(); }

  // Of all groups, the one whose head is first in the order. Null when there is none, as below.
  Group* first() const noexcept { return by_order_.first(); }
  // The first in the order of those that hold `rows` rows or more, which differs in few numbers
  // only: each new one costs a look at every group.
  Group* first_with_rows(int64_t rows);
  // From now on groups with an arrival at `time` or earlier are overdue.
  void set_overdue(TimePoint time);
  // The first in the order of those that are overdue, and the longest waiting of the others.
  Group* first_overdue() const noexcept { return overdue_groups_.first(); }
  Group* next_overdue() const noexcept { return waiting_groups_.first(); }

 private:
  struct Threshold {
    int64_t rows;
    GroupIndex index;
  };

  Group*& bucket_of(size_t key) noexcept;
  Group& find_or_begin(size_t key);
  void grow_buckets();
  void insert(Group& group, Task& task);
  void unlink(Group& group, Task& task);
  // After tasks were put in or taken out: brings the group's facts and places up to date.
  void refresh(Group& group);
  void set_whether_overdue(Group& group);
  void end(Group& group);

  const bool is_fifo_;
  size_t size_ = 0;
  int64_t num_begun_ = 0;
  std::deque<Group> all_;     // those in use and those that wait for their next use
  std::vector<Group*> idle_;  // the latter
  std::vector<Group*> buckets_;
  TimePoint overdue_since_ = TimePoint::min();
  GroupIndex by_order_{GroupIndex::By::kOrder, 0};
  GroupIndex overdue_groups_{GroupIndex::By::kOrder, 1};
  GroupIndex waiting_groups_{GroupIndex::By::kArrival, 2};
  std::vector<Threshold> thresholds_;
};

}  // namespace hami

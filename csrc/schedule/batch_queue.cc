#include "schedule/batch_queue.h"

#include <algorithm>

namespace hami {
namespace {

TimePoint earliest_arrival(const std::deque<Task*>& tasks) {
  TimePoint earliest = TimePoint::max();
  for (const Task* task : tasks) earliest = std::min(earliest, task->arrival);
  return earliest;
}

}  // namespace

void BatchQueue::push(Task& task) {
  auto group = std::ranges::find(groups_, task.group, &Group::key);
  if (group == groups_.end()) {
    groups_.push_back({task.group, {}, task.arrival});
    group = groups_.end() - 1;
  }
  // Equals keep the order of arrival.
  const auto place = std::ranges::upper_bound(group->tasks, task.order, {}, &Task::order);
  group->tasks.insert(place, &task);
  group->first_arrival = std::min(group->first_arrival, task.arrival);
  ++size_;
}

std::vector<Task*> BatchQueue::pop(size_t group_index, size_t count) {
  return pop(group_index, count, [](const Task&) { return true; });
}

std::vector<Task*> BatchQueue::pop(size_t group_index, size_t count,
                                   const std::function<bool(const Task&)>& can_run) {
  Group& group = groups_[group_index];
  std::vector<Task*> taken;
  auto passed_over = group.tasks.begin();
  auto place = group.tasks.begin();
  for (; taken.size() < count; ++place) {
    if (can_run(**place)) {
      taken.push_back(*place);
    } else {
      *passed_over++ = *place;
    }
  }
  group.tasks.erase(passed_over, place);
  size_ -= count;
  if (!refresh(group)) {
    groups_.erase(groups_.begin() + static_cast<std::ptrdiff_t>(group_index));
  }
  return taken;
}

bool BatchQueue::refresh(Group& group) const {
  if (group.tasks.empty()) return false;
  group.first_arrival = is_fifo_ ? group.head().arrival : earliest_arrival(group.tasks);
  return true;
}

std::vector<Task*> BatchQueue::remove_abandoned() {
  std::vector<Task*> removed;
  for (Group& group : groups_) {
    const auto gone = std::stable_partition(group.tasks.begin(), group.tasks.end(),
                                            [](const Task* task) { return !task->is_abandoned(); });
    removed.insert(removed.end(), gone, group.tasks.end());
    group.tasks.erase(gone, group.tasks.end());
  }
  size_ -= removed.size();
  std::erase_if(groups_, [this](Group& group) { return !refresh(group); });
  return removed;
}

std::vector<Task*> BatchQueue::pop_all() {
  std::vector<Task*> taken;
  while (!groups_.empty()) {
    auto some = pop(0, groups_[0].tasks.size());
    taken.insert(taken.end(), some.begin(), some.end());
  }
  return taken;
}

}  // namespace hami

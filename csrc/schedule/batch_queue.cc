#include "schedule/batch_queue.h"

#include <algorithm>

#include "core/error.h"

namespace hami {
namespace {

constexpr auto kAgeingStep = std::chrono::milliseconds(100);

// A number that orders tasks for ever: the ageing of two waiting tasks is the same, so their
// order never changes while they wait and can be fixed on arrival.
int64_t order_of(const Task& task, Order order) {
  const int64_t arrival = task.arrival.time_since_epoch().count();
  switch (order) {
    case Order::kFifo:
      break;
    case Order::kPriority: {
      constexpr int64_t kStep = Duration(kAgeingStep).count();
      constexpr int64_t kLargest = int64_t{1} << 31;
      return arrival - std::clamp(task.priority, -kLargest, kLargest) * kStep;
    }
    case Order::kEdf:
      return task.deadline.time_since_epoch().count();
  }
  return arrival;
}

TimePoint earliest_arrival(const std::deque<Task*>& tasks) {
  TimePoint earliest = TimePoint::max();
  for (const Task* task : tasks) earliest = std::min(earliest, task->arrival);
  return earliest;
}

}  // namespace

Order parse_order(const std::string& name) {
  if (name == "fifo") return Order::kFifo;
  if (name == "priority") return Order::kPriority;
  if (name == "edf") return Order::kEdf;
  throw Error(ErrorKind::kBuild, "build-scheduler", "unknown scheduler " + quoted(name),
              "use `fifo`, `priority` or `edf`");
}

void BatchQueue::push(Task& task) {
  task.order = order_of(task, order_);
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
  Group& group = groups_[group_index];
  const auto end = group.tasks.begin() + static_cast<std::ptrdiff_t>(count);
  std::vector<Task*> taken(group.tasks.begin(), end);
  group.tasks.erase(group.tasks.begin(), end);
  size_ -= count;
  if (!refresh(group)) {
    groups_.erase(groups_.begin() + static_cast<std::ptrdiff_t>(group_index));
  }
  return taken;
}

bool BatchQueue::refresh(Group& group) const {
  if (group.tasks.empty()) return false;
  // In order of arrival the head is the earliest.
  group.first_arrival =
      order_ == Order::kFifo ? group.head().arrival : earliest_arrival(group.tasks);
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

#include "schedule/batch_queue.h"

#include <algorithm>

namespace hami {
namespace {

constexpr size_t kLeastBuckets = 8;  // a power of two, as every number of buckets

}  // namespace

BatchQueue::BatchQueue(bool is_fifo) : is_fifo_(is_fifo), buckets_(kLeastBuckets) {}

// --- groups ---

BatchQueue::Group*& BatchQueue::bucket_of(size_t key) noexcept {
  // Keys may be small numbers or multiples of the number of instances: the upper bits of the
  // product depend on all of theirs.
  const uint64_t mixed = (uint64_t{key} ^ (uint64_t{key} >> 32)) * 0x9E3779B97F4A7C15ULL;
  return buckets_[static_cast<size_t>(mixed >> 32) & (buckets_.size() - 1)];
}

BatchQueue::Group& BatchQueue::find_or_begin(size_t key) {
  for (Group* group = bucket_of(key); group != nullptr; group = group->next_in_bucket) {
    if (group->key == key) return *group;
  }
  if (num_groups() >= buckets_.size()) grow_buckets();
  if (idle_.empty()) idle_.push_back(&all_.emplace_back());
  Group& group = *idle_.back();
  idle_.pop_back();
  group.key = key;
  group.serial = num_begun_++;
  group.first_arrival = TimePoint::max();
  group.next_in_bucket = std::exchange(bucket_of(key), &group);
  return group;
}

void BatchQueue::grow_buckets() {
  buckets_.assign(2 * buckets_.size(), nullptr);
  for (Group* group : groups()) group->next_in_bucket = std::exchange(bucket_of(group->key), group);
}

void BatchQueue::end(Group& group) {
  by_order_.set(group, false);
  overdue_groups_.set(group, false);
  waiting_groups_.set(group, false);
  for (Threshold& threshold : thresholds_) threshold.index.set(group, false);
  Group** place = &bucket_of(group.key);
  while (*place != &group) place = &(*place)->next_in_bucket;
  *place = group.next_in_bucket;
  idle_.push_back(&group);
}

void BatchQueue::refresh(Group& group) {
  if (group.size == 0) return end(group);
  group.first_arrival = is_fifo_ ? group.head().arrival : group.oldest->arrival;
  by_order_.set(group, true);
  set_whether_overdue(group);
  for (Threshold& threshold : thresholds_) {
    threshold.index.set(group, group.rows >= threshold.rows);
  }
}

void BatchQueue::set_whether_overdue(Group& group) {
  const bool is_overdue = group.first_arrival <= overdue_since_;
  overdue_groups_.set(group, is_overdue);
  waiting_groups_.set(group, !is_overdue);
}

void BatchQueue::set_overdue(TimePoint time) {
  const bool goes_back = time < overdue_since_;
  overdue_since_ = time;
  if (goes_back) {
    for (Group* group : groups()) set_whether_overdue(*group);
    return;
  }
  for (Group* group = next_overdue(); group != nullptr; group = next_overdue()) {
    if (group->first_arrival > time) break;
    set_whether_overdue(*group);
  }
}

BatchQueue::Group* BatchQueue::first_with_rows(int64_t rows) {
  auto threshold = std::ranges::find(thresholds_, rows, &Threshold::rows);
  if (threshold == thresholds_.end()) {
    constexpr size_t kNumOtherIndexes = 3;
    const size_t slot = kNumOtherIndexes + thresholds_.size();
    thresholds_.push_back({rows, GroupIndex(GroupIndex::By::kOrder, slot)});
    threshold = thresholds_.end() - 1;
    for (Group* group : groups()) threshold->index.set(*group, group->rows >= rows);
  }
  return threshold->index.first();
}

// --- tasks ---

void BatchQueue::push(Task& task) {
  Group& group = find_or_begin(task.group);
  insert(group, task);
  refresh(group);
}

void BatchQueue::insert(Group& group, Task& task) {
  // Equals keep the order of arrival. Where tasks come in their order the place is the end; two
  // callers at the same moment may be the wrong way round.
  Task* previous = group.last;
  if (is_fifo_) {
    while (previous != nullptr && previous->order > task.order) previous = previous->links.previous;
  } else {
    const auto later = group.last_of_order.upper_bound(task.order);
    previous = later == group.last_of_order.begin() ? nullptr : std::prev(later)->second;
    group.last_of_order.insert_or_assign(later, task.order, &task);
    Task* older = group.youngest;
    while (older != nullptr && older->arrival > task.arrival) older = older->links.older;
    Task* const younger = older == nullptr ? group.oldest : older->links.younger;
    task.links.older = older;
    task.links.younger = younger;
    (older == nullptr ? group.oldest : older->links.younger) = &task;
    (younger == nullptr ? group.youngest : younger->links.older) = &task;
  }
  Task* const next = previous == nullptr ? group.first : previous->links.next;
  task.links.previous = previous;
  task.links.next = next;
  (previous == nullptr ? group.first : previous->links.next) = &task;
  (next == nullptr ? group.last : next->links.previous) = &task;
  ++size_;
  ++group.size;
  group.rows += task.rows;
}

void BatchQueue::unlink(Group& group, Task& task) {
  auto& [previous, next, older, younger] = task.links;
  if (!is_fifo_) {
    (older == nullptr ? group.oldest : older->links.younger) = younger;
    (younger == nullptr ? group.youngest : younger->links.older) = older;
    const auto place = group.last_of_order.find(task.order);
    if (place->second == &task) {
      if (previous != nullptr && previous->order == task.order) {
        place->second = previous;
      } else {
        group.last_of_order.erase(place);
      }
    }
  }
  (previous == nullptr ? group.first : previous->links.next) = next;
  (next == nullptr ? group.last : next->links.previous) = previous;
  task.links = {};
  --size_;
  --group.size;
  group.rows -= task.rows;
}

std::vector<Task*> BatchQueue::pop_all() {
  std::vector<Task*> taken;
  while (Group* group = first()) {
    pop(*group, group->size, taken, [](const Task&) { return true; });
  }
  return taken;
}

std::vector<Task*> BatchQueue::remove_abandoned() {
  std::vector<Task*> removed;
  // A group that ends leaves the index of all groups, which is being looked through.
  const std::vector<Group*> all(groups().begin(), groups().end());
  for (Group* group : all) {
    const size_t size_before = group->size;
    for (Task* task = group->first; task != nullptr;) {
      Task* const next = task->links.next;
      if (task->is_abandoned()) {
        removed.push_back(task);
        unlink(*group, *task);
      }
      task = next;
    }
    if (group->size != size_before) refresh(*group);
  }
  return removed;
}

}  // namespace hami

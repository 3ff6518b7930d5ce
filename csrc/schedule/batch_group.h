// `BatchGroup`: the waiting tasks that may share a batch, and `GroupIndex`, the groups of a queue
// by one of their facts. Both are parts of `BatchQueue`, which is the only one to change them.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <vector>

#include "schedule/task.h"

namespace hami {

struct BatchGroup {
  size_t key = 0;
  int64_t serial = 0;     // of two groups alike, the one that began earlier goes first
  Task* first = nullptr;  // by `order`, equals as they arrived; linked through `Task::links`
  Task* last = nullptr;
  size_t size = 0;
  int64_t rows = 0;           // of all of them
  TimePoint first_arrival{};  // the earliest arrival among them

  Task& head() const noexcept { return *first; }
  // Whether it goes first when both can run.
  bool is_before(const BatchGroup& other) const noexcept {
    return head().order < other.head().order ||
           (head().order == other.head().order && serial < other.serial);
  }

  // The rest belongs to the queue.
  Task* oldest = nullptr;  // by `arrival`, where that is not the order
  Task* youngest = nullptr;
  std::map<int64_t, Task*> last_of_order;  // finds the place of an arrival, where it is not the end
  BatchGroup* next_in_bucket = nullptr;
  std::vector<uint32_t> places;  // in each index of the queue
};

// A heap of groups that knows where each of them is, so that any can move or leave in logarithmic
// time. It allocates only when it holds more groups than ever before.
class GroupIndex {
 public:
  enum class By { kOrder, kArrival };

  // `slot` is its number among the indexes of its queue.
  GroupIndex(By by, size_t slot) : by_(by), slot_(slot) {}

  // Puts the group to its place, or takes it out.
  void set(BatchGroup& group, bool is_member);
  BatchGroup* first() const noexcept { return heap_.empty() ? nullptr : heap_[0]; }
  // All of them, the first one first and the others in no order.
  std::span<BatchGroup* const> groups() const noexcept { return heap_; }

 private:
  static constexpr uint32_t kNowhere = std::numeric_limits<uint32_t>::max();

  bool is_before(const BatchGroup& a, const BatchGroup& b) const noexcept;
  uint32_t& place_of(BatchGroup& group) const;
  void put(size_t place, BatchGroup* group);
  // Moves the group at `place` to where it belongs.
  void settle(size_t place);

  By by_;
  size_t slot_;
  std::vector<BatchGroup*> heap_;
};

}  // namespace hami

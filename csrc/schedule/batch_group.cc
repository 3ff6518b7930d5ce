#include "schedule/batch_group.h"

#include <utility>

namespace hami {

bool GroupIndex::is_before(const BatchGroup& a, const BatchGroup& b) const noexcept {
  if (by_ == By::kArrival) return a.first_arrival < b.first_arrival;
  return a.is_before(b);
}

uint32_t& GroupIndex::place_of(BatchGroup& group) const {
  if (group.places.size() <= slot_) group.places.resize(slot_ + 1, kNowhere);
  return group.places[slot_];
}

void GroupIndex::put(size_t place, BatchGroup* group) {
  heap_[place] = group;
  group->places[slot_] = static_cast<uint32_t>(place);
}

void GroupIndex::set(BatchGroup& group, bool is_member) {
  uint32_t& place = place_of(group);
  if (is_member) {
    if (place == kNowhere) {
      place = static_cast<uint32_t>(heap_.size());
      heap_.push_back(&group);
    }
    settle(place);
  } else if (place != kNowhere) {
    const size_t hole = std::exchange(place, kNowhere);
    BatchGroup* const filler = heap_.back();
    heap_.pop_back();
    if (filler == &group) return;
    put(hole, filler);
    settle(hole);
  }
}

void GroupIndex::settle(size_t place) {
  BatchGroup* const group = heap_[place];
  while (place > 0 && is_before(*group, *heap_[(place - 1) / 2])) {
    put(place, heap_[(place - 1) / 2]);
    place = (place - 1) / 2;
  }
  while (2 * place + 1 < heap_.size()) {
    size_t child = 2 * place + 1;
    if (child + 1 < heap_.size() && is_before(*heap_[child + 1], *heap_[child])) ++child;
    if (!is_before(*heap_[child], *group)) break;
    put(place, heap_[child]);
    place = child;
  }
  put(place, group);
}

}  // namespace hami

#include "core/condition.h"

#include <string>
#include <utility>

#include "core/error.h"

namespace hami {
namespace {

void pass(Batch batch) {
  for_each_item(batch, [](Item& item) { item.set_result(item.data()); });
}

}  // namespace

Condition::Condition(Backends branches)
    : branches_(std::move(branches)), range_(common_range(branches_)) {}

Condition::Parts Condition::divide(Batch batch) const {
  Parts parts;
  for (Item* item : batch) {
    if (item->error != nullptr) continue;
    try {
      (holds(*item) ? parts.held : parts.others).push_back(item);
    } catch (...) {
      item->error = std::current_exception();
    }
  }
  return parts;
}

void Condition::forward(Batch batch) {
  const Parts parts = divide(batch);
  if (branches_.empty()) {
    pass(parts.held);
    for (Item* item : parts.others) item->dict.erase(keys::result);
    return;
  }
  forward_branch(0, parts.held);
  if (branches_.size() > 1) return forward_branch(1, parts.others);
  pass(parts.others);
}

// A part may have fewer rows than a branch needs, although the batch had enough.
void Condition::forward_branch(size_t branch, Batch part) const {
  if (part.empty()) return;
  if (num_rows(part) >= range_.min) return forward_by_group(*branches_[branch], part);
  const auto error = std::make_exception_ptr(
      Error(ErrorKind::kRequest, "request-too-small",
            "a condition sent " + std::to_string(num_rows(part)) +
                " rows to a backend that takes at least " + std::to_string(range_.min),
            "give that backend a node of its own"));
  for (Item* item : part) item->error = error;
}

Traits Condition::traits() const {
  Traits traits = traits_of_question().combine(common_traits(branches_));
  if (branches_.empty()) traits.may_skip = true;
  return traits;
}

// Items of one batch are of one group for every branch, so that each part runs as one batch.
size_t Condition::group_of(const Item& item) const {
  size_t group = 0;
  for (const auto& branch : branches_) {
    group = group * 0x9E3779B97F4A7C15ULL + branch->group_of(item);
  }
  return group;
}

void Condition::collect_reads(std::vector<Key>& reads) const {
  reads.push_back(keys::data);
  for (const auto& branch : branches_) branch->collect_reads(reads);
}

}  // namespace hami

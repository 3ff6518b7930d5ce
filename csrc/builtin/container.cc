#include "builtin/container.h"

#include <algorithm>
#include <map>

#include "core/error.h"

namespace hami {

BatchRange Container::batch_range() const {
  BatchRange range;
  for (const auto& child : children_) range = range.intersect(child->batch_range());
  if (range.is_empty()) {
    throw Error(ErrorKind::kBuild, "build-batch-range",
                "no batch size fits all parts of this expression: at least " +
                    std::to_string(range.min) + " and at most " + std::to_string(range.max) +
                    " rows",
                "put the parts into nodes of their own");
  }
  return range;
}

Traits Container::traits() const {
  Traits traits{.is_inline = true, .is_reentrant = true};
  for (const auto& child : children_) traits = traits.combine(child->traits());
  return traits;
}

void Container::collect_reads(std::vector<Key>& reads) const {
  for (const auto& child : children_) child->collect_reads(reads);
}

int Container::container_depth() const {
  int depth = 0;
  for (const auto& child : children_) depth = std::max(depth, child->container_depth());
  return depth;
}

std::string Container::problem() const {
  for (const auto& child : children_) {
    if (std::string problem = child->problem(); !problem.empty()) return problem;
  }
  return {};
}

void forward_by_group(Backend& backend, Batch batch) {
  if (batch.size() == 1) return backend.forward(batch);
  std::map<size_t, std::vector<Item*>> groups;
  for (Item* item : batch) groups[backend.group_of(*item)].push_back(item);
  for (const auto& [key, items] : groups) backend.forward(items);
}

}  // namespace hami

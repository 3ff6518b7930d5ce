#include "builtin/container.h"

namespace hami {

void Container::collect_reads(std::vector<Key>& reads) const {
  for (const auto& child : children_) child->collect_reads(reads);
}

}  // namespace hami

#include "builtin/container.h"

namespace hami {

void Container::collect_reads(std::vector<Key>& reads) const {
  for (const auto& child : children_) child->collect_reads(reads);
}

std::string Container::problem() const {
  for (const auto& child : children_) {
    if (std::string problem = child->problem(); !problem.empty()) return problem;
  }
  return {};
}

Figures Container::own_figures() const {
  Figures all;
  for (const auto& child : children_) add_figures(all, child->own_figures());
  return all;
}

}  // namespace hami

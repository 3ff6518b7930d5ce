// What backends that hold others have in common: a container has a trait, and accepts a batch,
// only if all of its children do, and it reads whatever one of them reads.
#pragma once

#include <memory>
#include <vector>

#include "plan/build.h"

namespace hami {

class Container : public Backend {
 public:
  explicit Container(Build& build) : children_(build.children()) {}

  BatchRange batch_range() const override { return common_range(children_); }
  Traits traits() const override { return common_traits(children_); }
  // The first child sees the items as they come.
  size_t group_of(const Item& item) const override { return children_[0]->group_of(item); }
  void collect_reads(std::vector<Key>& reads) const override;
  int container_depth() const override { return largest_depth(children_); }
  std::string problem() const override;
  Figures own_figures() const override;

 protected:
  Backends children_;
};

}  // namespace hami

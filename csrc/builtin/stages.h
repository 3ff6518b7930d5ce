// What `S` and `List` have in common: children with prefixes, of which `(or)` and conditions decide
// for which items a child runs.
#pragma once

#include "builtin/container.h"
#include "core/condition.h"

namespace hami {

class StagedContainer : public Container {
 public:
  explicit StagedContainer(Build& build);

  Traits traits() const override;
  void collect_reads(std::vector<Key>& reads) const override;

 protected:
  struct Stage {
    Backend& backend;
    bool is_or;
    std::shared_ptr<Condition> condition;  // null: runs for every item
  };
  std::vector<Stage> stages_;
};

}  // namespace hami

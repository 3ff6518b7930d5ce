// `Condition`: a backend that answers yes or no for each item. Alone it lets items pass, or ends
// them without a result; with one or two backends inside, `C[A]` and `C[A, B]`, it chooses what
// runs; in a prefix, `(C)X`, it decides which items a stage sees. A condition has no effect on the
// items it is asked about.
#pragma once

#include <memory>
#include <vector>

#include "core/backend.h"

namespace hami {

class Condition : public Backend {
 public:
  explicit Condition(Backends branches = {});

  // Whether it holds for this item. What it throws fails that item alone.
  virtual bool holds(const Item& item) const = 0;

  // The items for which it holds, and the others, in their order. Items that have failed, now or
  // before, are in neither.
  struct Parts {
    std::vector<Item*> held;
    std::vector<Item*> others;
  };
  virtual Parts divide(Batch batch) const;

  void forward(Batch batch) final;
  BatchRange batch_range() const override { return range_; }
  Traits traits() const override;
  size_t group_of(const Item& item) const override;
  void collect_reads(std::vector<Key>& reads) const override;
  int container_depth() const override { return largest_depth(branches_); }

 protected:
  // What asking takes, without the branches.
  virtual Traits traits_of_question() const { return {.is_inline = true, .is_reentrant = true}; }

 private:
  void forward_branch(size_t branch, Batch part) const;

  const Backends branches_;
  const BatchRange range_;
};

}  // namespace hami

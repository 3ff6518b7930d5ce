// `List[...]`: builds its children and keeps them alive; called, it runs them in order on the same
// data. `With[A, B]`: A decides how B runs.
#include "builtin/container.h"

namespace hami {
namespace {

class List final : public Container {
 public:
  explicit List(Build& build) : Container(build) {}
  void forward(Batch batch) override {
    for (const auto& child : children_) forward_by_group(*child, batch);
  }
};

class With final : public Container {
 public:
  explicit With(Build& build) : Container(build) {}
  void forward(Batch batch) override { children_[0]->forward_with(batch, *children_[1]); }
  size_t group_of(const Item& item) const override { return children_[1]->group_of(item); }
};

HAMI_REGISTER(List, .family = "wiring", .doc = "Builds its children and keeps them alive.",
              .min_children = 1, .max_children = -1);

HAMI_REGISTER(With, .family = "wiring", .doc = "Runs the second child in the care of the first.",
              .min_children = 2, .max_children = 2);

}  // namespace
}  // namespace hami

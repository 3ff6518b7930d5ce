// `List[...]`: builds its children and keeps them alive; called, it runs them in order on the same
// data. `With[A, B]`: A decides how B runs.
#include <utility>

#include "builtin/stages.h"

namespace hami {
namespace {

class List final : public StagedContainer {
 public:
  explicit List(Build& build) : StagedContainer(build) {}

  void forward(Batch batch) override {
    for (const Stage& stage : stages_) {
      std::vector<Item*> items;
      for (Item* item : batch) {
        if (item->error != nullptr) continue;
        if (!stage.is_or || !item->dict.has(keys::result)) items.push_back(item);
      }
      if (stage.condition != nullptr) items = std::move(stage.condition->divide(items).held);
      if (items.empty()) continue;
      if (!stage.backend.judges_results()) {
        for (Item* item : items) item->dict.erase(keys::result);
      }
      forward_by_group(stage.backend, items);
    }
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

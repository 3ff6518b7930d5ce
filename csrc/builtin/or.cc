// `Or[A, B, ...]`: A runs for all items, B for those that have no result then, and so on. Each one
// gets the item as it came.
#include <utility>

#include "builtin/container.h"

namespace hami {
namespace {

class Or final : public Container {
 public:
  explicit Or(Build& build) : Container(build) {}

  Traits traits() const override {
    Traits all{.is_inline = true, .is_reentrant = true};
    for (const auto& child : children_) {
      const Traits own = child->traits();
      all = all.combine(own);
      all.may_skip = own.may_skip;  // only what the last one leaves has no result
    }
    return all;
  }

  void forward(Batch batch) override {
    std::vector<Item*> items(batch.begin(), batch.end());
    for (size_t i = 0; i < children_.size() && !items.empty(); ++i) {
      forward_by_group(*children_[i], items);
      std::erase_if(items, [](const Item* item) {
        return item->error != nullptr || item->dict.has(keys::result);
      });
    }
  }
};

HAMI_REGISTER(Or, .family = "flow",
              .doc = "Tries its children in order until an item has a result.", .min_children = 1,
              .max_children = -1);

}  // namespace
}  // namespace hami

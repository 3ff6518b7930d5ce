// `LoopCondition[C]`: asks for another round when C has a result. It is what `Loop[Process, C]`
// puts behind Process; a `Restart` that follows does what it asks.
#include "builtin/container.h"
#include "core/error.h"

namespace hami {
namespace {

class LoopCondition final : public Container {
 public:
  explicit LoopCondition(Build& build) : Container(build) {}

  void forward(Batch batch) override {
    // The condition looks at copies: whatever it writes is not for the next round.
    std::vector<std::unique_ptr<Item>> copies;
    std::vector<Item*> asked;
    for (const Item* item : batch) {
      copies.push_back(std::make_unique<Item>());
      Item& copy = *copies.back();
      copy.dict = item->dict;
      copy.dict.erase(keys::result);
      copy.base = item->base;
      copy.rows = item->rows;
      asked.push_back(&copy);
    }
    forward_by_group(*children_[0], asked);
    for (size_t i = 0; i < batch.size(); ++i) {
      if (asked[i]->error != nullptr) {
        batch[i]->error = asked[i]->error;
        continue;
      }
      batch[i]->dict.put(keys::restart, Value(asked[i]->dict.has(keys::result)));
      batch[i]->set_result(batch[i]->data());
    }
  }
};

HAMI_REGISTER(LoopCondition, .family = "flow",
              .doc = "Asks for another round of a `Loop` when its child has a result.",
              .min_children = 1, .max_children = 1);

}  // namespace
}  // namespace hami

// `S[A, B, ...]`: runs its children in order; the `result` of one is the `data` of the next.
#include <utility>

#include "builtin/container.h"

namespace hami {
namespace {

class S final : public Container {
 public:
  explicit S(Build& build) : Container(build) {
    for (const Expr& child : build.expr().children) is_or_.push_back(child.prefix == "or");
  }

  void forward(Batch batch) override {
    // Only the last stage speaks for the whole.
    std::vector<PartialSink*> sinks;
    for (Item* item : batch) sinks.push_back(std::exchange(item->partials, nullptr));
    for (size_t stage = 0; stage < children_.size(); ++stage) {
      if (stage + 1 == children_.size()) {
        for (size_t i = 0; i < batch.size(); ++i) batch[i]->partials = sinks[i];
      }
      std::vector<Item*> items;
      for (Item* item : batch) {
        if (item->error == nullptr && prepare(*item, stage)) items.push_back(item);
      }
      if (!items.empty()) forward_by_group(*children_[stage], items);
    }
  }

 private:
  // Whether the stage runs for this item; if so, hands the result over as data.
  bool prepare(Item& item, size_t stage) const {
    const Value* result = item.dict.find(keys::result);
    if (is_or_[stage]) return result == nullptr;
    if (stage == 0) return true;
    if (result == nullptr) return false;
    item.dict.put(keys::data, *result);
    item.dict.erase(keys::result);
    return true;
  }

  std::vector<bool> is_or_;
};

HAMI_REGISTER(S, .family = "wiring",
              .doc = "Runs its children in order; the result of one is the data of the next.",
              .min_children = 1, .max_children = -1);

}  // namespace
}  // namespace hami

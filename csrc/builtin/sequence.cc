// `S[A, B, ...]`: runs its children in order; the `result` of one is the `data` of the next. An
// item without a result passes by what follows, except `(or)` stages and `ThrowIfNoResult`; one
// that a stage's condition does not hold for keeps what it has.
#include <algorithm>
#include <utility>

#include "builtin/stages.h"

namespace hami {
namespace {

class S final : public StagedContainer {
 public:
  explicit S(Build& build) : StagedContainer(build) {}

  Ends ends() const override {
    // What a prefix lets pass by may be anything.
    const bool is_plain = std::ranges::all_of(
        stages_, [](const Stage& stage) { return !stage.is_or && stage.condition == nullptr; });
    return is_plain ? ends_of_chain(children_) : Ends{};
  }

  void forward(Batch batch) override {
    // Only the last stage speaks for the whole.
    std::vector<PartialSink*> sinks;
    for (Item* item : batch) sinks.push_back(std::exchange(item->partials, nullptr));
    // The items' own `data`, which the stages after the first replace for a while.
    std::vector<std::pair<Item*, Value>> originals;
    if (stages_.size() > 1) originals = data_of(batch);
    for (size_t i = 0; i < stages_.size(); ++i) {
      if (i + 1 == stages_.size()) {
        for (size_t item = 0; item < batch.size(); ++item) batch[item]->partials = sinks[item];
      }
      std::vector<Item*> items;
      for (Item* item : batch) {
        if (item->error == nullptr && prepare(*item, i)) items.push_back(item);
      }
      if (stages_[i].condition != nullptr) items = select(*stages_[i].condition, items);
      if (!items.empty()) forward_by_group(stages_[i].backend, items);
    }
    for (auto& [item, data] : originals) item->dict.put(keys::data, std::move(data));
  }

 private:
  static std::vector<std::pair<Item*, Value>> data_of(Batch batch) {
    std::vector<std::pair<Item*, Value>> found;
    found.reserve(batch.size());
    for (Item* item : batch) {
      if (const Value* data = item->dict.find(keys::data)) found.emplace_back(item, *data);
    }
    return found;
  }

  // Whether the stage runs for this item; if so, hands the result over as data.
  bool prepare(Item& item, size_t index) const {
    const Stage& stage = stages_[index];
    const Value* result = item.dict.find(keys::result);
    if (stage.is_or) return result == nullptr;
    if (index == 0 || stage.backend.judges_results()) return true;
    if (result == nullptr) return false;
    item.dict.put(keys::data, *result);
    item.dict.erase(keys::result);
    return true;
  }

  // The items that the stage runs for; for the others it is as if it were `Identity`.
  static std::vector<Item*> select(const Condition& condition, Batch items) {
    Condition::Parts parts = condition.divide(items);
    for_each_item(parts.others, [](Item& item) { item.set_result(item.data()); });
    return std::move(parts.held);
  }
};

HAMI_REGISTER(S, .family = "wiring",
              .doc = "Runs its children in order; the result of one is the data of the next.",
              .min_children = 1, .max_children = -1);

}  // namespace
}  // namespace hami

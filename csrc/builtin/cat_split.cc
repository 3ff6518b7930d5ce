// `CatSplit[Cat, Infer, Split]`: many items become one batch tensor, run once, and become many
// results again.
#include "builtin/container.h"
#include "core/error.h"

namespace hami {
namespace {

class CatSplit final : public Container {
 public:
  explicit CatSplit(Build& build) : Container(build) {}

  // How many rows may run at once is the inner backend's concern; the outer two take any.
  BatchRange batch_range() const override { return children_[1]->batch_range(); }

  Ends ends() const override { return ends_of_chain(children_); }

  void forward(Batch batch) override {
    children_[0]->forward(batch);
    std::vector<Item*> items;
    for (Item* item : batch) {
      if (item->error == nullptr) items.push_back(item);
    }
    if (items.empty()) return;
    // After Cat every item holds the whole batch; the first one's view of it goes in.
    Item joined;
    joined.dict = items[0]->dict;
    joined.base = items[0]->base;
    joined.dict.put(keys::data, result_of(*items[0]));
    joined.dict.erase(keys::result);
    joined.rows = num_rows(items);
    Item* const one[] = {&joined};
    children_[1]->forward(one);
    if (joined.error != nullptr) std::rethrow_exception(joined.error);
    const Value whole = result_of(joined);
    for (Item* item : items) {
      item->dict.put(keys::data, whole);
      item->dict.erase(keys::result);
    }
    children_[2]->forward(items);
  }

 private:
  static const Value& result_of(const Item& item) {
    const Value* result = item.dict.find(keys::result);
    if (result == nullptr) {
      throw Error(ErrorKind::kRequest, "request-missing-result",
                  "a part of `CatSplit` ended without a `result`", "every part must set `result`");
    }
    return *result;
  }
};

HAMI_REGISTER(CatSplit, .family = "wiring",
              .doc = "Joins items into one batch tensor, runs it, and splits the result again.",
              .min_children = 3, .max_children = 3);

}  // namespace
}  // namespace hami

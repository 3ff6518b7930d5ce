// `Identity`, `Identities` and `Pass`: the result is the data.
#include "core/error.h"
#include "plan/build.h"

namespace hami {
namespace {

class Identity final : public InlineBackend {
 public:
  explicit Identity(Build&) {}
  void forward(Batch batch) override {
    for_each_item(batch, [](Item& item) { item.set_result(item.data()); });
  }
};

class Identities final : public InlineBackend {
 public:
  explicit Identities(Build& build) : max_(build.params().find_int("max").value_or(1)) {}
  void forward(Batch batch) override {
    for_each_item(batch, [](Item& item) { item.set_result(item.data()); });
  }
  BatchRange batch_range() const override { return {1, max_}; }
  Traits traits() const override { return {}; }

 private:
  int64_t max_;
};

class Pass final : public InlineBackend {
 public:
  explicit Pass(Build&) {}
  void forward(Batch batch) override {
    for_each_item(batch, [](Item& item) {
      if (!item.dict.has(keys::result)) item.set_result(item.data());
    });
  }
};

HAMI_REGISTER(Identity, .family = "flow", .doc = "The result is the data.");
HAMI_REGISTER(Identities, .family = "flow", .doc = "The result is the data, in real batches.",
              .params = {{.name = "max", .type = "int", .doc = "most rows of one run", .min = 1}});
HAMI_REGISTER(Pass, .family = "flow",
              .doc = "Leaves a result alone, and passes the data on where there is none.");

}  // namespace
}  // namespace hami

// `HasKey(key)` and `NotHasKey(key)`: does the item have this key? None is a value.
#include "core/condition.h"
#include "plan/build.h"

namespace hami {
namespace {

class HasKey : public Condition {
 public:
  explicit HasKey(Build& build)
      : Condition(build.children()), key_(Key::intern(build.params().get_str("key"))) {}

  bool holds(const Item& item) const override { return item.dict.has(key_); }
  void collect_reads(std::vector<Key>& reads) const override {
    Condition::collect_reads(reads);
    reads.push_back(key_);
  }

 private:
  const Key key_;
};

class NotHasKey final : public HasKey {
 public:
  explicit NotHasKey(Build& build) : HasKey(build) {}
  bool holds(const Item& item) const override { return !HasKey::holds(item); }
};

HAMI_REGISTER(HasKey, .family = "flow", .doc = "Holds for items that have the key.",
              .params = {{.name = "key", .type = "str", .doc = "the key", .is_required = true}},
              .max_children = 2, .is_condition = true);
HAMI_REGISTER(NotHasKey, .family = "flow", .doc = "Holds for items that do not have the key.",
              .params = {{.name = "key", .type = "str", .doc = "the key", .is_required = true}},
              .max_children = 2, .is_condition = true);

}  // namespace
}  // namespace hami

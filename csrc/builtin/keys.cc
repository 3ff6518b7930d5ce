// `Add(key, value)` and `Remove(key)`: change one key of the item; the result is the data.
#include "builtin/written_key.h"
#include "core/tensor.h"

namespace hami {
namespace {

// A value of the plan for one request: lists, dicts and arrays are copied, so that no caller can
// change what another one gets. Opaque objects are shared.
Value fresh(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kList: {
      auto list = make_ref<List>();
      for (const Value& element : value.as_list().values) list->values.push_back(fresh(element));
      return Value(std::move(list));
    }
    case Value::Kind::kTable: {
      auto table = make_ref<Table>();
      for (const auto& [key, element, written_at] : value.as_table().dict) {
        table->dict.put(key, fresh(element));
      }
      return Value(std::move(table));
    }
    case Value::Kind::kTensor: {
      const Tensor& tensor = value.as_tensor();
      if (!tensor.device().is_cpu()) return value;
      auto copy = Tensor::allocate(tensor.dtype(), tensor.shape());
      tensor.copy_to(copy->data());
      return Value(std::move(copy));
    }
    default:
      return value;
  }
}

class Add final : public InlineBackend {
 public:
  explicit Add(Build& build) : key_(written_key(build)), value_(read_value(build)) {}
  void forward(Batch batch) override {
    for_each_item(batch, [this](Item& item) {
      item.set_result(item.data());
      item.dict.set(key_, fresh(value_));
    });
  }

 private:
  static Value read_value(Build& build) {
    const Value* value = build.params().values().find(Key::intern("value"));
    return value == nullptr ? Value() : *value;
  }

  const Key key_;
  const Value value_;
};

class Remove final : public InlineBackend {
 public:
  explicit Remove(Build& build) : key_(written_key(build)) {}
  void forward(Batch batch) override {
    for_each_item(batch, [this](Item& item) {
      item.set_result(item.data());
      item.remove(key_);
    });
  }

 private:
  const Key key_;
};

HAMI_REGISTER(Add, .family = "flow", .doc = "Sets a key, which the caller gets too.",
              .params = {{.name = "key", .type = "str", .doc = "the key", .is_required = true},
                         {.name = "value",
                          .type = "any",
                          .doc = "what every item gets under it",
                          .is_required = true}});
HAMI_REGISTER(Remove, .family = "flow",
              .doc = "Takes a key away from what follows; the caller's dict keeps its own.",
              .params = {{.name = "key", .type = "str", .doc = "the key", .is_required = true}});

}  // namespace
}  // namespace hami

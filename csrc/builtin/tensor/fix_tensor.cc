// `FixTensor`: casts and reshapes `data` to what the engine beside it declares as its input.
#include "core/description.h"
#include "core/error.h"
#include "core/tensor.h"
#include "plan/build.h"

namespace hami {
namespace {

[[noreturn]] void refuse(const Tensor& tensor, const TensorSpec& spec) {
  throw Error(ErrorKind::kRequest, "tensor-shape",
              "input " + backticked(spec.name) + " takes " + backticked(spec.describe()) +
                  ", got " + backticked(tensor.describe()),
              "give the array that shape, with or without the batch axis");
}

bool fits(const Shape& shape, size_t skip, const Shape& wanted, size_t wanted_skip) {
  if (shape.size() - skip != wanted.size() - wanted_skip) return false;
  for (size_t axis = 0; axis + skip < shape.size(); ++axis) {
    const int64_t extent = wanted[axis + wanted_skip];
    if (extent >= 0 && extent != shape[axis + skip]) return false;
  }
  return true;
}

class FixTensor final : public InlineBackend {
 public:
  explicit FixTensor(Build& build) : options_(build.shared_options()) {}

  Traits traits() const override { return {.is_reentrant = true}; }
  int container_depth() const override { return 1; }
  Ends ends() const override { return {.first = EngineDescription::find(options_->dict)}; }

  void forward(Batch batch) override {
    for_each_item(batch, [this](Item& item) { item.set_result(fix(item)); });
  }

 private:
  Value fix(Item& item) const {
    // What the engine beside this backend wrote about itself; null when there is none.
    const EngineDescription* engine = EngineDescription::find(options_->dict);
    if (item.data().is(Value::Kind::kTable)) {
      auto fixed = make_ref<Table>();
      for (const auto& [key, part, written_at] : item.data().as_table().dict) {
        fixed->dict.put(key, fix_one(part, find_spec(engine, key.text()), item));
      }
      return Value(std::move(fixed));
    }
    const bool has_one_input = engine != nullptr && engine->inputs.size() == 1;
    return fix_one(item.data(), has_one_input ? &engine->inputs[0] : nullptr, item);
  }

  static const TensorSpec* find_spec(const EngineDescription* engine, std::string_view name) {
    if (engine == nullptr) return nullptr;
    for (const TensorSpec& spec : engine->inputs) {
      if (spec.name == name) return &spec;
    }
    return nullptr;
  }

  static Value fix_one(const Value& value, const TensorSpec* spec, Item& item) {
    if (!value.is(Value::Kind::kTensor)) {
      throw Error(ErrorKind::kRequest, "request-type",
                  "`FixTensor` takes an array, got " + backticked(value.type_name()),
                  "put an array under `data`");
    }
    Ref<Tensor> tensor(&value.as_tensor());
    if (spec == nullptr) return Value(std::move(tensor));
    const bool is_rows = fits(tensor->shape(), 0, spec->shape, 0);
    const bool is_one_row = !is_rows && spec->has_rows && fits(tensor->shape(), 0, spec->shape, 1);
    const bool is_batch_of_any = !is_rows && spec->has_rows &&
                                 tensor->rank() == spec->shape.size() &&
                                 fits(tensor->shape(), 1, spec->shape, 1);
    if (!is_rows && !is_one_row && !is_batch_of_any) refuse(*tensor, *spec);
    tensor = tensor->cast(spec->dtype);
    if (is_one_row) {
      Shape shape = tensor->shape();
      shape.insert(shape.begin(), 1);
      tensor = tensor->reshape(std::move(shape));
      item.has_batch_axis = false;
    }
    return Value(std::move(tensor));
  }

  Ref<Table> options_;
};

HAMI_REGISTER(FixTensor, .family = "tensor",
              .doc = "Casts and reshapes an array to the input that the engine declares.");

}  // namespace
}  // namespace hami

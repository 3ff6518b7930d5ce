// `Pow`: the result is the square of `data`.
#include "core/error.h"
#include "core/typed_dict.h"
#include "plan/build.h"

namespace hami {
namespace {

Value square(const Dict& dict) {
  const Value* value = dict.find(keys::data);
  if (value != nullptr && value->is(Value::Kind::kFloat)) {
    return Value(value->as_float() * value->as_float());
  }
  if (value == nullptr || !value->is(Value::Kind::kInt)) {
    TypedDict(dict, "Pow").refuse(keys::data, "an int or a float");
  }
  int64_t squared = 0;
  if (__builtin_mul_overflow(value->as_int(), value->as_int(), &squared)) {
    throw Error(ErrorKind::kRequest, "request-type",
                "the square of " + backticked(std::to_string(value->as_int())) +
                    " does not fit into 64 bits",
                "use a float");
  }
  return Value(squared);
}

class Pow final : public InlineBackend {
 public:
  explicit Pow(Build&) {}
  void forward(Batch batch) override {
    for_each_item(batch, [](Item& item) { item.set_result(square(item.dict)); });
  }
};

HAMI_REGISTER(Pow, .family = "flow", .doc = "The square of the data.");

}  // namespace
}  // namespace hami

// `Pow`: the result is the square of `data`.
#include "core/error.h"
#include "plan/build.h"

namespace hami {
namespace {

Value square(const Value& value) {
  if (value.is(Value::Kind::kFloat)) return Value(value.as_float() * value.as_float());
  if (!value.is(Value::Kind::kInt)) {
    throw Error(ErrorKind::kRequest, "request-type",
                "`Pow` squares an int or a float, got " + quoted(value.type_name()),
                "put a number under `data`");
  }
  int64_t squared = 0;
  if (__builtin_mul_overflow(value.as_int(), value.as_int(), &squared)) {
    throw Error(
        ErrorKind::kRequest, "request-type",
        "the square of " + quoted(std::to_string(value.as_int())) + " does not fit into 64 bits",
        "use a float");
  }
  return Value(squared);
}

class Pow final : public InlineBackend {
 public:
  explicit Pow(Build&) {}
  void forward(Batch batch) override {
    for_each_item(batch, [](Item& item) { item.set_result(square(item.data())); });
  }
};

HAMI_REGISTER(Pow, .family = "flow", .doc = "The square of the data.");

}  // namespace
}  // namespace hami

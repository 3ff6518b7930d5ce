// The check of one item against a model: every mistake is an error that names the input, what was
// expected, what came, and what to do.
#include <algorithm>

#include "engine/inputs.h"
#include "onnx_fixture.h"

namespace hami::engine {
namespace {

using namespace onnxruntime::testing;  // NOLINT: the fixture of these tests

constexpr DType kFloat32{DType::kFloat, 32};
constexpr DType kInt64{DType::kInt, 64};

Ref<EngineDescription> picture_model() {
  auto model = make_ref<EngineDescription>();
  model->inputs = {{"x", kFloat32, {-1, 3, -1}, true}};
  return model;
}

Ref<EngineDescription> pair_model() {
  auto model = make_ref<EngineDescription>();
  model->inputs = {{"ids", kInt64, {-1, -1}, true}, {"mask", kFloat32, {-1, -1}, true}};
  return model;
}

Ref<EngineDescription> scaled_model() {
  auto model = make_ref<EngineDescription>();
  model->inputs = {{"x", kFloat32, {-1, 2}, true}, {"scale", kFloat32, {1, 2}, false}};
  return model;
}

Ref<Tensor> empty(DType dtype, Shape shape) { return Tensor::allocate(dtype, std::move(shape)); }

ItemInputs read(const EngineDescription& model, Value data, int64_t rows = 1) {
  static std::vector<std::unique_ptr<Items>> kept;
  return read_inputs(kept.emplace_back(std::make_unique<Items>())->add(std::move(data), rows),
                     model);
}

Error refusal(const EngineDescription& model, Value data, int64_t rows = 1) {
  const Error error = error_of([&] { read(model, std::move(data), rows); });
  CHECK(error.kind() == ErrorKind::kRequest);
  CHECK(!error.help().empty());
  return error;
}

class Foreign final : public Any {
 public:
  std::string type_name() const override { return "datetime.date"; }
};

TEST_SUITE_BEGIN("engine");

TEST_CASE("an array of the rank of the model keeps its batch axis and brings its rows") {
  const auto model = picture_model();
  const ItemInputs inputs = read(*model, Value(empty(kFloat32, {4, 3, 5})), 4);
  CHECK(inputs.rows == 4);
  CHECK(inputs.has_batch_axis);
  CHECK(inputs.tensors.size() == 1);
}

TEST_CASE("an array of one rank less is one row without a batch axis") {
  const ItemInputs inputs = read(*picture_model(), Value(empty(kFloat32, {3, 5})));
  CHECK(inputs.rows == 1);
  CHECK(!inputs.has_batch_axis);
}

TEST_CASE("a batch axis that an earlier backend added is taken off again") {
  Items items;
  Item& item = items.add(empty(kFloat32, {1, 3, 5}));
  item.has_batch_axis = false;
  CHECK(!read_inputs(item, *picture_model()).has_batch_axis);
}

TEST_CASE("the shape of a row is the same with and without the batch axis") {
  const auto model = picture_model();
  auto rows = empty(kFloat32, {2, 3, 5});
  auto row = empty(kFloat32, {3, 5});
  const auto with = row_shape(*rows, model->inputs[0]);
  const auto without = row_shape(*row, model->inputs[0]);
  CHECK(std::ranges::equal(with, without));
}

TEST_CASE("the arrays of several inputs come in the order of the model") {
  auto ids = empty(kInt64, {1, 4});
  auto mask = empty(kFloat32, {1, 4});
  const ItemInputs inputs = read(*pair_model(), named({{"mask", mask}, {"ids", ids}}));
  CHECK(inputs.tensors[0] == ids.get());
  CHECK(inputs.tensors[1] == mask.get());
}

TEST_CASE("a missing key `data` is refused") {
  Items items;
  Item& item = items.add(Value());
  item.dict.erase(keys::data);
  CHECK(error_of([&] { read_inputs(item, *picture_model()); }).code() == "request-missing-key");
}

TEST_CASE("anything but an array is refused with its type") {
  struct Case {
    Value data;
    const char* type;
  };
  const std::vector<Case> cases = {
      {Value(), "`None`"},
      {Value(int64_t{3}), "`int`"},
      {Value(0.5), "`float`"},
      {Value(true), "`bool`"},
      {Value::str("text"), "`str`"},
      {Value(make_ref<List>()), "`list`"},
      {Value(Ref<Any>(make_ref<Foreign>())), "`datetime.date`"},
      {named({{"x", empty(kFloat32, {1, 3, 5})}}), "`dict`"},
  };
  for (const Case& one : cases) {
    const Error error = refusal(*picture_model(), one.data);
    CHECK(error.code() == "input-type");
    CHECK(contains(error.message(), "input `x` must be `float32[?x3x?]`"));
    CHECK(contains(error.message(), one.type));
  }
}

TEST_CASE("a dict for a model of one input is told to be the array itself") {
  const Error error = refusal(*picture_model(), named({{"x", empty(kFloat32, {1, 3, 5})}}));
  CHECK(contains(error.help(), "pass the array itself"));
}

TEST_CASE("an array for a model of several inputs is told the names") {
  const Error error = refusal(*pair_model(), Value(empty(kInt64, {1, 4})));
  CHECK(error.code() == "input-type");
  CHECK(contains(error.message(), "must be a dict"));
  CHECK(contains(error.help(), "`ids`, `mask`"));
}

TEST_CASE("a missing input is named") {
  const Error error = refusal(*pair_model(), named({{"ids", empty(kInt64, {1, 4})}}));
  CHECK(error.code() == "input-missing");
  CHECK(contains(error.message(), "input `mask`"));
}

TEST_CASE("an unknown input is named, with those that there are") {
  const Error error = refusal(*pair_model(), named({{"ids", empty(kInt64, {1, 4})},
                                                    {"mask", empty(kFloat32, {1, 4})},
                                                    {"maks", empty(kFloat32, {1, 4})}}));
  CHECK(error.code() == "input-unknown");
  CHECK(contains(error.message(), "`maks`"));
  CHECK(contains(error.help(), "`ids`, `mask`"));
}

TEST_CASE("a wrong type names both types and the way to convert") {
  const Error error = refusal(*picture_model(), Value(empty({DType::kUInt, 8}, {1, 3, 5})));
  CHECK(error.code() == "input-dtype");
  CHECK(contains(error.message(), "`float32[?x3x?]`"));
  CHECK(contains(error.message(), "`uint8[1x3x5]`"));
  CHECK(contains(error.help(), "`FixTensor`"));
}

TEST_CASE("an array on a device is refused") {
  auto owner = empty(kFloat32, {1, 3, 5});
  auto tensor = make_ref<Tensor>(owner->data(), kFloat32, owner->shape(), owner->strides(), owner,
                                 Device{2, 0});
  CHECK(refusal(*picture_model(), Value(tensor)).code() == "input-device");
}

TEST_CASE("a wrong rank names both ranks that fit") {
  for (const Shape& shape : {Shape{3}, Shape{}, Shape{1, 1, 3, 5}}) {
    const Error error = refusal(*picture_model(), Value(empty(kFloat32, shape)));
    CHECK(error.code() == "input-rank");
    CHECK(contains(error.help(), "rank 3, or to one row of rank 2"));
  }
}

TEST_CASE("a wrong fixed extent is refused, a dynamic one never") {
  const Error error = refusal(*picture_model(), Value(empty(kFloat32, {1, 4, 5})));
  CHECK(error.code() == "input-shape");
  CHECK(contains(error.message(), "`float32[1x4x5]`"));
  CHECK(refusal(*picture_model(), Value(empty(kFloat32, {4, 5}))).code() == "input-shape");
  CHECK_NOTHROW(read(*picture_model(), Value(empty(kFloat32, {1, 3, 77}))));
}

TEST_CASE("rows that differ from request_size are refused with both numbers") {
  const Error error = refusal(*picture_model(), Value(empty(kFloat32, {5, 3, 5})), 2);
  CHECK(error.code() == "input-rows");
  CHECK(contains(error.message(), "`5` rows"));
  CHECK(contains(error.message(), "`request_size` is `2`"));
  CHECK(contains(error.help(), "set `request_size` to 5"));
  CHECK(contains(error.help(), "has_batch_axis"));
}

TEST_CASE("several rows without a batch axis are refused") {
  CHECK(refusal(*picture_model(), Value(empty(kFloat32, {3, 5})), 2).code() == "input-rows");
}

TEST_CASE("zero rows are refused") {
  const Error error = refusal(*picture_model(), Value(empty(kFloat32, {0, 3, 5})));
  CHECK(error.code() == "input-rows");
  CHECK(contains(error.message(), "has no rows"));
}

TEST_CASE("inputs with and without a batch axis do not mix") {
  const Error error = refusal(
      *pair_model(), named({{"ids", empty(kInt64, {1, 4})}, {"mask", empty(kFloat32, {4})}}));
  CHECK(error.code() == "input-rank");
  CHECK(contains(error.message(), "`ids` and `mask`"));
  CHECK_NOTHROW(
      read(*pair_model(), named({{"ids", empty(kInt64, {4})}, {"mask", empty(kFloat32, {4})}})));
}

TEST_CASE("an input without rows must have the rank and the extents of the model") {
  const auto with_scale = [](Shape shape) {
    return named({{"x", empty(kFloat32, {3, 2})}, {"scale", empty(kFloat32, std::move(shape))}});
  };
  CHECK_NOTHROW(read(*scaled_model(), with_scale({1, 2}), 3));
  CHECK(refusal(*scaled_model(), with_scale({2}), 3).code() == "input-rank");
  CHECK(refusal(*scaled_model(), with_scale({3, 2}), 3).code() == "input-shape");
}

TEST_CASE("an input of rank 0 takes an array of rank 0") {
  auto model = make_ref<EngineDescription>();
  model->inputs = {{"x", kFloat32, {}, false}};
  CHECK_NOTHROW(read(*model, Value(empty(kFloat32, {}))));
  CHECK(refusal(*model, Value(empty(kFloat32, {1}))).code() == "input-rank");
}

TEST_CASE("find_input gives nothing for data that will be refused") {
  Items items;
  const auto model = pair_model();
  auto ids = empty(kInt64, {1, 4});
  CHECK(find_input(items.add(named({{"ids", ids}})), *model, 0) == ids.get());
  CHECK(find_input(items.add(named({{"ids", ids}})), *model, 1) == nullptr);
  CHECK(find_input(items.add(ids), *model, 0) == nullptr);
  CHECK(find_input(items.add(Value()), *picture_model(), 0) == nullptr);
  Item& without = items.add(Value());
  without.dict.erase(keys::data);
  CHECK(find_input(without, *picture_model(), 0) == nullptr);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hami::engine

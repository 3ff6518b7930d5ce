// `OnnxInfer` on batches: the same answers as each item alone, whatever the batch, and errors that
// stay with the item that caused them.
#include "backends/onnxruntime/onnx_infer.h"

#include <algorithm>

#include "onnx_fixture.h"

namespace hami::onnxruntime {
namespace {

using namespace testing;  // NOLINT: the fixture of these tests

using Numbers = std::vector<float>;

OnnxInferOptions options(const std::string& name, std::optional<int64_t> max = {}) {
  return {.session = {.model = model_path(name)}, .rows = {.max = max}};
}

Error build_error(const OnnxInferOptions& wrong) {
  const Error error = error_of([&] { OnnxInfer infer(wrong); });
  CHECK(error.kind() == ErrorKind::kBuild);
  return error;
}

// A view of every second column of `numbers`, which is no contiguous memory.
Ref<Tensor> every_second_column(const Tensor& tensor) {
  Shape shape = tensor.shape();
  Shape strides = tensor.strides();
  shape.back() /= 2;
  strides.back() *= 2;
  return make_ref<Tensor>(tensor.data(), tensor.dtype(), shape, strides, tensor.owner());
}

TEST_SUITE_BEGIN("onnxruntime");

TEST_CASE("the batch range follows the model and the parameters") {
  CHECK(OnnxInfer(options("double")).batch_range() == BatchRange{1, 1});
  CHECK(OnnxInfer(options("double", 8)).batch_range() == BatchRange{1, 8});
  CHECK(OnnxInfer(options("mlp_fixed4")).batch_range() == BatchRange{1, 4});
  CHECK(OnnxInfer(options("mlp_fixed4", 2)).batch_range() == BatchRange{1, 2});
  CHECK(OnnxInfer(options("double_scalar", 4)).batch_range() == BatchRange{1, 4});
  OnnxInferOptions with_min = options("double", 8);
  with_min.rows.min = 2;
  CHECK(OnnxInfer(with_min).batch_range() == BatchRange{2, 8});
  with_min.rows.max.reset();
  CHECK(OnnxInfer(with_min).batch_range() == BatchRange{2, 2});
}

TEST_CASE("a max above the fixed batch of the model is a build error naming both") {
  const Error error = build_error(options("mlp_fixed4", 5));
  CHECK(error.code() == "model-batch");
  CHECK(contains(error.message(), "`max` is `5`"));
  CHECK(contains(error.message(), "fixed batch of `4`"));
  CHECK(contains(error.help(), "set `max` to 4"));
}

TEST_CASE("a min above the max is a build error") {
  OnnxInferOptions wrong = options("double", 2);
  wrong.rows.min = 3;
  CHECK(build_error(wrong).code() == "model-batch");
}

TEST_CASE("one row with and without a batch axis gives the same numbers in its own rank") {
  OnnxInfer infer(options("double"));
  Items items;
  Item& with = items.add(floats({1, 2}, {1, 2}));
  Item& without = items.add(floats({2}, {3, 4}));
  infer.forward(items.batch());
  CHECK(tensor_of(with).shape() == Shape{1, 2});
  CHECK(numbers_of(tensor_of(with)) == Numbers{2, 4});
  CHECK(tensor_of(without).shape() == Shape{2});
  CHECK(numbers_of(tensor_of(without)) == Numbers{6, 8});
}

TEST_CASE("every item of a batch gets its own rows") {
  OnnxInfer infer(options("double", 8));
  Items items;
  Item& first = items.add(floats({2, 2}, {1, 2, 3, 4}), 2);
  Item& second = items.add(floats({2}, {5, 6}));
  Item& third = items.add(floats({3, 2}, {7, 8, 9, 10, 11, 12}), 3);
  infer.forward(items.batch());
  CHECK(numbers_of(tensor_of(first)) == Numbers{2, 4, 6, 8});
  CHECK(tensor_of(second).shape() == Shape{2});
  CHECK(numbers_of(tensor_of(second)) == Numbers{10, 12});
  CHECK(tensor_of(third).shape() == Shape{3, 2});
  CHECK(numbers_of(tensor_of(third)) == Numbers{14, 16, 18, 20, 22, 24});
}

TEST_CASE("the results of a batch are views of one output") {
  OnnxInfer infer(options("double", 8));
  Items items;
  Item& first = items.add(floats({1, 2}, {1, 2}));
  Item& second = items.add(floats({1, 2}, {3, 4}));
  infer.forward(items.batch());
  CHECK(tensor_of(first).owner() == tensor_of(second).owner());
  CHECK(tensor_of(second).data_as<float>() == tensor_of(first).data_as<float>() + 2);
}

TEST_CASE("results stay as they are while the instance runs on") {
  OnnxInfer infer(options("double", 8));
  Items kept;
  kept.add(floats({1, 2}, {1, 2}));
  kept.add(floats({1, 2}, {3, 4}));
  infer.forward(kept.batch());
  for (int round = 0; round < 3; ++round) {
    Items later;
    later.add(floats({1, 2}, {50, 60}));
    later.add(floats({1, 2}, {70, 80}));
    infer.forward(later.batch());
  }
  CHECK(numbers_of(tensor_of(*kept.batch()[0])) == Numbers{2, 4});
  CHECK(numbers_of(tensor_of(*kept.batch()[1])) == Numbers{6, 8});
}

TEST_CASE("the data of an item is not changed") {
  OnnxInfer infer(options("passed_through", 4));
  Items items;
  auto x = floats({1, 2}, {1, 2});
  Item& item = items.add(x);
  infer.forward(items.batch());
  CHECK(numbers_of(*x) == Numbers{1, 2});
  CHECK(&item.dict.find(keys::data)->as_tensor() == x.get());
  CHECK(tensor_of(item, "x").data() != x->data());
}

TEST_CASE("arrays that are not contiguous or not aligned are accepted") {
  OnnxInfer infer(options("double", 8));
  Items items;
  auto wide = floats({2, 4}, {1, 0, 2, 0, 3, 0, 4, 0});
  Item& strided = items.add(every_second_column(*wide), 2);
  auto bytes = Tensor::allocate({DType::kUInt, 8}, {9});
  const float numbers[] = {5, 6};
  std::copy_n(reinterpret_cast<const char*>(numbers), 8, bytes->data_as<char>() + 1);
  auto unaligned = make_ref<Tensor>(bytes->data_as<char>() + 1, DType{DType::kFloat, 32},
                                    Shape{1, 2}, Shape{2, 1}, bytes);
  infer.forward(items.batch());
  CHECK(numbers_of(tensor_of(strided)) == Numbers{2, 4, 6, 8});
  Items alone;
  Item& shifted = alone.add(unaligned);
  infer.forward(alone.batch());
  CHECK(numbers_of(tensor_of(shifted)) == Numbers{10, 12});
}

TEST_CASE("items of different shapes run apart and keep their answers") {
  OnnxInfer infer(options("image", 8));
  const auto picture = [](int64_t width) {
    return floats({3, 2, width}, Numbers(static_cast<size_t>(6 * width), 1.0F));
  };
  Items items;
  std::vector<Item*> mixed;
  for (int64_t width : {4, 7, 4, 7, 5}) mixed.push_back(&items.add(picture(width)));
  infer.forward(items.batch());
  for (size_t i = 0; i < mixed.size(); ++i) {
    Items alone;
    const int64_t width = tensor_of(*mixed[i]).shape()[2];
    CHECK(width == std::vector<int64_t>{4, 7, 4, 7, 5}[i]);
    Item& single = alone.add(picture(width));
    infer.forward(alone.batch());
    CHECK(numbers_of(tensor_of(*mixed[i])) == numbers_of(tensor_of(single)));
  }
  CHECK(tensor_of(*mixed[0]).owner() == tensor_of(*mixed[2]).owner());
}

TEST_CASE("a fixed batch is filled up, and the filling never shows") {
  OnnxInfer infer(options("mlp_fixed4"));
  OnnxInfer dynamic(options("mlp", 4));
  const Numbers rows{1, 2, 3, 4, 5, 6, 7, 8, 8, 7, 6, 5, 4, 3, 2, 1, 0, 1, 0, 1, 0, 1, 0, 1};
  for (int64_t num_rows : {1, 2, 3}) {
    Items items;
    const Numbers numbers(rows.begin(), rows.begin() + 8 * num_rows);
    Item& item = items.add(floats({num_rows, 8}, numbers), num_rows);
    infer.forward(items.batch());
    Items wanted;
    Item& same = wanted.add(floats({num_rows, 8}, numbers), num_rows);
    dynamic.forward(wanted.batch());
    CHECK(tensor_of(item).shape() == Shape{num_rows, 4});
    const Numbers expected = numbers_of(tensor_of(same));
    const Numbers got = numbers_of(tensor_of(item));
    for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(expected[i]));
  }
}

TEST_CASE("more rows than max are run in parts, an item too large is an error") {
  OnnxInfer infer(options("mlp_fixed4"));
  Items items;
  for (int i = 0; i < 6; ++i) items.add(floats({8}, Numbers(8, static_cast<float>(i))));
  infer.forward(items.batch());
  for (const Item* item : items.batch()) CHECK(tensor_of(*item).shape() == Shape{4});
  Items large;
  Item& item = large.add(floats({5, 8}, Numbers(40, 1.0F)), 5);
  infer.forward(large.batch());
  CHECK(contains(error_of(item).message(), "exactly `4` rows"));
}

TEST_CASE("several inputs come as a dict, several outputs go as one") {
  OnnxInfer infer(options("two_inputs", 4));
  CHECK(infer.container_depth() == 1);
  Items items;
  Item& first =
      items.add(named({{"b:0", floats({1, 3}, {4, 5, 6})}, {"a:0", floats({1, 3}, {1, 2, 3})}}));
  Item& second =
      items.add(named({{"a:0", floats({3}, {1, 1, 1})}, {"b:0", floats({3}, {2, 2, 2})}}));
  infer.forward(items.batch());
  CHECK(numbers_of(tensor_of(first, "sum:0")) == Numbers{5, 7, 9});
  CHECK(numbers_of(tensor_of(first, "product:0")) == Numbers{4, 10, 18});
  CHECK(tensor_of(second, "sum:0").shape() == Shape{3});
  CHECK(numbers_of(tensor_of(second, "product:0")) == Numbers{2, 2, 2});
}

TEST_CASE("one chosen output of several is the array itself") {
  OnnxInferOptions chosen = options("two_inputs");
  chosen.outputs = {"product:0"};
  OnnxInfer infer(chosen);
  Items items;
  Item& item = items.add(named({{"a:0", floats({3}, {1, 2, 3})}, {"b:0", floats({3}, {4, 5, 6})}}));
  infer.forward(items.batch());
  CHECK(numbers_of(tensor_of(item)) == Numbers{4, 10, 18});
}

TEST_CASE("a wrong item fails alone") {
  OnnxInfer infer(options("double", 8));
  Items items;
  Item& good = items.add(floats({2}, {1, 2}));
  Item& wrong_shape = items.add(floats({3}, {1, 2, 3}));
  Item& wrong_type = items.add(Value::str("text"));
  Item& also_good = items.add(floats({2}, {3, 4}));
  infer.forward(items.batch());
  CHECK(numbers_of(tensor_of(good)) == Numbers{2, 4});
  CHECK(numbers_of(tensor_of(also_good)) == Numbers{6, 8});
  CHECK(error_of(wrong_shape).code() == "input-shape");
  CHECK(error_of(wrong_type).code() == "input-type");
}

TEST_CASE("a run that fails is the error of its one item, or of the batch to be bisected") {
  OnnxInfer infer(options("tokens", 8));
  const auto ids = [](int64_t id) {
    auto tensor = Tensor::allocate({DType::kInt, 64}, {1});
    tensor->data_as<int64_t>()[0] = id;
    return tensor;
  };
  Items alone;
  Item& bad = alone.add(ids(99));
  infer.forward(alone.batch());
  CHECK(error_of(bad).code() == "engine-run");
  Items several;
  several.add(ids(1));
  several.add(ids(99));
  CHECK(error_of([&] { infer.forward(several.batch()); }).code() == "engine-run");
}

TEST_CASE("an array without elements is left to the model") {
  OnnxInfer infer(options("image"));
  Items items;
  Item& item = items.add(floats({1, 3, 0, 4}, {}));
  infer.forward(items.batch());  // this model refuses it, another may take it
  CHECK((item.error != nullptr || tensor_of(item).size() == 0));
}

TEST_CASE("items of one row shape share a group, with and without the batch axis") {
  OnnxInfer infer(options("image", 8));
  Items items;
  const auto picture = [&](Shape shape, int64_t rows = 1) -> const Item& {
    return items.add(Tensor::allocate({DType::kFloat, 32}, std::move(shape)), rows);
  };
  const size_t group = infer.group_of(picture({3, 4, 5}));
  CHECK(infer.group_of(picture({1, 3, 4, 5})) == group);
  CHECK(infer.group_of(picture({2, 3, 4, 5}, 2)) == group);
  CHECK(infer.group_of(picture({3, 5, 4})) != group);
  CHECK(infer.group_of(picture({1, 3, 4, 6})) != group);
}

TEST_CASE("the groups of a model with several inputs look at all of them") {
  OnnxInfer infer(options("two_inputs", 8));
  Items items;
  const auto pair = [&](Shape a, Shape b) {
    const DType dtype{DType::kFloat, 32};
    return infer.group_of(items.add(
        named({{"a:0", Tensor::allocate(dtype, a)}, {"b:0", Tensor::allocate(dtype, b)}})));
  };
  CHECK(pair({1, 3}, {1, 3}) == pair({3}, {3}));
  CHECK(pair({1, 3}, {1, 3}) != pair({1, 3}, {1, 4}));
}

TEST_CASE("the description says what the engine takes") {
  OnnxInfer infer(options("two_inputs"));
  Dict surroundings;
  EngineDescription::publish(surroundings, infer.description());
  const EngineDescription* found = EngineDescription::find(surroundings);
  REQUIRE(found != nullptr);
  CHECK(found->inputs[0].describe() == "float32[?x3]");
  CHECK(EngineDescription::find(Dict()) == nullptr);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hami::onnxruntime

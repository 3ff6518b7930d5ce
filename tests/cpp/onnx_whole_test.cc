// Models in which something has no rows: whole inputs, whole outputs, scalars, no batch at all. An
// item's answer must never depend on the others of its batch.
#include "backends/onnxruntime/onnx_infer.h"
#include "onnx_fixture.h"

namespace hami::onnxruntime {
namespace {

using namespace testing;  // NOLINT: the fixture of these tests

using Numbers = std::vector<float>;

OnnxInferOptions options(const std::string& name, std::optional<int64_t> max = {}) {
  return {.session = {.model = model_path(name)}, .rows = {.max = max}};
}

TEST_SUITE_BEGIN("onnxruntime");

TEST_CASE("a model with an input without rows runs each item alone") {
  OnnxInfer infer(options("scaled", 8));
  Items items;
  const auto data = [](float scale) {
    return named({{"x", floats({2, 2}, {1, 2, 3, 4})}, {"scale", floats({}, {scale})}});
  };
  Item& first = items.add(data(2), 2);
  Item& second = items.add(data(10), 2);
  infer.forward(items.batch());
  CHECK(numbers_of(tensor_of(first)) == Numbers{2, 4, 6, 8});
  CHECK(numbers_of(tensor_of(second)) == Numbers{10, 20, 30, 40});
}

TEST_CASE("an output that belongs to the whole run never mixes items") {
  for (const char* model : {"mean", "mean_keepdims"}) {
    CAPTURE(model);
    OnnxInfer infer(options(model, 8));
    Items items;
    Item& first = items.add(floats({2, 3}, {1, 1, 1, 3, 3, 3}), 2);
    Item& second = items.add(floats({2, 3}, {10, 10, 10, 30, 30, 30}), 2);
    infer.forward(items.batch());
    CHECK(numbers_of(tensor_of(first)) == Numbers{2, 2, 2});
    CHECK(numbers_of(tensor_of(second)) == Numbers{20, 20, 20});
  }
}

TEST_CASE("outputs with and without rows may stand side by side") {
  OnnxInfer infer(options("total", 8));
  Items items;
  Item& first = items.add(floats({2}, {1, 2}));
  Item& second = items.add(floats({1, 2}, {10, 20}));
  infer.forward(items.batch());
  CHECK(tensor_of(first, "y").shape() == Shape{2});
  CHECK(tensor_of(first, "total").shape() == Shape{});
  CHECK(numbers_of(tensor_of(first, "total")) == Numbers{3});
  CHECK(tensor_of(second, "y").shape() == Shape{1, 2});
  CHECK(numbers_of(tensor_of(second, "total")) == Numbers{30});
}

TEST_CASE("an output whose rows depend on the values is found out and given whole") {
  OnnxInfer infer(options("positives", 8));
  Items items;
  Item& none = items.add(floats({1, 2}, {-1, 1}));
  Item& both = items.add(floats({2, 2}, {1, 2, 3, 4}), 2);
  Item& one = items.add(floats({2, 2}, {-1, 2, 3, 4}), 2);
  infer.forward(items.batch());
  CHECK(tensor_of(none).shape() == Shape{0, 2});
  CHECK(numbers_of(tensor_of(both)) == Numbers{1, 2, 3, 4});
  CHECK(numbers_of(tensor_of(one)) == Numbers{3, 4});
}

TEST_CASE("an output declared with one row but given with all is cut by rows") {
  OnnxInfer infer(options("double_misdeclared", 8));
  Items items;
  Item& first = items.add(floats({2}, {1, 2}));
  Item& second = items.add(floats({2}, {3, 4}));
  infer.forward(items.batch());
  CHECK(numbers_of(tensor_of(first)) == Numbers{2, 4});
  CHECK(numbers_of(tensor_of(second)) == Numbers{6, 8});
}

TEST_CASE("a fixed batch with a whole output cannot be filled up") {
  for (const char* model : {"mean_fixed4", "flattened"}) {
    CAPTURE(model);
    OnnxInfer infer(options(model));
    const int64_t num_rows = infer.batch_range().max;
    Items items;
    Item& few = items.add(floats({1, 3}, {1, 2, 3}));
    Item& exact = items.add(floats({num_rows, 3}, Numbers(static_cast<size_t>(3 * num_rows), 1.0F)),
                            num_rows);
    infer.forward(items.batch());
    CHECK(error_of(few).code() == "input-rows");
    CHECK(contains(error_of(few).message(), "cannot be filled up"));
    CHECK(tensor_of(exact).data_as<float>()[0] == 1.0F);
  }
}

TEST_CASE("without a batch axis arrays go in and come out as they are") {
  OnnxInferOptions plain = options("image", 4);
  plain.has_batch_axis = false;
  OnnxInfer infer(plain);
  Items items;
  Item& item = items.add(floats({2, 3, 1, 1}, {1, 2, 3, 4, 5, 6}));
  infer.forward(items.batch());
  CHECK(tensor_of(item).shape() == Shape{2, 2, 1, 1});
}

TEST_CASE("a model without any batch takes its own shapes") {
  OnnxInfer infer(options("product"));
  Items items;
  Item& item = items.add(
      named({{"a", floats({2, 3}, Numbers(6, 1.0F))}, {"b", floats({3, 4}, Numbers(12, 2.0F))}}));
  infer.forward(items.batch());
  CHECK(tensor_of(item).shape() == Shape{2, 4});
  CHECK(numbers_of(tensor_of(item)) == Numbers(8, 6.0F));
}

TEST_CASE("scalars go in and come out") {
  OnnxInfer scalar(options("double_scalar"));
  Items items;
  Item& item = items.add(floats({}, {3}));
  scalar.forward(items.batch());
  CHECK(tensor_of(item).shape() == Shape{});
  CHECK(numbers_of(tensor_of(item)) == Numbers{6});
  OnnxInfer rank1(options("double_rank1", 4));
  Items rows;
  Item& row = rows.add(floats({}, {4}));
  Item& two = rows.add(floats({2}, {5, 6}), 2);
  rank1.forward(rows.batch());
  CHECK(tensor_of(row).shape() == Shape{});
  CHECK(numbers_of(tensor_of(row)) == Numbers{8});
  CHECK(numbers_of(tensor_of(two)) == Numbers{10, 12});
}

TEST_SUITE_END();

}  // namespace
}  // namespace hami::onnxruntime

// What the tests of the onnxruntime family share: the folder of test models, which Python writes
// once per run, and short ways to make items and to read their results.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "backends/onnxruntime/library.h"
#include "core/error.h"
#include "core/item.h"
#include "core/tensor.h"

namespace hami::onnxruntime::testing {

// The path of a model of tests/backends/onnx_models.py. HAMI_TEST_PYTHON names an interpreter that
// has onnx and onnxruntime.
std::string model_path(const std::string& name);

inline Ref<Tensor> floats(Shape shape, std::vector<float> numbers) {
  auto tensor = Tensor::allocate({DType::kFloat, 32}, std::move(shape));
  REQUIRE(static_cast<size_t>(tensor->size()) == numbers.size());
  std::copy(numbers.begin(), numbers.end(), tensor->data_as<float>());
  return tensor;
}

inline Value named(std::vector<std::pair<std::string, Ref<Tensor>>> parts) {
  auto table = make_ref<Table>();
  for (auto& [name, tensor] : parts) table->dict.put(Key(name), Value(std::move(tensor)));
  return Value(std::move(table));
}

// Items with `data`, and a batch of them.
class Items {
 public:
  Item& add(Value data, int64_t rows = 1) {
    auto item = std::make_unique<Item>();
    item->dict.put(keys::data, std::move(data));
    item->rows = rows;
    pointers_.push_back(item.get());
    return *items_.emplace_back(std::move(item));
  }
  Item& add(Ref<Tensor> data, int64_t rows = 1) { return add(Value(std::move(data)), rows); }
  Batch batch() const { return pointers_; }

 private:
  std::vector<std::unique_ptr<Item>> items_;
  std::vector<Item*> pointers_;
};

inline const Value& result_of(const Item& item) {
  if (item.error != nullptr) FAIL("the item failed: " << hami::describe(item.error));
  const Value* result = item.dict.find(keys::result);
  REQUIRE(result != nullptr);
  return *result;
}

inline const Tensor& tensor_of(const Item& item, const std::string& name = "") {
  const Value* value = &result_of(item);
  if (!name.empty()) value = value->as_table().dict.find(Key(name));
  REQUIRE(value != nullptr);
  REQUIRE(value->is(Value::Kind::kTensor));
  return value->as_tensor();
}

inline std::vector<float> numbers_of(const Tensor& tensor) {
  std::vector<float> numbers(static_cast<size_t>(tensor.size()));
  tensor.copy_to(numbers.data());
  return numbers;
}

// The code and the message of the error that `call` throws.
template <class Call>
Error error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  FAIL("no error");
  return Error(ErrorKind::kBuild, "", "");
}

inline Error error_of(const Item& item) {
  REQUIRE(item.error != nullptr);
  return error_of([&] { std::rethrow_exception(item.error); });
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace hami::onnxruntime::testing

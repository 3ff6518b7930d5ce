// Strided tensors: views, copies and conversions.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "core/float16.h"
#include "core/tensor.h"

namespace hami {
namespace {

TEST_SUITE_BEGIN("tensors");

constexpr DType kInt32{DType::kInt, 32};

Ref<Tensor> counting(Shape shape) {
  auto tensor = Tensor::allocate(kInt32, std::move(shape));
  std::iota(tensor->data_as<int32_t>(), tensor->data_as<int32_t>() + tensor->size(), 0);
  return tensor;
}

Ref<Tensor> view(const Ref<Tensor>& base, int64_t offset, Shape shape, Shape strides) {
  return make_ref<Tensor>(base->data_as<int32_t>() + offset, kInt32, std::move(shape),
                          std::move(strides), base->owner());
}

std::vector<int32_t> elements(const Tensor& tensor) {
  std::vector<int32_t> out(static_cast<size_t>(tensor.size()));
  tensor.copy_to(out.data());
  return out;
}

TEST_CASE("a new tensor is contiguous and aligned to 64 bytes") {
  const auto tensor = Tensor::allocate(kInt32, {2, 3, 4});
  CHECK(tensor->is_contiguous());
  CHECK(tensor->strides() == Shape{12, 4, 1});
  CHECK(reinterpret_cast<uintptr_t>(tensor->data()) % 64 == 0);
  CHECK(tensor->describe() == "int32[2x3x4]");
}

TEST_CASE("copying follows the strides, whatever they are") {
  const auto base = counting({2, 3});
  SUBCASE("transposed") {
    const auto transposed = view(base, 0, {3, 2}, {1, 3});
    CHECK_FALSE(transposed->is_contiguous());
    CHECK(elements(*transposed) == std::vector<int32_t>{0, 3, 1, 4, 2, 5});
  }
  SUBCASE("backwards along the last axis") {
    CHECK(elements(*view(base, 2, {2, 3}, {3, -1})) == std::vector<int32_t>{2, 1, 0, 5, 4, 3});
  }
  SUBCASE("every second element") {
    CHECK(elements(*view(base, 0, {3}, {2})) == std::vector<int32_t>{0, 2, 4});
  }
  SUBCASE("broadcast") {
    CHECK(elements(*view(base, 1, {2, 2}, {0, 0})) == std::vector<int32_t>{1, 1, 1, 1});
  }
  SUBCASE("three axes permuted") {
    const auto cube = counting({2, 2, 2});
    CHECK(elements(*view(cube, 0, {2, 2, 2}, {1, 2, 4})) ==
          std::vector<int32_t>{0, 4, 2, 6, 1, 5, 3, 7});
  }
}

TEST_CASE("empty tensors and axes of one element are contiguous") {
  CHECK(view(counting({1}), 0, {0, 3}, {7, 7})->is_contiguous());
  CHECK(view(counting({5}), 0, {1, 5, 1}, {99, 1, 99})->is_contiguous());
  CHECK(elements(*view(counting({1}), 0, {0, 3}, {1, 1})).empty());
  CHECK(Tensor::allocate(kInt32, {})->size() == 1);
}

TEST_CASE("slices and rows share memory with the whole") {
  const auto base = counting({4, 2});
  const auto middle = base->slice_rows(1, 2);
  CHECK(middle->shape() == Shape{2, 2});
  CHECK(elements(*middle) == std::vector<int32_t>{2, 3, 4, 5});
  CHECK(base->row(3)->shape() == Shape{2});
  CHECK(base->row(3)->data() == base->data_as<int32_t>() + 6);
}

TEST_CASE("a contiguous tensor is not copied to become contiguous") {
  const auto base = counting({2, 3});
  CHECK(base->contiguous() == base);
  CHECK(view(base, 0, {3, 2}, {1, 3})->contiguous()->strides() == Shape{2, 1});
}

TEST_CASE("a cast converts every element and leaves the right type alone") {
  const auto base = counting({2, 2});
  CHECK(base->cast(kInt32) == base);
  const auto floats = view(base, 0, {2, 2}, {1, 2})->cast({DType::kFloat, 32});
  CHECK(floats->data_as<float>()[1] == 2.0F);
  CHECK(base->cast({DType::kBool, 8})->data_as<bool>()[0] == false);
}

TEST_CASE("a cast that does not exist is the user's error") {
  const auto complex = Tensor::allocate({DType::kComplex, 64}, {1});
  CHECK_THROWS_AS(complex->cast(kInt32), const Error&);
}

TEST_CASE("a view is read-only when its base is") {
  const auto base = counting({2, 2});
  base->set_read_only(true);
  CHECK(base->slice_rows(0, 1)->is_read_only());
  CHECK(base->row(0)->is_read_only());
}

// --- 16 bits ---

template <class Narrow>
float through(float number) {
  return static_cast<float>(Narrow(number));
}

TEST_CASE("every float16 survives the way to float and back") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = std::bit_cast<Float16>(static_cast<uint16_t>(bits));
    const float wide = static_cast<float>(half);
    const auto back = std::bit_cast<uint16_t>(Float16(wide));
    if (std::isnan(wide)) {
      CHECK(std::isnan(static_cast<float>(std::bit_cast<Float16>(back))));
    } else {
      CHECK(back == bits);
    }
  }
}

TEST_CASE("float16 rounds to nearest, ties to even, and overflows to infinity") {
  CHECK(through<Float16>(2049) == 2048);
  CHECK(through<Float16>(2051) == 2052);
  CHECK(through<Float16>(65504) == 65504);
  CHECK(through<Float16>(65519.99F) == 65504);
  CHECK(std::isinf(through<Float16>(65520)));
  CHECK(std::isinf(through<Float16>(-1e30F)));
  CHECK(through<Float16>(0x1p-24F) == 0x1p-24F);
  CHECK(through<Float16>(0x1p-25F) == 0);
  CHECK(through<Float16>(0x1.8p-24F) == 0x1p-23F);
  CHECK(std::signbit(through<Float16>(-0.0F)));
}

TEST_CASE("bfloat16 rounds to nearest, ties to even") {
  CHECK(through<Bfloat16>(1 + 0x1p-7F) == 1 + 0x1p-7F);
  CHECK(through<Bfloat16>(1 + 0x1p-8F) == 1);
  CHECK(through<Bfloat16>(1 + 0x1.8p-7F) == 1 + 0x1p-6F);
  CHECK(std::isinf(through<Bfloat16>(3.4e38F)));
  CHECK(std::isnan(through<Bfloat16>(std::bit_cast<float>(0x7F800001U))));
}

TEST_CASE("arrays are converted to 16 bits and back") {
  const auto numbers = counting({2, 3});
  for (const DType narrow : {DType{DType::kFloat, 16}, DType{DType::kBfloat, 16}}) {
    const auto there = numbers->cast(narrow);
    CHECK(there->size_bytes() == 12);
    CHECK(elements(*there->cast(kInt32)) == elements(*numbers));
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace hami

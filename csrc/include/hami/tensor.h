// `Tensor`: an array of the host as a backend sees it, without copies. Part of hami/hami.h.
#pragma once

#include <hami/value.h>

#include <functional>

namespace hami {
inline namespace api {

// A type of elements by DLPack's numbers.
struct DType {
  enum Code : uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kBool = 6 };
  uint8_t code = kFloat;
  uint8_t bits = 32;

  template <class T>
  static constexpr DType of() {
    static_assert(std::is_arithmetic_v<T>, "an arithmetic type");
    constexpr Code kCode = std::is_same_v<T, bool>       ? kBool
                           : std::is_floating_point_v<T> ? kFloat
                           : std::is_signed_v<T>         ? kInt
                                                         : kUInt;
    return {kCode, static_cast<uint8_t>(sizeof(T) * 8)};
  }
  bool operator==(const DType&) const = default;
};

// An array: shared, never copied. The memory lives as long as the last Tensor or Value that shows
// it, also after `forward`. What came with a request may be the caller's own array: write only into
// arrays that you made.
class Tensor {
 public:
  // REQUIRES: a value of kind HAMI_TENSOR.
  explicit Tensor(Value value) : value_(std::move(value)) {
    detail::check(detail::host().tensor_view(value_.raw().object, &view_));
  }
  // New, uninitialised, row-major memory of the CPU.
  static Tensor allocate(DType dtype, std::span<const int64_t> shape);
  // Takes over an array of DLPack; its deleter is called in any case.
  static Tensor from_dlpack(hami_managed_tensor* managed);
  // Shows memory of yours, row-major; `release` is called once nobody looks any more, on any
  // thread.
  static Tensor adopt(void* data, DType dtype, std::span<const int64_t> shape,
                      std::function<void()> release);

  DType dtype() const noexcept { return {view_.type_code, view_.type_bits}; }
  size_t rank() const noexcept { return static_cast<size_t>(view_.num_dims); }
  std::span<const int64_t> shape() const noexcept { return {view_.shape, rank()}; }
  // In elements.
  std::span<const int64_t> strides() const noexcept { return {view_.strides, rank()}; }
  int64_t size() const noexcept {
    int64_t size = 1;
    for (const int64_t extent : shape()) size *= extent;
    return size;
  }
  bool is_contiguous() const noexcept {
    int64_t expected = 1;
    for (size_t axis = rank(); axis-- > 0;) {
      if (shape()[axis] != 1 && strides()[axis] != expected) return size() == 0;
      expected *= shape()[axis];
    }
    return true;
  }
  // Whether the CPU can read the memory.
  bool is_cpu() const noexcept { return view_.device_type == 1 || view_.device_type == 3; }
  int32_t device_type() const noexcept { return view_.device_type; }
  int32_t device_id() const noexcept { return view_.device_id; }
  inline bool is_read_only() const;
  void* data() const noexcept { return static_cast<char*>(view_.data) + view_.byte_offset; }
  // The elements in a row. Throws RequestError for another type, strides, memory of a device, and
  // for memory that must not be written unless T is const.
  template <class T>
  std::span<T> elements() const {
    const bool is_forbidden = !std::is_const_v<T> && is_read_only();
    if (DType::of<std::remove_const_t<T>>() != dtype() || !is_contiguous() || !is_cpu() ||
        is_forbidden) {
      refuse_elements();
    }
    return {static_cast<T*>(data()), static_cast<size_t>(size())};
  }
  // As DLPack's struct (DLManagedTensorVersioned), to be ended by its deleter.
  inline hami_managed_tensor* to_dlpack() const;

  const Value& value() const noexcept { return value_; }

 private:
  [[noreturn]] inline void refuse_elements() const;

  Value value_;
  hami_tensor view_{};
};

inline Tensor Tensor::allocate(DType dtype, std::span<const int64_t> shape) {
  hami_tensor like{};
  like.num_dims = static_cast<int32_t>(shape.size());
  like.type_code = dtype.code;
  like.type_bits = dtype.bits;
  like.type_lanes = 1;
  like.shape = const_cast<int64_t*>(shape.data());
  hami_value made{};
  detail::check(detail::host().tensor_new(&like, &made));
  return Tensor(Value::own(made));
}
inline Tensor Tensor::from_dlpack(hami_managed_tensor* managed) {
  hami_value made{};
  detail::check(detail::host().tensor_import(managed, &made));
  return Tensor(Value::own(made));
}
inline Tensor Tensor::adopt(void* data, DType dtype, std::span<const int64_t> shape,
                            std::function<void()> release) {
  struct Adopted {
    hami_managed_tensor managed{};
    std::vector<int64_t> shape;
    std::function<void()> release;
  };
  auto* const adopted = new Adopted{{}, {shape.begin(), shape.end()}, std::move(release)};
  adopted->managed.dlpack_major = HAMI_DLPACK_MAJOR;
  adopted->managed.context = adopted;
  adopted->managed.deleter = [](hami_managed_tensor* self) {
    auto* const ended = static_cast<Adopted*>(self->context);
    try {
      if (ended->release) ended->release();
    } catch (...) {
      // There is nobody to whom it could be told.
    }
    delete ended;
  };
  hami_tensor& view = adopted->managed.tensor;
  view.data = data;
  view.device_type = 1;
  view.num_dims = static_cast<int32_t>(adopted->shape.size());
  view.type_code = dtype.code;
  view.type_bits = dtype.bits;
  view.type_lanes = 1;
  view.shape = adopted->shape.data();
  return from_dlpack(&adopted->managed);
}
inline bool Tensor::is_read_only() const {
  return detail::host().tensor_is_read_only(value_.raw().object) != 0;
}
inline hami_managed_tensor* Tensor::to_dlpack() const {
  hami_managed_tensor* managed = nullptr;
  detail::check(detail::host().tensor_export(value_.raw().object, &managed));
  return managed;
}
inline void Tensor::refuse_elements() const {
  throw RequestError(
      "the array `" + value_.type_name() +
          "` is of another type, not in a row, not in memory of the CPU, or read-only",
      "convert it before the call");
}

inline Value::Value(const Tensor& tensor) : Value(tensor.value()) {}
inline Tensor Value::as_tensor() const {
  expect(Kind::kTensor, "an array");
  return Tensor(*this);
}

}  // namespace api
}  // namespace hami

// `Tensor`: a strided view of typed memory with DLPack's type and device codes, shared by
// reference count. The memory belongs to `owner` (an allocation of ours, an engine's output, a
// numpy array, a DLPack capsule); slicing shares it. Reading is safe on any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/value.h"

namespace hami {

// DLPack's DLDataType: a type code and a width.
struct DType {
  enum Code : uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kBool = 6 };
  uint8_t code = kFloat;
  uint8_t bits = 32;

  size_t size_bytes() const noexcept { return bits / 8; }
  std::string name() const;  // `float32`, `int64`, `bool`, ...
  // The type of that name, if there is one.
  static std::optional<DType> find(std::string_view name);
  bool operator==(const DType&) const = default;
};

// DLPack's DLDevice. 1 is the CPU, 2 a CUDA device, 3 memory of the host that CUDA has pinned.
struct Device {
  int32_t type = 1;
  int32_t id = 0;
  // Whether the CPU can read the memory.
  bool is_cpu() const noexcept { return type == 1 || type == 3; }
  std::string name() const;  // `cpu`, `cuda:0`, ...
  bool operator==(const Device&) const = default;
};

using Shape = std::vector<int64_t>;

// The number of elements of `shape`; 1 for rank 0.
int64_t num_elements(const Shape& shape) noexcept;
// Row-major strides of `shape`, in elements.
Shape contiguous_strides(const Shape& shape);
// `2x3x224`, or `scalar` for rank 0.
std::string to_string(const Shape& shape);

class Tensor final : public Object {
 public:
  // A view of `data`, kept alive by `owner`. `strides` are in elements.
  Tensor(void* data, DType dtype, Shape shape, Shape strides, Ref<Object> owner, Device device = {})
      : data_(data),
        dtype_(dtype),
        device_(device),
        shape_(std::move(shape)),
        strides_(std::move(strides)),
        owner_(std::move(owner)) {}

  // New, uninitialised, contiguous CPU memory, aligned to 64 bytes.
  static Ref<Tensor> allocate(DType dtype, Shape shape);

  void* data() const noexcept { return data_; }
  template <class T>
  T* data_as() const noexcept {
    return static_cast<T*>(data_);
  }
  DType dtype() const noexcept { return dtype_; }
  Device device() const noexcept { return device_; }
  const Shape& shape() const noexcept { return shape_; }
  const Shape& strides() const noexcept { return strides_; }
  const Ref<Object>& owner() const noexcept { return owner_; }
  size_t rank() const noexcept { return shape_.size(); }
  int64_t size() const noexcept { return num_elements(shape_); }
  size_t size_bytes() const noexcept { return static_cast<size_t>(size()) * dtype_.size_bytes(); }
  bool is_contiguous() const noexcept;
  // Memory that some callers may only read (a read-only numpy array).
  bool is_read_only() const noexcept { return is_read_only_; }
  void set_read_only(bool is_read_only) noexcept { is_read_only_ = is_read_only; }

  // `float32[2x3]`, for error messages.
  std::string describe() const;

  // Rows [begin, begin + num_rows) of axis 0, sharing memory. REQUIRES: rank >= 1, in range.
  Ref<Tensor> slice_rows(int64_t begin, int64_t num_rows) const;
  // Row `index` without axis 0, sharing memory. REQUIRES: rank >= 1, in range.
  Ref<Tensor> row(int64_t index) const;
  // The same memory under another shape. REQUIRES: contiguous, same number of elements.
  Ref<Tensor> reshape(Shape shape) const;
  // This tensor when contiguous, else a contiguous copy on the same device.
  Ref<Tensor> contiguous() const;
  // Copies the elements in row-major order to `destination` (size_bytes() bytes).
  // REQUIRES: CPU memory.
  void copy_to(void* destination) const;
  // A contiguous copy with every element converted, or this tensor when the type fits already.
  // Throws a request error for types that have no conversion.
  Ref<Tensor> cast(DType dtype) const;

 private:
  void* data_;
  DType dtype_;
  Device device_;
  bool is_read_only_ = false;
  Shape shape_;
  Shape strides_;
  Ref<Object> owner_;
};

}  // namespace hami

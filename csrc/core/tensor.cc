#include "core/tensor.h"

#include <cstring>
#include <new>
#include <utility>

#include "core/device_arrays.h"
#include "core/error.h"
#include "core/float16.h"

namespace hami {
namespace {

constexpr size_t kAlignmentBytes = 64;

// An aligned allocation that lives as long as its tensors.
class Storage final : public Object {
 public:
  explicit Storage(size_t size_bytes)
      : data_(::operator new(size_bytes == 0 ? 1 : size_bytes, std::align_val_t(kAlignmentBytes))) {
  }
  ~Storage() override { ::operator delete(data_, std::align_val_t(kAlignmentBytes)); }
  void* data() const noexcept { return data_; }

 private:
  void* data_;
};

// Calls `visit(pointer, num_elements)` for every run along the last axis, in row-major order.
template <class Visit>
void for_each_run(const Tensor& tensor, Visit visit) {
  if (tensor.size() == 0) return;
  const Shape& shape = tensor.shape();
  const Shape& strides = tensor.strides();
  const auto item_bytes = static_cast<int64_t>(tensor.dtype().size_bytes());
  const size_t rank = tensor.rank();
  const int64_t run = rank == 0 ? 1 : shape[rank - 1];
  const int64_t run_stride = rank == 0 ? 1 : strides[rank - 1];
  const char* pointer = tensor.data_as<char>();
  Shape index(rank, 0);
  while (true) {
    visit(pointer, run, run_stride);
    size_t axis = rank < 2 ? 0 : rank - 1;
    while (axis > 0) {
      --axis;
      pointer += strides[axis] * item_bytes;
      if (++index[axis] < shape[axis]) break;
      pointer -= strides[axis] * item_bytes * shape[axis];
      index[axis] = 0;
      if (axis == 0) return;
    }
    if (rank < 2) return;
  }
}

template <class Call>
void with_type(DType dtype, Call call) {
  if (dtype == DType{DType::kFloat, 32}) return call(float{});
  if (dtype == DType{DType::kFloat, 64}) return call(double{});
  if (dtype == DType{DType::kInt, 8}) return call(int8_t{});
  if (dtype == DType{DType::kInt, 16}) return call(int16_t{});
  if (dtype == DType{DType::kInt, 32}) return call(int32_t{});
  if (dtype == DType{DType::kInt, 64}) return call(int64_t{});
  if (dtype == DType{DType::kUInt, 8}) return call(uint8_t{});
  if (dtype == DType{DType::kUInt, 16}) return call(uint16_t{});
  if (dtype == DType{DType::kUInt, 32}) return call(uint32_t{});
  if (dtype == DType{DType::kUInt, 64}) return call(uint64_t{});
  if (dtype == DType{DType::kBool, 8}) return call(bool{});
  if (dtype == DType{DType::kFloat, 16}) return call(Float16{});
  if (dtype == DType{DType::kBfloat, 16}) return call(Bfloat16{});
  throw Error(ErrorKind::kRequest, "tensor-dtype",
              "there is no conversion from or to " + backticked(dtype.name()),
              "convert the array before the call");
}

}  // namespace

std::optional<DType> DType::find(std::string_view name) {
  static constexpr std::pair<std::string_view, DType> kTypes[] = {
      {"float32", {kFloat, 32}},   {"float64", {kFloat, 64}},     {"float16", {kFloat, 16}},
      {"bfloat16", {kBfloat, 16}}, {"int8", {kInt, 8}},           {"int16", {kInt, 16}},
      {"int32", {kInt, 32}},       {"int64", {kInt, 64}},         {"uint8", {kUInt, 8}},
      {"uint16", {kUInt, 16}},     {"uint32", {kUInt, 32}},       {"uint64", {kUInt, 64}},
      {"bool", {kBool, 8}},        {"complex64", {kComplex, 64}}, {"complex128", {kComplex, 128}}};
  for (const auto& [known, dtype] : kTypes) {
    if (name == known) return dtype;
  }
  return {};
}

std::string DType::name() const {
  if (code == kBool) return "bool";
  const char* base = code == kInt       ? "int"
                     : code == kUInt    ? "uint"
                     : code == kFloat   ? "float"
                     : code == kBfloat  ? "bfloat"
                     : code == kComplex ? "complex"
                                        : "type";
  return base + std::to_string(bits);
}

std::string Device::name() const {
  if (is_cpu()) return "cpu";
  const std::string base = type == 2 ? "cuda" : "device " + std::to_string(type);
  return base + ":" + std::to_string(id);
}

int64_t num_elements(const Shape& shape) noexcept {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  return count;
}

Shape contiguous_strides(const Shape& shape) {
  Shape strides(shape.size());
  int64_t stride = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= shape[axis];
  }
  return strides;
}

std::string to_string(const Shape& shape) {
  if (shape.empty()) return "scalar";
  std::string text;
  for (int64_t extent : shape) {
    if (!text.empty()) text += 'x';
    text += extent < 0 ? "?" : std::to_string(extent);
  }
  return text;
}

Ref<Tensor> Tensor::allocate(DType dtype, Shape shape) {
  auto storage = make_ref<Storage>(static_cast<size_t>(num_elements(shape)) * dtype.size_bytes());
  Shape strides = contiguous_strides(shape);
  void* data = storage->data();
  return make_ref<Tensor>(data, dtype, std::move(shape), std::move(strides), std::move(storage));
}

bool Tensor::is_contiguous() const noexcept {
  if (size() == 0) return true;
  int64_t expected = 1;
  for (size_t axis = rank(); axis-- > 0;) {
    // The stride of an axis of one element is never used, whatever it says.
    if (shape_[axis] != 1 && strides_[axis] != expected) return false;
    expected *= shape_[axis];
  }
  return true;
}

std::string Tensor::describe() const { return dtype_.name() + "[" + to_string(shape_) + "]"; }

Ref<Tensor> Tensor::slice_rows(int64_t begin, int64_t num_rows) const {
  Shape shape = shape_;
  shape[0] = num_rows;
  char* data = data_as<char>() + begin * strides_[0] * static_cast<int64_t>(dtype_.size_bytes());
  auto slice = make_ref<Tensor>(data, dtype_, std::move(shape), strides_, owner_, device_);
  slice->set_read_only(is_read_only_);
  return slice;
}

Ref<Tensor> Tensor::row(int64_t index) const {
  char* data = data_as<char>() + index * strides_[0] * static_cast<int64_t>(dtype_.size_bytes());
  auto row = make_ref<Tensor>(data, dtype_, Shape(shape_.begin() + 1, shape_.end()),
                              Shape(strides_.begin() + 1, strides_.end()), owner_, device_);
  row->set_read_only(is_read_only_);
  return row;
}

Ref<Tensor> Tensor::reshape(Shape shape) const {
  Shape strides = contiguous_strides(shape);
  auto view =
      make_ref<Tensor>(data_, dtype_, std::move(shape), std::move(strides), owner_, device_);
  view->set_read_only(is_read_only_);
  return view;
}

Ref<Tensor> Tensor::contiguous() const {
  const Ref<Tensor> self(const_cast<Tensor*>(this));
  if (is_contiguous()) return self;
  if (!device_.is_cpu()) return device_arrays(*this).cast(self, dtype_);
  auto copy = allocate(dtype_, shape_);
  copy_to(copy->data());
  return copy;
}

void Tensor::copy_to(void* destination) const {
  if (is_contiguous()) {
    if (size() != 0) std::memcpy(destination, data_, size_bytes());
    return;
  }
  auto* out = static_cast<char*>(destination);
  const size_t item_bytes = dtype_.size_bytes();
  for_each_run(*this, [&](const char* from, int64_t count, int64_t stride) {
    if (stride == 1) {
      std::memcpy(out, from, static_cast<size_t>(count) * item_bytes);
      out += static_cast<size_t>(count) * item_bytes;
      return;
    }
    const int64_t step = stride * static_cast<int64_t>(item_bytes);
    for (int64_t i = 0; i < count; ++i, from += step, out += item_bytes) {
      std::memcpy(out, from, item_bytes);
    }
  });
}

Ref<Tensor> Tensor::cast(DType dtype) const {
  if (dtype == dtype_) return contiguous();
  if (!device_.is_cpu()) {
    return device_arrays(*this).cast(Ref<Tensor>(const_cast<Tensor*>(this)), dtype);
  }
  auto copy = allocate(dtype, shape_);
  with_type(dtype_, [&](auto from_tag) {
    with_type(dtype, [&](auto to_tag) {
      using From = decltype(from_tag);
      using To = decltype(to_tag);
      To* out = copy->data_as<To>();
      for_each_run(*this, [&](const char* from, int64_t count, int64_t stride) {
        const auto* typed = reinterpret_cast<const From*>(from);
        for (int64_t i = 0; i < count; ++i) *out++ = static_cast<To>(typed[i * stride]);
      });
    });
  });
  return copy;
}

}  // namespace hami

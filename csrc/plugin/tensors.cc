#include "plugin/tensors.h"

#include <limits>
#include <memory>
#include <stdexcept>
#include <string>

namespace hami::plugin {
namespace {

// Many more axes than any library has; a number above it is no rank but garbage.
constexpr int32_t kMaxDims = 64;

struct Exported {
  hami_managed_tensor managed;
  Ref<Tensor> tensor;
};

// What a plugin has handed over, until nobody looks at it any more.
class Imported final : public Object {
 public:
  explicit Imported(hami_managed_tensor* managed) : managed_(managed) {}
  ~Imported() override {
    if (managed_->deleter != nullptr) managed_->deleter(managed_);
  }
  const hami_managed_tensor& managed() const noexcept { return *managed_; }

 private:
  hami_managed_tensor* managed_;
};

[[noreturn]] void refuse(const std::string& what) {
  throw std::invalid_argument("the tensor " + what);
}

DType dtype_of(const hami_tensor& tensor) {
  const DType dtype{tensor.type_code, tensor.type_bits};
  if (tensor.type_lanes != 1 || tensor.type_bits == 0 || tensor.type_bits % 8 != 0 ||
      !DType::find(dtype.name()) || *DType::find(dtype.name()) != dtype) {
    refuse("has the type (" + std::to_string(tensor.type_code) + ", " +
           std::to_string(tensor.type_bits) + ", " + std::to_string(tensor.type_lanes) +
           "), which the host does not know");
  }
  return dtype;
}

// REQUIRES: a known type. Checks that the size in bytes is a number, too.
Shape shape_of(const hami_tensor& tensor) {
  if (tensor.num_dims < 0 || tensor.num_dims > kMaxDims) {
    refuse("has " + std::to_string(tensor.num_dims) + " axes");
  }
  if (tensor.num_dims > 0 && tensor.shape == nullptr) refuse("has no shape");
  Shape shape(tensor.shape, tensor.shape + tensor.num_dims);
  int64_t room = std::numeric_limits<int64_t>::max() / (tensor.type_bits / 8);
  for (const int64_t extent : shape) {
    if (extent < 0) refuse("has a negative extent: " + std::to_string(extent));
    if (extent > 0) room /= extent;
  }
  if (room == 0) refuse("is larger than any memory: " + to_string(shape));
  return shape;
}

}  // namespace

hami_tensor view(const Tensor& tensor) noexcept {
  return {tensor.data(),
          tensor.device().type,
          tensor.device().id,
          static_cast<int32_t>(tensor.rank()),
          tensor.dtype().code,
          tensor.dtype().bits,
          1,
          const_cast<int64_t*>(tensor.shape().data()),
          const_cast<int64_t*>(tensor.strides().data()),
          0};
}

hami_managed_tensor* export_tensor(Ref<Tensor> tensor) {
  auto exported = std::make_unique<Exported>();
  exported->managed = {
      HAMI_DLPACK_MAJOR,
      0,
      exported.get(),
      [](hami_managed_tensor* managed) { delete static_cast<Exported*>(managed->context); },
      tensor->is_read_only() ? uint64_t{HAMI_TENSOR_READ_ONLY} : 0,
      view(*tensor)};
  exported->tensor = std::move(tensor);
  return &exported.release()->managed;
}

Ref<Tensor> import_tensor(hami_managed_tensor* managed) {
  if (managed == nullptr) refuse("is null");
  const auto owner = make_ref<Imported>(managed);
  if (managed->dlpack_major != HAMI_DLPACK_MAJOR) {
    refuse("is of version " + std::to_string(managed->dlpack_major) +
           " of DLPack, and the host knows " + std::to_string(HAMI_DLPACK_MAJOR));
  }
  const hami_tensor& given = managed->tensor;
  const DType dtype = dtype_of(given);
  Shape shape = shape_of(given);
  if (given.data == nullptr && num_elements(shape) > 0) refuse("has no memory");
  Shape strides = given.strides == nullptr ? contiguous_strides(shape)
                                           : Shape(given.strides, given.strides + given.num_dims);
  auto tensor = make_ref<Tensor>(static_cast<char*>(given.data) + given.byte_offset, dtype,
                                 std::move(shape), std::move(strides), Ref<Object>(owner),
                                 Device{given.device_type, given.device_id});
  tensor->set_read_only((managed->flags & HAMI_TENSOR_READ_ONLY) != 0);
  return tensor;
}

Ref<Tensor> new_tensor(const hami_tensor& like) {
  const DType dtype = dtype_of(like);
  return Tensor::allocate(dtype, shape_of(like));
}

}  // namespace hami::plugin

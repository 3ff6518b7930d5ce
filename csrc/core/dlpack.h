// The memory layout of DLPack's exchange structures (the unversioned form that every producer
// offers), declared by hand from its specification: https://dmlc.github.io/dlpack/latest/c_api.html
#pragma once

#include <cstdint>

namespace hami::dlpack {

struct Tensor {
  void* data;
  int32_t device_type;
  int32_t device_id;
  int32_t num_dims;
  uint8_t type_code;
  uint8_t type_bits;
  uint16_t type_lanes;
  int64_t* shape;
  int64_t* strides;  // in elements; null when contiguous
  uint64_t byte_offset;
};

struct ManagedTensor {
  Tensor tensor;
  void* context;
  void (*deleter)(ManagedTensor*);
};

// The name of a capsule that holds a ManagedTensor, and its name once somebody has taken it.
inline constexpr const char* kCapsuleName = "dltensor";
inline constexpr const char* kUsedCapsuleName = "used_dltensor";

}  // namespace hami::dlpack

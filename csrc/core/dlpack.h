// The memory layout of DLPack's exchange structures, both the unversioned form that every producer
// offers and the versioned one with the table of functions of newer ones, declared by hand from its
// specification: https://dmlc.github.io/dlpack/latest/c_api.html
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

struct Version {
  uint32_t major;
  uint32_t minor;
};

struct ManagedTensorVersioned {
  Version version;
  void* context;
  void (*deleter)(ManagedTensorVersioned*);
  uint64_t flags;
  Tensor tensor;
};

inline constexpr uint32_t kMajorVersion = 1;
inline constexpr uint64_t kIsReadOnly = 1;

// What a class of arrays offers under `__dlpack_c_exchange_api__`: functions that neither call
// Python code nor look at streams.
struct ExchangeTable {
  Version version;
  const ExchangeTable* previous;  // of an older version, or null
  void* allocate;
  int (*from_object)(void* object, ManagedTensorVersioned** out);
  int (*to_object)(ManagedTensorVersioned* tensor, void** out_object);
  void* view_object;
  int (*current_stream)(int32_t device_type, int32_t device_id, void** out_stream);
};

inline constexpr const char* kExchangeAttribute = "__dlpack_c_exchange_api__";
inline constexpr const char* kExchangeName = "dlpack_exchange_api";

// The name of a capsule that holds a ManagedTensor, and its name once somebody has taken it.
inline constexpr const char* kCapsuleName = "dltensor";
inline constexpr const char* kUsedCapsuleName = "used_dltensor";

}  // namespace hami::dlpack

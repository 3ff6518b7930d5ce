// `DeviceArrays`: what the built-in backends do with arrays that lie on a device. The core has no
// code for devices; the host language sets one implementation, which is asked on any thread.
#pragma once

#include <memory>
#include <span>

#include "core/tensor.h"

namespace hami {

class DeviceArrays {
 public:
  virtual ~DeviceArrays() = default;
  // The arrays one after another along axis 0. REQUIRES: one device, dtype and shape of rows.
  virtual Ref<Tensor> concatenate(std::span<const Ref<Tensor>> parts) const = 0;
  // A contiguous copy on the same device with every element converted.
  virtual Ref<Tensor> cast(const Ref<Tensor>& tensor, DType dtype) const = 0;
};

// Set once, before the first pipeline.
void set_device_arrays(std::unique_ptr<DeviceArrays> operations);

// Throws a request error that names the array where nothing was set.
const DeviceArrays& device_arrays(const Tensor& tensor);

}  // namespace hami

#include "core/device_arrays.h"

#include "core/error.h"

namespace hami {
namespace {

std::unique_ptr<DeviceArrays>& operations_set() {
  static std::unique_ptr<DeviceArrays> operations;
  return operations;
}

}  // namespace

void set_device_arrays(std::unique_ptr<DeviceArrays> operations) {
  operations_set() = std::move(operations);
}

const DeviceArrays& device_arrays(const Tensor& tensor) {
  const auto& operations = operations_set();
  if (operations == nullptr) {
    throw Error(ErrorKind::kRequest, "tensor-device",
                backticked(tensor.describe()) + " lies on " + backticked(tensor.device().name()) +
                    ", where nothing here can work on it",
                "copy it to the CPU before the call");
  }
  return *operations;
}

}  // namespace hami

#include "bind/device_arrays_in_python.h"

#include "bind/convert.h"
#include "bind/gil.h"
#include "bind/owned.h"
#include "bind/tensor_object.h"
#include "core/error.h"

namespace hami::bind {
namespace {

Ref<Tensor> array_of(const Owned& result) {
  Ref<Tensor> tensor = to_tensor(result.get());
  if (tensor != nullptr) return tensor;
  throw Error(ErrorKind::kRequest, "tensor-device",
              std::string("an array on a device became a `") + Py_TYPE(result.get())->tp_name + "`",
              "copy it to the CPU before the call");
}

class DeviceArraysInPython final : public DeviceArrays {
 public:
  Ref<Tensor> concatenate(std::span<const Ref<Tensor>> parts) const override {
    const GilAcquire gil;
    const Owned list = checked(PyList_New(static_cast<Py_ssize_t>(parts.size())));
    for (size_t i = 0; i < parts.size(); ++i) {
      PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i),
                      checked(from_value(Value(parts[i]))).detach());
    }
    return array_of(checked(call_tensors("concatenate", list.get())));
  }

  Ref<Tensor> cast(const Ref<Tensor>& tensor, DType dtype) const override {
    const GilAcquire gil;
    const Owned array = checked(from_value(Value(tensor)));
    const Owned name = checked(PyUnicode_FromString(dtype.name().c_str()));
    return array_of(checked(call_tensors("cast", array.get(), name.get())));
  }
};

}  // namespace

std::unique_ptr<DeviceArrays> device_arrays_in_python() {
  return std::make_unique<DeviceArraysInPython>();
}

}  // namespace hami::bind

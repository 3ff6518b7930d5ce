// What the built-in backends need done to arrays on a device, done by hami.tensors.
#pragma once

#include <Python.h>

#include <memory>

#include "core/device_arrays.h"

namespace hami::bind {

std::unique_ptr<DeviceArrays> device_arrays_in_python();

}  // namespace hami::bind

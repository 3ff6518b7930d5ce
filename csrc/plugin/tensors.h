// Arrays across the border, without copies: DLPack's structs around the core's tensors and back.
// The memory lives as long as the last of its users, on whichever side that is.
#pragma once

#include <hami/abi.h>

#include "core/tensor.h"

namespace hami::plugin {

// Borrowed: its shape and strides are those of `tensor`.
hami_tensor view(const Tensor& tensor) noexcept;

// Something of its own that keeps the memory alive.
hami_managed_tensor* export_tensor(Ref<Tensor> tensor);

// Takes `managed` over in any case. Throws std::invalid_argument for what is no array.
Ref<Tensor> import_tensor(hami_managed_tensor* managed);

// New memory of the CPU with the type and shape of `like`. Throws std::invalid_argument.
Ref<Tensor> new_tensor(const hami_tensor& like);

}  // namespace hami::plugin

// ONNX's element types beside DLPack's, which hami uses. Pure functions.
#pragma once

#include <optional>
#include <string>

#include "core/tensor.h"

namespace hami::onnxruntime {

// The type of ONNX's code, or nothing for those that no array holds (text, 4-bit numbers, ...).
std::optional<DType> dtype_of(int element_type);

// ONNX's code of a type. REQUIRES: it came from dtype_of.
int element_type_of(DType dtype);

// ONNX's name of its code, for error messages: `float`, `string`, ...
std::string element_type_name(int element_type);

}  // namespace hami::onnxruntime

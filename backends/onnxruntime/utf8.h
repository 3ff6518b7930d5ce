// Text that comes out of model files, which may hold any bytes, on its way to people. Pure.
#pragma once

#include <string>
#include <string_view>

namespace hami::onnxruntime {

// `text` with a question mark for every byte that is not UTF-8.
std::string valid_utf8(std::string_view text);

}  // namespace hami::onnxruntime

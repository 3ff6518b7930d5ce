#include "backends/onnxruntime/utf8.h"

namespace hami::onnxruntime {
namespace {

// The bytes of the character at the start of `text`; 0 when there is no valid one.
size_t length_of_character(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return 1;
  const size_t length = byte(0) >= 0xF0 ? 4 : byte(0) >= 0xE0 ? 3 : 2;
  // 0xC2: what is below continues a character, or encodes ASCII in two bytes.
  if (byte(0) < 0xC2 || byte(0) > 0xF4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const bool is_overlong =
      (byte(0) == 0xE0 && byte(1) < 0xA0) || (byte(0) == 0xF0 && byte(1) < 0x90);
  const bool is_surrogate = byte(0) == 0xED && byte(1) >= 0xA0;
  const bool is_beyond_unicode = byte(0) == 0xF4 && byte(1) >= 0x90;
  return is_overlong || is_surrogate || is_beyond_unicode ? 0 : length;
}

}  // namespace

std::string valid_utf8(std::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const size_t length = length_of_character(text);
    if (length == 0) {
      valid += '?';
      text.remove_prefix(1);
      continue;
    }
    valid += text.substr(0, length);
    text.remove_prefix(length);
  }
  return valid;
}

}  // namespace hami::onnxruntime

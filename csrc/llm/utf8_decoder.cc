#include "llm/utf8_decoder.h"

namespace hami::llm {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

}  // namespace

void Utf8Decoder::push(std::string_view bytes, std::string& text) {
  for (const char character : bytes) {
    const auto byte = static_cast<unsigned char>(character);
    if (num_missing_ == 0) {
      begin(byte, text);
      continue;
    }
    if (byte < least_ || byte > most_) {
      flush(text);
      begin(byte, text);
      continue;
    }
    begun_ += character;
    least_ = 0x80;
    most_ = 0xBF;
    if (--num_missing_ > 0) continue;
    text += begun_;
    begun_.clear();
  }
}

void Utf8Decoder::flush(std::string& text) {
  if (num_missing_ == 0) return;
  text += kReplacement;
  begun_.clear();
  num_missing_ = 0;
}

void Utf8Decoder::begin(unsigned char byte, std::string& text) {
  if (byte < 0x80) {
    text += static_cast<char>(byte);
    return;
  }
  if (byte < 0xC2 || byte > 0xF4) {
    text += kReplacement;
    return;
  }
  // Overlong forms, surrogates and what is above U+10FFFF show in the second byte.
  least_ = byte == 0xE0 ? 0xA0 : byte == 0xF0 ? 0x90 : 0x80;
  most_ = byte == 0xED ? 0x9F : byte == 0xF4 ? 0x8F : 0xBF;
  num_missing_ = byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
  begun_ = static_cast<char>(byte);
}

}  // namespace hami::llm

// `Utf8Decoder`: bytes in pieces to valid UTF-8. A character that is not complete is held back;
// what is no UTF-8 becomes U+FFFD, once for every maximal part that begins like a character, as in
// Python's `errors="replace"`: pieces give the same text as the whole.
#pragma once

#include <string>
#include <string_view>

namespace hami::llm {

class Utf8Decoder {
 public:
  // Appends what is complete.
  void push(std::string_view bytes, std::string& text);
  // Nothing follows: appends U+FFFD for a character that has only begun.
  void flush(std::string& text);

 private:
  void begin(unsigned char byte, std::string& text);

  std::string begun_;
  int num_missing_ = 0;
  // What the next byte may be.
  unsigned char least_ = 0;
  unsigned char most_ = 0;
};

}  // namespace hami::llm

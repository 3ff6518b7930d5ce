// `TextStream`: the text of one sequence while its tokens come, safe to be shown piece by piece: no
// part of a character, and nothing that may turn out to be the beginning of a stop text. All pieces
// together are what decoding all tokens at once gives. One thread at a time; a `TokenTable` is
// shared by all streams of a model, and never changes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "llm/stop_matcher.h"
#include "llm/utf8_decoder.h"

namespace hami::llm {

// The bytes of every token of a vocabulary.
class TokenTable {
 public:
  // `strip_leading_space`: the first space of a text belongs to the tokens, not to the text.
  TokenTable(const std::vector<std::string>& tokens, std::span<const int32_t> special_ids,
             bool strip_leading_space);

  // Throws a request error that names an id outside of the table.
  std::string_view bytes_of(int64_t id) const;
  bool is_special(int64_t id) const noexcept { return is_special_[static_cast<size_t>(id)] != 0; }
  bool strips_leading_space() const noexcept { return strips_leading_space_; }
  size_t size() const noexcept { return is_special_.size(); }

 private:
  std::string bytes_;
  std::vector<size_t> starts_;
  std::vector<uint8_t> is_special_;
  bool strips_leading_space_;
};

class TextStream {
 public:
  // Throws a request error for an empty stop text.
  TextStream(std::shared_ptr<const TokenTable> table, std::vector<std::string> stop,
             bool include_stop, bool skip_special);

  // What can be shown now, UTF-8; empty once stopped.
  std::string push(int64_t id);
  // No token follows: all that was held back.
  std::string flush();
  // The stop text that was found; null before.
  const std::string* stopped() const noexcept {
    return stopped_ ? &matcher_.text(*stopped_) : nullptr;
  }

 private:
  std::string shown(std::string_view text);

  std::shared_ptr<const TokenTable> table_;
  StopMatcher matcher_;
  bool include_stop_;
  bool skip_special_;
  bool may_strip_;
  Utf8Decoder decoder_;
  std::string held_;
  std::optional<size_t> stopped_;
};

}  // namespace hami::llm

#include "llm/text_stream.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace hami::llm {
namespace {

std::vector<std::string> checked(std::vector<std::string> stop) {
  if (std::any_of(stop.begin(), stop.end(), [](const auto& text) { return text.empty(); })) {
    throw Error(ErrorKind::kRequest, "llm-stop", "a text of `stop` is empty",
                "leave it out: an empty list means no stop texts");
  }
  return stop;
}

[[noreturn]] void refuse_id(int64_t id, size_t size) {
  throw Error(ErrorKind::kRequest, "llm-token-id",
              "token id " + backticked(std::to_string(id)) + " is outside of the vocabulary",
              "token ids are from 0 to " + std::to_string(static_cast<int64_t>(size) - 1));
}

}  // namespace

TokenTable::TokenTable(const std::vector<std::string>& tokens, std::span<const int32_t> special_ids,
                       bool strip_leading_space)
    : starts_(1), is_special_(tokens.size()), strips_leading_space_(strip_leading_space) {
  starts_.reserve(tokens.size() + 1);
  for (const std::string& token : tokens) {
    bytes_ += token;
    starts_.push_back(bytes_.size());
  }
  for (const int32_t id : special_ids) {
    if (id < 0 || static_cast<size_t>(id) >= tokens.size()) refuse_id(id, tokens.size());
    is_special_[static_cast<size_t>(id)] = 1;
  }
}

std::string_view TokenTable::bytes_of(int64_t id) const {
  if (id < 0 || static_cast<size_t>(id) >= size()) refuse_id(id, size());
  const auto index = static_cast<size_t>(id);
  return std::string_view(bytes_).substr(starts_[index], starts_[index + 1] - starts_[index]);
}

TextStream::TextStream(std::shared_ptr<const TokenTable> table, std::vector<std::string> stop,
                       bool include_stop, bool skip_special)
    : table_(std::move(table)),
      matcher_(checked(std::move(stop))),
      include_stop_(include_stop),
      skip_special_(skip_special),
      may_strip_(table_->strips_leading_space()) {}

std::string TextStream::push(int64_t id) {
  const std::string_view bytes = table_->bytes_of(id);
  if (stopped_ || (skip_special_ && table_->is_special(id))) return {};
  std::string text;
  decoder_.push(bytes, text);
  return shown(text);
}

std::string TextStream::flush() {
  if (stopped_) return {};
  std::string text;
  decoder_.flush(text);
  text = shown(text);
  if (!stopped_) text += std::exchange(held_, {});
  return text;
}

std::string TextStream::shown(std::string_view text) {
  if (may_strip_ && !text.empty()) {
    may_strip_ = false;
    if (text.front() == ' ') text.remove_prefix(1);
  }
  for (const char byte : text) {
    held_ += byte;
    stopped_ = matcher_.push(byte);
    if (!stopped_) continue;
    if (!include_stop_) held_.resize(held_.size() - matcher_.text(*stopped_).size());
    return std::exchange(held_, {});
  }
  const size_t num_shown = held_.size() - std::min(held_.size(), matcher_.num_held());
  std::string out = held_.substr(0, num_shown);
  held_.erase(0, num_shown);
  return out;
}

}  // namespace hami::llm

#include "llm/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace hami::llm {
namespace {

size_t advanced(std::string_view text, const std::vector<size_t>& borders, size_t num_matched,
                char byte) {
  while (num_matched > 0 && text[num_matched] != byte) num_matched = borders[num_matched];
  return text[num_matched] == byte ? num_matched + 1 : 0;
}

}  // namespace

StopMatcher::StopMatcher(std::vector<std::string> texts) {
  for (std::string& text : texts) {
    std::vector<size_t> borders(text.size() + 1);
    for (size_t i = 1; i < text.size(); ++i) {
      borders[i + 1] = advanced(text, borders, borders[i], text[i]);
    }
    lines_.push_back({std::move(text), std::move(borders)});
  }
}

std::optional<size_t> StopMatcher::push(char byte) {
  std::optional<size_t> found;
  num_held_ = 0;
  for (size_t i = 0; i < lines_.size(); ++i) {
    Line& line = lines_[i];
    line.num_matched = advanced(line.text, line.borders, line.num_matched, byte);
    if (line.num_matched == line.text.size()) {
      if (!found || line.text.size() > lines_[*found].text.size()) found = i;
      line.num_matched = line.borders[line.num_matched];
    }
    num_held_ = std::max(num_held_, line.num_matched);
  }
  return found;
}

}  // namespace hami::llm

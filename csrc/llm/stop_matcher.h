// `StopMatcher`: finds the first of several texts in a stream, however the stream is cut. The text
// that ends first wins; of those that end together, the longest.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hami::llm {

class StopMatcher {
 public:
  // REQUIRES: no text is empty.
  explicit StopMatcher(std::vector<std::string> texts);

  // One byte more. The number of the text that ends here, if one does.
  std::optional<size_t> push(char byte);
  // So many of the last bytes may be the beginning of a text.
  size_t num_held() const noexcept { return num_held_; }
  const std::string& text(size_t index) const noexcept { return lines_[index].text; }

 private:
  struct Line {
    std::string text;
    std::vector<size_t> borders;  // borders[n]: the longest proper border of the first n bytes
    size_t num_matched = 0;
  };

  std::vector<Line> lines_;
  size_t num_held_ = 0;
};

}  // namespace hami::llm

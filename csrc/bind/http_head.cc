#include "bind/http_head.h"

#include <algorithm>
#include <array>

namespace py = pybind11;

namespace hami::bind {
namespace {

constexpr std::string_view kLineEnd = "\r\n";
constexpr std::string_view kRequestId = "x-request-id";

// In lower case: names of requests, of traces (W3C, Zipkin, Jaeger, the clouds), and of who asked.
constexpr std::array kPassing{
    kRequestId,
    std::string_view("b3"),
    std::string_view("baggage"),
    std::string_view("forwarded"),
    std::string_view("sentry-trace"),
    std::string_view("traceparent"),
    std::string_view("tracestate"),
    std::string_view("uber-trace-id"),
    std::string_view("x-amzn-trace-id"),
    std::string_view("x-b3-flags"),
    std::string_view("x-b3-parentspanid"),
    std::string_view("x-b3-sampled"),
    std::string_view("x-b3-spanid"),
    std::string_view("x-b3-traceid"),
    std::string_view("x-cloud-trace-context"),
    std::string_view("x-correlation-id"),
    std::string_view("x-datadog-parent-id"),
    std::string_view("x-datadog-sampling-priority"),
    std::string_view("x-datadog-trace-id"),
    std::string_view("x-forwarded-for"),
    std::string_view("x-forwarded-port"),
    std::string_view("x-real-ip"),
};

// Apart from the C library's, which ask for the locale.
constexpr char lower(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}
constexpr bool is_alphanumeric(char c) noexcept {
  return (c >= '0' && c <= '9') || (lower(c) >= 'a' && lower(c) <= 'z');
}
constexpr bool is_space(char c) noexcept { return c == ' ' || c == '\t'; }

bool is_printed(char c) noexcept { return (c >= ' ' && c <= '~') || c == '\t'; }

bool is_plain_word(std::string_view text) noexcept {
  constexpr size_t kMostBytes = 128;
  return !text.empty() && text.size() <= kMostBytes && std::ranges::all_of(text, [](char c) {
    return is_alphanumeric(c) || std::string_view("._:/+=-").find(c) != std::string_view::npos;
  });
}

// Reads a head line by line.
class Lines {
 public:
  explicit Lines(std::string_view data) : data_(data.substr(0, kMostHeadBytes)) {}

  // The next line with its end; empty where there is none.
  std::string_view next() noexcept {
    const std::string_view left = data_.substr(found_.num_bytes);
    const size_t size = left.find(kLineEnd);
    if (size == std::string_view::npos) return {};
    found_.num_bytes += size + kLineEnd.size();
    return left.substr(0, size + kLineEnd.size());
  }

  // Whether `line` is one that passes, whose value is read if it is the request's name.
  bool passes(std::string_view line) noexcept {
    line.remove_suffix(kLineEnd.size());
    const size_t size = line.find(':');
    if (size == std::string_view::npos || !std::ranges::all_of(line, is_printed)) return false;
    const std::string_view name = line.substr(0, size);
    const auto is_name = [&](std::string_view passing) {
      return std::ranges::equal(name, passing, {}, lower);
    };
    if (std::ranges::none_of(kPassing, is_name)) return false;
    if (is_name(kRequestId) && !has_id_) {
      has_id_ = true;
      std::string_view value = line.substr(size + 1);
      while (!value.empty() && is_space(value.front())) value.remove_prefix(1);
      while (!value.empty() && is_space(value.back())) value.remove_suffix(1);
      if (is_plain_word(value)) found_.id = value;
    }
    return true;
  }

  const FoundHead& found() const noexcept { return found_; }

 private:
  const std::string_view data_;
  FoundHead found_;
  bool has_id_ = false;
};

}  // namespace

std::optional<FoundHead> read_head(std::string_view data, std::string& plain) {
  Lines lines(data);
  plain.clear();
  while (true) {
    const std::string_view line = lines.next();
    if (line.empty() || is_space(line.front())) return {};
    if (!plain.empty() && lines.passes(line)) continue;
    plain += line;
    if (line == kLineEnd) return lines.found();
  }
}

std::optional<FoundHead> match_head(std::string_view data, std::string_view plain) noexcept {
  Lines lines(data);
  std::string_view left = plain;
  while (true) {
    const std::string_view line = lines.next();
    if (line.empty()) return {};
    if (left.starts_with(line)) {
      left.remove_prefix(line.size());
      if (left.empty()) return lines.found();
    } else if (left.size() == plain.size() || !lines.passes(line)) {
      return {};
    }
  }
}

void define_http_head(py::module_& module) {
  module.attr("MOST_HEAD_BYTES") = kMostHeadBytes;
  module.def(
      "read_head",
      [](const py::bytes& data) -> py::object {
        std::string plain;
        const auto found = read_head(std::string_view(data), plain);
        if (!found) return py::none();
        return py::make_tuple(py::bytes(plain), found->num_bytes, py::bytes(found->id));
      },
      py::arg("data"),
      "The head of the request at the beginning of `data` without what differs between requests "
      "that ask for the same, its size, and its id (empty: it has none); None for no whole head.");
}

}  // namespace hami::bind

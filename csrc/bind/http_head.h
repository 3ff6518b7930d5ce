// The heads of HTTP requests that ask for the same. Some of their lines do not say what is asked
// for, but who asks, by which way, and how that is called: they differ from one request to the
// next, above all behind a proxy. Without them, heads of one program are equal to the last byte.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace hami::bind {

// Longer heads are not looked at.
inline constexpr size_t kMostHeadBytes = 4096;

struct FoundHead {
  size_t num_bytes = 0;  // with the empty line
  std::string_view id;   // what its first `X-Request-Id` says if that is a plain word, else empty
};

// The head at the beginning of `data`, and what is left of it in `plain`. Nothing where there is no
// whole one, or a line that goes on in the next.
std::optional<FoundHead> read_head(std::string_view data, std::string& plain);

// The head at the beginning of `data` if that leaves `plain`, which `read_head` has given.
std::optional<FoundHead> match_head(std::string_view data, std::string_view plain) noexcept;

void define_http_head(pybind11::module_& module);

}  // namespace hami::bind

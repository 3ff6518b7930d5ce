// `Value`: one entry of a dict, and the errors that a backend throws. Part of hami/hami.h.
#pragma once

#include <hami/abi.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace hami {
inline namespace api {

// A failure of the backend.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, std::string help = "")
      : std::runtime_error(message), help_(std::move(help)) {}
  // One thing to do.
  const std::string& help() const noexcept { return help_; }

 private:
  std::string help_;
};

// The request is at fault: Python gets a `hami.RequestError`, a client of the server status 422.
class RequestError : public Error {
 public:
  using Error::Error;
};

namespace detail {

// Hidden, so that each plugin has its own: of two libraries with default visibility the second
// would use the variable of the first.
[[gnu::visibility("hidden")]] inline const hami_host* the_host = nullptr;

inline const hami_host& host() noexcept { return *the_host; }
inline std::string_view view(hami_text text) noexcept { return {text.data, text.size}; }
inline hami_text text(std::string_view view) noexcept { return {view.data(), view.size()}; }

inline void check(hami_status status) {
  if (status == HAMI_OK) return;
  if (status == HAMI_NO_MEMORY) throw std::bad_alloc();
  throw Error(std::string(view(host().last_error())));
}

}  // namespace detail

enum class Kind : int32_t {
  kNone = HAMI_NONE,
  kBool = HAMI_BOOL,
  kInt = HAMI_INT,
  kFloat = HAMI_FLOAT,
  kStr = HAMI_STR,
  kBytes = HAMI_BYTES,
  kTensor = HAMI_TENSOR,
  kList = HAMI_LIST,
  kTable = HAMI_TABLE,
  kOpaque = HAMI_OPAQUE,
};

class DictView;
class List;
class Tensor;

// One entry of a dict. Copying shares what is behind it; a value may be kept as long as you like,
// and dropped on any thread.
class Value {
 public:
  Value() noexcept = default;
  // NOLINTBEGIN(google-explicit-constructor): a number, a text and an array are values
  template <class T>
    requires std::is_arithmetic_v<T>
  Value(T number) {
    if constexpr (std::is_same_v<T, bool>) {
      value_.kind = HAMI_BOOL;
      value_.integer = number ? 1 : 0;
    } else if constexpr (std::is_floating_point_v<T>) {
      value_.kind = HAMI_FLOAT;
      value_.real = static_cast<double>(number);
    } else {
      if constexpr (std::is_unsigned_v<T> && sizeof(T) == sizeof(int64_t)) {
        if (number > static_cast<T>(std::numeric_limits<int64_t>::max())) {
          throw Error("an integer does not fit into 64 bits with a sign");
        }
      }
      value_.kind = HAMI_INT;
      value_.integer = static_cast<int64_t>(number);
    }
  }
  Value(std::string_view text) : Value(text_of(HAMI_STR, text)) {}
  Value(const std::string& text) : Value(std::string_view(text)) {}
  Value(const char* text) : Value(std::string_view(text)) {}
  inline Value(const Tensor& tensor);
  // NOLINTEND
  static Value bytes(const void* data, size_t size) {
    return text_of(HAMI_BYTES, {static_cast<const char*>(data), size});
  }
  static Value list(std::span<const Value> values) {
    std::vector<hami_value> raw;
    for (const Value& value : values) raw.push_back(value.value_);
    hami_value made{};
    detail::check(detail::host().list_new(raw.data(), raw.size(), &made));
    return own(made);
  }

  Value(const Value& other) noexcept : value_(other.value_) { retain(); }
  Value(Value&& other) noexcept : value_(std::exchange(other.value_, hami_value{})) {}
  Value& operator=(Value other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Value() {
    if (value_.object != nullptr) detail::host().release(value_.object);
  }

  // Of abi.h: a value that is borrowed, and one whose reference becomes this one's.
  static Value share(const hami_value& value) {
    Value shared = own(value);
    shared.retain();
    return shared;
  }
  static Value own(const hami_value& value) noexcept {
    Value owned;
    owned.value_ = value;
    return owned;
  }
  const hami_value& raw() const noexcept { return value_; }

  Kind kind() const noexcept { return static_cast<Kind>(value_.kind); }
  bool is(Kind kind) const noexcept { return this->kind() == kind; }
  bool is_none() const noexcept { return is(Kind::kNone); }
  // In words of Python's: `int`, `float32[2x3]`.
  std::string type_name() const {
    hami_value name{};
    detail::check(detail::host().type_name(&value_, &name));
    return std::string(detail::view(own(name).value_.text));
  }

  // Each throws RequestError for a value of another kind. Text lives as long as the value.
  bool as_bool() const { return expect(Kind::kBool, "a bool").integer != 0; }
  int64_t as_int() const { return expect(Kind::kInt, "an int").integer; }
  double as_float() const {
    if (is(Kind::kInt)) return static_cast<double>(value_.integer);
    return expect(Kind::kFloat, "a number").real;
  }
  std::string_view as_str() const { return detail::view(expect(Kind::kStr, "text").text); }
  std::span<const std::byte> as_bytes() const {
    const std::string_view text = detail::view(expect(Kind::kBytes, "bytes").text);
    return std::as_bytes(std::span(text.data(), text.size()));
  }
  inline Tensor as_tensor() const;
  inline List as_list() const;
  inline DictView as_dict() const;

 private:
  static Value text_of(int32_t kind, std::string_view text) {
    hami_value made{};
    detail::check(detail::host().text_new(kind, detail::text(text), &made));
    return own(made);
  }
  void retain() const noexcept {
    if (value_.object != nullptr) detail::host().retain(value_.object);
  }
  const hami_value& expect(Kind kind, const char* wanted) const {
    if (!is(kind)) {
      throw RequestError(std::string("takes ") + wanted + ", got `" + type_name() + "`",
                         "correct the request");
    }
    return value_;
  }

  hami_value value_{};
};

}  // namespace api
}  // namespace hami

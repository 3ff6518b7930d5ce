// `TypedDict`: a Dict read by type. A key that is missing or holds something else is a request
// error that names who reads, the key, what was wanted and what is there. It is a view: the Dict
// must outlive it, and what `get` returns lives as long as the entry.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/dict.h"
#include "core/tensor.h"

namespace hami {

// How a type is read: its `name` in messages, and what `read` gives: an optional, or for objects a
// pointer.
template <class T>
struct Typed;

class TypedDict {
 public:
  template <class T>
  using Found = typename Typed<T>::Found;
  template <class T>
  using Got = std::conditional_t<std::is_pointer_v<Found<T>>,
                                 std::add_lvalue_reference_t<std::remove_pointer_t<Found<T>>>, T>;

  // `reader` is the backend's name.
  TypedDict(const Dict& dict, std::string_view reader) : dict_(dict), reader_(reader) {}

  // The value of `key`. T is bool, int64_t, double (an integer will do), std::string_view,
  // std::span<const std::byte> (bytes), Tensor, List or Dict.
  template <class T>
  Got<T> get(const Key& key) const {
    const Value* value = dict_.find(key);
    if (value == nullptr) refuse_missing(key, Typed<T>::name);
    if (auto found = Typed<T>::read(*value)) return *found;
    refuse_type(key, Typed<T>::name, *value);
  }

  // The same, or nothing where the key is missing or None.
  template <class T>
  Found<T> find(const Key& key) const {
    const Value* value = dict_.find(key);
    if (value == nullptr || value->is_none()) return {};
    if (auto found = Typed<T>::read(*value)) return found;
    refuse_type(key, Typed<T>::name, *value);
  }

  // For a backend that takes several types: the error when `key` holds none of them.
  [[noreturn]] void refuse(const Key& key, const char* wanted) const;

 private:
  [[noreturn]] void refuse_missing(const Key& key, const char* wanted) const;
  [[noreturn]] void refuse_type(const Key& key, const char* wanted, const Value& value) const;

  const Dict& dict_;
  const std::string_view reader_;
};

template <>
struct Typed<bool> {
  using Found = std::optional<bool>;
  static constexpr const char* name = "a bool";
  static Found read(const Value& value) {
    return value.is(Value::Kind::kBool) ? Found(value.as_bool()) : Found();
  }
};

template <>
struct Typed<int64_t> {
  using Found = std::optional<int64_t>;
  static constexpr const char* name = "an int";
  static Found read(const Value& value) {
    return value.is(Value::Kind::kInt) ? Found(value.as_int()) : Found();
  }
};

template <>
struct Typed<double> {
  using Found = std::optional<double>;
  static constexpr const char* name = "a number";
  static Found read(const Value& value) {
    if (value.is(Value::Kind::kInt)) return static_cast<double>(value.as_int());
    return value.is(Value::Kind::kFloat) ? Found(value.as_float()) : Found();
  }
};

template <>
struct Typed<std::string_view> {
  using Found = std::optional<std::string_view>;
  static constexpr const char* name = "text";
  static Found read(const Value& value) {
    return value.is(Value::Kind::kStr) ? Found(value.as_text()) : Found();
  }
};

template <>
struct Typed<std::span<const std::byte>> {
  using Found = std::optional<std::span<const std::byte>>;
  static constexpr const char* name = "bytes";
  static Found read(const Value& value) {
    if (!value.is(Value::Kind::kBytes)) return {};
    const std::string_view text = value.as_text();
    return std::as_bytes(std::span(text.data(), text.size()));
  }
};

template <>
struct Typed<Tensor> {
  using Found = Tensor*;
  static constexpr const char* name = "an array";
  static Found read(const Value& value) {
    return value.is(Value::Kind::kTensor) ? &value.as_tensor() : nullptr;
  }
};

template <>
struct Typed<List> {
  using Found = const List*;
  static constexpr const char* name = "a list";
  static Found read(const Value& value) {
    return value.is(Value::Kind::kList) ? &value.as_list() : nullptr;
  }
};

template <>
struct Typed<Dict> {
  using Found = const Dict*;
  static constexpr const char* name = "a dict";
  static Found read(const Value& value) {
    return value.is(Value::Kind::kTable) ? &value.as_table().dict : nullptr;
  }
};

}  // namespace hami

// `Dict` and `List`: the containers of the host, by key and by index. Part of hami/hami.h.
#pragma once

#include <hami/tensor.h>

#include <optional>

namespace hami {
inline namespace api {

// A list of values, shared.
class List {
 public:
  // REQUIRES: a value of kind HAMI_LIST.
  explicit List(Value value) : value_(std::move(value)) {}
  size_t size() const noexcept { return detail::host().list_size(value_.raw().object); }
  Value operator[](size_t index) const {
    hami_value element{};
    detail::check(detail::host().list_at(value_.raw().object, index, &element));
    return Value::share(element);
  }

 private:
  Value value_;
};

// A dict to read: the parameters of a backend, an item, a dict inside a value.
class DictView {
 public:
  explicit DictView(const hami_dict* dict, Value owner = {})
      : dict_(dict), owner_(std::move(owner)) {}

  size_t size() const noexcept { return detail::host().dict_size(dict_); }
  bool has(std::string_view key) const noexcept { return look_up(key).has_value(); }
  std::vector<std::string> keys() const {
    std::vector<std::string> keys;
    for (size_t i = 0; i < size(); ++i) {
      hami_text key{};
      hami_value value{};
      detail::check(detail::host().dict_at(dict_, i, &key, &value));
      keys.emplace_back(detail::view(key));
    }
    return keys;
  }

  // The value of `key` as bool, int64_t, double (an int will do), std::string, std::string_view (as
  // long as the entry), Tensor, List, DictView or Value. Throws RequestError that names the key
  // where it is missing or something else.
  template <class T>
  T get(std::string_view key) const {
    const auto found = look_up(key);
    if (!found) {
      throw RequestError("`" + std::string(key) + "` is missing", "set it in the request");
    }
    return read<T>(key, *found);
  }
  // The same, or nothing where the key is missing or None.
  template <class T>
  std::optional<T> find(std::string_view key) const {
    const auto found = look_up(key);
    if (!found || found->kind == HAMI_NONE) return {};
    return read<T>(key, *found);
  }

 protected:
  const hami_dict* dict_;

 private:
  std::optional<hami_value> look_up(std::string_view key) const noexcept {
    hami_value found{};
    if (detail::host().dict_get(dict_, detail::text(key), &found) != HAMI_OK) return {};
    return found;
  }

  template <class T>
  T read(std::string_view key, const hami_value& raw) const {
    const Value value = Value::share(raw);
    try {
      if constexpr (std::is_same_v<T, Value>) return value;
      if constexpr (std::is_same_v<T, bool>) return value.as_bool();
      if constexpr (std::is_same_v<T, int64_t>) return value.as_int();
      if constexpr (std::is_same_v<T, double>) return value.as_float();
      if constexpr (std::is_same_v<T, std::string>) return std::string(value.as_str());
      if constexpr (std::is_same_v<T, std::string_view>) return value.as_str();
      if constexpr (std::is_same_v<T, Tensor>) return value.as_tensor();
      if constexpr (std::is_same_v<T, List>) return value.as_list();
      if constexpr (std::is_same_v<T, DictView>) return value.as_dict();
    } catch (const RequestError& error) {
      throw RequestError("`" + std::string(key) + "`: " + error.what(), error.help());
    }
  }

  Value owner_;
};

using Params = DictView;

class Dict : public DictView {
 public:
  explicit Dict(hami_dict* dict, Value owner = {})
      : DictView(dict, std::move(owner)), writable_(dict) {}
  void set(std::string_view key, const Value& value) {
    detail::check(detail::host().dict_set(writable_, detail::text(key), &value.raw()));
  }

 private:
  hami_dict* writable_;
};

// A new dict as a value. Fill it before anybody else has it.
class Table {
 public:
  Table() : Table(make()) {}
  void set(std::string_view key, const Value& value) { dict_.set(key, value); }
  operator const Value&() const noexcept { return value_; }  // NOLINT: it is a value

 private:
  struct Made {
    hami_value value{};
    hami_dict* dict = nullptr;
  };
  static Made make() {
    Made made;
    detail::check(detail::host().table_new(&made.value, &made.dict));
    return made;
  }
  explicit Table(const Made& made) : value_(Value::own(made.value)), dict_(made.dict) {}

  Value value_;
  Dict dict_;
};

inline List Value::as_list() const {
  expect(Kind::kList, "a list");
  return List(*this);
}
inline DictView Value::as_dict() const {
  return DictView(detail::host().table_dict(expect(Kind::kTable, "a dict").object), *this);
}

}  // namespace api
}  // namespace hami

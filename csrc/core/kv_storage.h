// `KVStorage`: what backends keep beyond one call, by request id and key, for one pipeline. Any
// thread may call anything; the entries are spread over several locks by request id. Values leave
// with no lock held, since dropping one may run code of the host language.
#pragma once

#include <array>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/value.h"

namespace hami {

class KVStorage {
 public:
  // Request ids are integers, texts or bytes; `1`, `"1"` and `b"1"` are three of them. Every
  // function that takes one throws a request error for anything else.
  void set(const Value& request_id, std::string_view key, Value value);
  std::optional<Value> get(const Value& request_id, std::string_view key) const;
  bool has(const Value& request_id, std::string_view key) const {
    return get(request_id, key).has_value();
  }
  // Takes one value out.
  std::optional<Value> erase(const Value& request_id, std::string_view key);
  // Takes out all that one request left. Returns how many values that were.
  size_t erase_all(const Value& request_id);
  // The values of all requests.
  size_t size() const;
  void clear() noexcept;

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>{}(text);
    }
  };
  template <class Entry>
  using Map = std::unordered_map<std::string, Entry, Hash, std::equal_to<>>;
  using Values = Map<Value>;
  struct Shard {
    mutable std::mutex mutex;
    Map<Values> requests;
  };

  static std::string name_of(const Value& request_id);
  Shard& shard_of(std::string_view name) noexcept;
  const Shard& shard_of(std::string_view name) const noexcept;

  std::array<Shard, 16> shards_;
};

}  // namespace hami

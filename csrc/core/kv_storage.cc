#include "core/kv_storage.h"

#include <utility>

#include "core/error.h"

namespace hami {

// The first letter keeps ids of different types apart.
std::string KVStorage::name_of(const Value& request_id) {
  switch (request_id.kind()) {
    case Value::Kind::kInt:
      return "i" + std::to_string(request_id.as_int());
    case Value::Kind::kStr:
      return "s" + std::string(request_id.as_text());
    case Value::Kind::kBytes:
      return "b" + std::string(request_id.as_text());
    default:
      throw Error(
          ErrorKind::kRequest, "request-id-type",
          "a request id is an int, a str or bytes, got " + backticked(request_id.type_name()),
          "put one under `request_id`");
  }
}

KVStorage::Shard& KVStorage::shard_of(std::string_view name) noexcept {
  return shards_[Hash{}(name) % shards_.size()];
}

const KVStorage::Shard& KVStorage::shard_of(std::string_view name) const noexcept {
  return shards_[Hash{}(name) % shards_.size()];
}

void KVStorage::set(const Value& request_id, std::string_view key, Value value) {
  const std::string name = name_of(request_id);
  Shard& shard = shard_of(name);
  const std::lock_guard lock(shard.mutex);
  // The old value goes with `value`, which outlives the lock.
  std::swap(shard.requests[name][std::string(key)], value);
}

std::optional<Value> KVStorage::get(const Value& request_id, std::string_view key) const {
  const std::string name = name_of(request_id);
  const Shard& shard = shard_of(name);
  const std::lock_guard lock(shard.mutex);
  const auto request = shard.requests.find(name);
  if (request == shard.requests.end()) return {};
  const auto found = request->second.find(key);
  if (found == request->second.end()) return {};
  return found->second;
}

std::optional<Value> KVStorage::erase(const Value& request_id, std::string_view key) {
  const std::string name = name_of(request_id);
  Shard& shard = shard_of(name);
  const std::lock_guard lock(shard.mutex);
  const auto request = shard.requests.find(name);
  if (request == shard.requests.end()) return {};
  const auto found = request->second.find(key);
  if (found == request->second.end()) return {};
  std::optional<Value> taken = std::move(found->second);
  request->second.erase(found);
  if (request->second.empty()) shard.requests.erase(request);
  return taken;
}

size_t KVStorage::erase_all(const Value& request_id) {
  const std::string name = name_of(request_id);
  Shard& shard = shard_of(name);
  Values dropped;  // released after the lock
  const std::lock_guard lock(shard.mutex);
  const auto request = shard.requests.find(name);
  if (request == shard.requests.end()) return 0;
  dropped = std::move(request->second);
  shard.requests.erase(request);
  return dropped.size();
}

size_t KVStorage::size() const {
  size_t size = 0;
  for (const Shard& shard : shards_) {
    const std::lock_guard lock(shard.mutex);
    for (const auto& [name, values] : shard.requests) size += values.size();
  }
  return size;
}

void KVStorage::clear() noexcept {
  for (Shard& shard : shards_) {
    Map<Values> dropped;  // released after the lock
    const std::lock_guard lock(shard.mutex);
    dropped.swap(shard.requests);
  }
}

}  // namespace hami

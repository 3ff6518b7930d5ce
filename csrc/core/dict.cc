#include "core/dict.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <string>

namespace hami {

Key::Key(std::string_view text) : text_(make_ref<Text>(std::string(text))) {}

Key Key::intern(std::string_view text) {
  static std::mutex mutex;
  static auto* const table = new std::map<std::string, Key, std::less<>>();
  std::lock_guard lock(mutex);
  auto found = table->find(text);
  if (found == table->end()) found = table->emplace(std::string(text), Key(text)).first;
  return found->second;
}

const Value* Dict::find(const Key& key) const noexcept {
  auto found = std::ranges::find(entries_, key, &Entry::key);
  return found == entries_.end() ? nullptr : &found->value;
}

void Dict::put(const Key& key, Value value, uint64_t written_at) {
  auto found = std::ranges::find(entries_, key, &Entry::key);
  if (found == entries_.end()) {
    entries_.push_back({key, std::move(value), written_at});
  } else {
    found->value = std::move(value);
    found->written_at = written_at;
  }
}

bool Dict::erase(const Key& key) {
  auto found = std::ranges::find(entries_, key, &Entry::key);
  if (found == entries_.end()) return false;
  entries_.erase(found);
  return true;
}

namespace keys {
const Key data = Key::intern("data");
const Key result = Key::intern("result");
const Key error = Key::intern("error");
const Key request_id = Key::intern("request_id");
const Key request_end = Key::intern("request_end");
const Key request_size = Key::intern("request_size");
const Key node_name = Key::intern("node_name");
const Key context = Key::intern("context");
const Key priority = Key::intern("priority");
const Key restart = Key::intern("restart");
const Key deadline_ms = Key::intern("deadline_ms");
const Key event = Key::intern("event");
}  // namespace keys

}  // namespace hami

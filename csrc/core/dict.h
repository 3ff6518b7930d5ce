// `Dict`: the small ordered dictionary of a request, and `Key`, its interned names. A Dict is
// owned by one thread at a time (the node that runs the request); Keys may be shared freely.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "core/value.h"

namespace hami {

// A name in a Dict. Keys known at plan time are interned, so that comparing them is comparing two
// pointers; keys that appear only at run time compare by text and are freed with their last use.
class Key {
 public:
  explicit Key(std::string_view text);
  explicit Key(Ref<Text> text) : text_(std::move(text)) {}

  // The one shared Key of this text, kept for the life of the process. REQUIRES: a name from code
  // or from a plan, never from a request (the table only grows).
  static Key intern(std::string_view text);

  std::string_view text() const noexcept { return text_->view(); }
  const Ref<Text>& object() const noexcept { return text_; }
  bool operator==(const Key& other) const noexcept {
    return text_ == other.text_ || text() == other.text();
  }

 private:
  Ref<Text> text_;
};

class Dict {
 public:
  struct Entry {
    Key key;
    Value value;
    uint64_t written_at;  // by which writer; 0 where it came with the request
    // Set by a node, hence to be returned to the caller.
    bool is_written() const noexcept { return written_at != 0; }
  };

  // The value of `key`, or null when there is none (None is a value).
  const Value* find(const Key& key) const noexcept;
  bool has(const Key& key) const noexcept { return find(key) != nullptr; }

  // Sets a value that a node produced: it is returned to the caller at the end.
  void set(const Key& key, Value value) { put(key, std::move(value), writer_); }
  // Sets a value that came with the request, or that the runtime moved: not returned.
  void put(const Key& key, Value value, uint64_t written_at = 0);
  // Who calls `set` from now on: a number above 0, and the higher one is the later.
  void set_writer(uint64_t writer) noexcept { writer_ = writer; }
  bool erase(const Key& key);
  void clear() { entries_.clear(); }
  void reserve(size_t num_entries) { entries_.reserve(num_entries); }

  size_t size() const noexcept { return entries_.size(); }
  auto begin() const noexcept { return entries_.begin(); }
  auto end() const noexcept { return entries_.end(); }

 private:
  std::vector<Entry> entries_;
  uint64_t writer_ = 1;
};

// A Dict as a value: the inputs or outputs of an engine by name.
class Table final : public Object {
 public:
  Dict dict;
};

// The reserved keys of the runtime that the core itself reads or writes.
namespace keys {
extern const Key data;
extern const Key result;
extern const Key error;
extern const Key request_id;
extern const Key request_end;
extern const Key request_size;
extern const Key node_name;
extern const Key context;
extern const Key priority;
extern const Key restart;
extern const Key deadline_ms;
extern const Key event;
}  // namespace keys

}  // namespace hami

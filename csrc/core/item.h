// `Item`: one request as a backend sees it. It belongs to exactly one node run at a time, so its
// members need no lock.
#pragma once

#include <cstdint>
#include <exception>
#include <span>

#include "core/dict.h"

namespace hami {

// Takes the partial results of an item while its backend still works on it.
class PartialSink {
 public:
  virtual ~PartialSink() = default;
  // Hands over one partial result, and waits while the receiver is behind. False when nobody wants
  // what is left: the backend should stop. REQUIRES: no lock of the host language is held.
  virtual bool push(Value value) = 0;
};

struct Item {
  Item() = default;
  Item(const Item&) = delete;
  Item& operator=(const Item&) = delete;
  virtual ~Item() = default;

  // Nobody wants the outcome any more, so that a run of such items alone may stop.
  virtual bool is_abandoned() const noexcept { return false; }

  // What the node may read, and what it writes.
  Dict dict;
  // The shallow copy of the caller's whole dict, kept where a host-language backend may read any
  // key of it. `dict` wins over it.
  Ref<Object> base;
  // Rows of axis 0 that this item brings to a batch (`request_size`).
  int64_t rows = 1;
  // Whether axis 0 of the item's tensors is the batch axis. Engines find out by comparing ranks;
  // false means one row whose result has no batch axis either.
  bool has_batch_axis = true;
  // Where partial results go; null where an item's result is only a step on the way.
  PartialSink* partials = nullptr;
  // Why this item failed; other items of the batch go on.
  std::exception_ptr error;

  // `data`, or a request error that says it is missing.
  const Value& data() const;
  void set_result(Value value) { dict.set(keys::result, std::move(value)); }
  // Takes a key out of the dict, and out of the copy of the caller's dict.
  void remove(const Key& key);
};

// Returns a host dict without `key`, or the same one. Set once by the binding.
using BaseEraser = Ref<Object> (*)(const Ref<Object>& base, const Key& key);
void set_base_eraser(BaseEraser eraser);

// The items that run together. Never empty when a backend sees it.
using Batch = std::span<Item* const>;

// The rows of all items.
int64_t num_rows(Batch batch) noexcept;

}  // namespace hami

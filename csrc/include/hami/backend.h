// `Backend`, the class that users derive from, and the items that it gets. Part of hami/hami.h.
#pragma once

#include <hami/dict.h>

namespace hami {
inline namespace api {

// The rows of one run, inclusive.
struct BatchRange {
  static constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  int64_t min = 1;
  int64_t max = kAny;
};

// One request inside a run. Valid until `forward` returns.
class Item : public Dict {
 public:
  explicit Item(hami_item* item) : Dict(detail::host().item_dict(item)), item_(item) {}
  // Rows of axis 0 that it brings (`request_size`).
  int64_t rows() const noexcept { return detail::host().item_rows(item_); }
  void set_result(const Value& value) { set("result", value); }
  void erase(std::string_view key) { detail::host().item_erase(item_, detail::text(key)); }
  // Ends this item with a request error; the others of the batch go on.
  void fail(std::string_view message, std::string_view help = "") {
    detail::host().item_fail(item_, 1, detail::text(message), detail::text(help));
  }
  // The same with a failure of the backend.
  void fail_backend(std::string_view message) {
    detail::host().item_fail(item_, 0, detail::text(message), {});
  }

 private:
  hami_item* item_;
};

// The items that run together; at least one.
class Batch {
 public:
  class Iterator {
   public:
    Iterator(const Batch& batch, size_t index) : batch_(batch), index_(index) {}
    Item operator*() const { return batch_[index_]; }
    Iterator& operator++() {
      ++index_;
      return *this;
    }
    bool operator!=(const Iterator& other) const noexcept { return index_ != other.index_; }

   private:
    const Batch& batch_;
    size_t index_;
  };

  explicit Batch(hami_call* call) : call_(call) {}
  size_t size() const noexcept { return detail::host().num_items(call_); }
  Item operator[](size_t index) const { return Item(detail::host().item_at(call_, index)); }
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, size()}; }
  int64_t num_rows() const {
    int64_t rows = 0;
    for (const Item item : *this) rows += item.rows();
    return rows;
  }
  // Sets `result` of each item, in order. Another number of values than items fails the batch.
  void set_results(std::span<const Value> values) {
    std::vector<hami_value> raw;
    for (const Value& value : values) raw.push_back(value.raw());
    detail::check(detail::host().set_results(call_, raw.data(), raw.size()));
  }

 private:
  hami_call* call_;
};

class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  // Prepares the instance from its declared parameters, which have been checked. What it throws is
  // the error of making the pipeline.
  virtual void init(const Params&) {}
  // Asked once, after `init`.
  virtual BatchRange batch_range() const { return {}; }
  // Sets `result` of every item, or fails it. What it throws fails the batch, which then runs again
  // in halves to find the item at fault, unless the class is not idempotent.
  virtual void forward(Batch& batch) = 0;

  // Which node and which of its instances this is; known before `init`.
  const std::string& node_name() const noexcept { return node_name_; }
  int instance_index() const noexcept { return instance_index_; }

  // For the table of the plugin.
  void set_place(std::string node_name, int instance_index) {
    node_name_ = std::move(node_name);
    instance_index_ = instance_index;
  }

 private:
  std::string node_name_;
  int instance_index_ = 0;
};

namespace detail {

// Runs `work(item)`, and keeps what it throws with the item.
template <class Work>
void run_item(Item& item, Work& work) {
  try {
    work(item);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const RequestError& error) {
    item.fail(error.what(), error.help());
  } catch (const std::exception& error) {
    item.fail_backend(error.what());
  }
}

}  // namespace detail

// Runs `work(item)` for every item; what it throws fails that item alone.
template <class Work>
void for_each_item(const Batch& batch, Work work) {
  for (Item item : batch) detail::run_item(item, work);
}

}  // namespace api
}  // namespace hami

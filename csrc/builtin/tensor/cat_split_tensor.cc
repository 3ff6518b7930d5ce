// `CatTensor` and `SplitTensor`: concatenation along axis 0 and its inverse. Every item of the
// batch gets the whole tensor; the rows of each are its `request_size`.
#include <cstring>

#include "core/device_arrays.h"
#include "core/error.h"
#include "core/tensor.h"
#include "core/typed_dict.h"
#include "plan/build.h"

namespace hami {
namespace {

void check_rows(const Tensor& tensor, const Item& item) {
  const int64_t rows = tensor.rank() == 0 ? 0 : tensor.shape()[0];
  if (rows == item.rows) return;
  throw Error(ErrorKind::kRequest, "request-rows",
              "the request has " + std::to_string(item.rows) + " rows (`request_size`), but " +
                  backticked(tensor.describe()) + " has " + std::to_string(rows) + " on axis 0",
              "set `request_size` to the extent of axis 0");
}

class CatTensor final : public Backend {
 public:
  explicit CatTensor(Build&) {}
  Traits traits() const override { return {.is_reentrant = true}; }

  int container_depth() const override { return 1; }
  Ends ends() const override { return {.passes_arrays = true}; }

  void forward(Batch batch) override {
    std::vector<Item*> items;
    for_each_item(batch, [&](Item& item) {
      check(item);
      items.push_back(&item);
    });
    if (items.empty()) return;
    const Value whole = concatenate(items);
    for (Item* item : items) item->set_result(whole);
  }

 private:
  static void check(const Item& item) {
    if (!item.data().is(Value::Kind::kTable)) {
      check_rows(TypedDict(item.dict, "CatTensor").get<Tensor>(keys::data), item);
      return;
    }
    for (const auto& [key, value, written_at] : item.data().as_table().dict) {
      if (value.is(Value::Kind::kTensor)) {
        check_rows(value.as_tensor(), item);
        continue;
      }
      throw Error(ErrorKind::kRequest, "request-type",
                  "`CatTensor` takes arrays, got " + backticked(value.type_name()) + " under " +
                      backticked(key.text()),
                  "put an array under every name");
    }
  }

  static Value concatenate(const std::vector<Item*>& items) {
    const Value& first = items[0]->data();
    std::vector<Ref<Tensor>> parts;
    if (!first.is(Value::Kind::kTable)) {
      for (const Item* item : items) {
        if (!item->data().is(Value::Kind::kTensor)) refuse_mixture();
        parts.emplace_back(&item->data().as_tensor());
      }
      return Value(joined(parts));
    }
    auto whole = make_ref<Table>();
    for (const auto& [key, value, written_at] : first.as_table().dict) {
      parts.clear();
      for (const Item* item : items) {
        const bool is_table = item->data().is(Value::Kind::kTable);
        const Value* part = is_table ? item->data().as_table().dict.find(key) : nullptr;
        if (part == nullptr ||
            item->data().as_table().dict.size() != first.as_table().dict.size()) {
          refuse_mixture();
        }
        parts.emplace_back(&part->as_tensor());
      }
      whole->dict.put(key, Value(joined(parts)));
    }
    return Value(std::move(whole));
  }

  [[noreturn]] static void refuse_mixture() {
    throw Error(ErrorKind::kRequest, "tensor-shape",
                "the requests of a batch do not bring arrays of the same names",
                "give each of them the same form of `data`");
  }

  static Ref<Tensor> joined(const std::vector<Ref<Tensor>>& parts) {
    const Tensor& first = *parts[0];
    if (parts.size() == 1) return first.contiguous();
    Shape shape = first.shape();
    shape[0] = 0;
    for (const Ref<Tensor>& part : parts) {
      check_pair(*part, first);
      shape[0] += part->shape()[0];
    }
    if (!first.device().is_cpu()) return device_arrays(first).concatenate(parts);
    auto whole = Tensor::allocate(first.dtype(), shape);
    char* destination = whole->data_as<char>();
    for (const Ref<Tensor>& part : parts) {
      part->copy_to(destination);
      destination += part->size_bytes();
    }
    return whole;
  }

  static void check_pair(const Tensor& part, const Tensor& first) {
    const bool is_same_place =
        part.device() == first.device() || (part.device().is_cpu() && first.device().is_cpu());
    if (!is_same_place) {
      throw Error(ErrorKind::kRequest, "tensor-device",
                  "cannot join an array on " + backticked(part.device().name()) + " to one on " +
                      backticked(first.device().name()),
                  "bring the arrays of a batch to one device");
    }
    if (part.dtype() == first.dtype() && same_row_shape(part, first)) return;
    throw Error(
        ErrorKind::kRequest, "tensor-shape",
        "cannot join " + backticked(part.describe()) + " to " + backticked(first.describe()),
        "bring the arrays of a batch to one shape and type");
  }

  static bool same_row_shape(const Tensor& a, const Tensor& b) {
    return a.rank() == b.rank() &&
           std::equal(a.shape().begin() + 1, a.shape().end(), b.shape().begin() + 1);
  }
};

class SplitTensor final : public Backend {
 public:
  explicit SplitTensor(Build&) {}
  Traits traits() const override { return {.is_reentrant = true}; }
  int container_depth() const override { return 1; }
  Ends ends() const override { return {.passes_arrays = true}; }

  void forward(Batch batch) override {
    const int64_t total = num_rows(batch);
    int64_t begin = 0;
    for (Item* item : batch) {
      item->set_result(split(item->data(), *item, begin, total));
      begin += item->rows;
    }
  }

 private:
  static Value split(const Value& whole, const Item& item, int64_t begin, int64_t total) {
    if (whole.is(Value::Kind::kTable)) {
      auto parts = make_ref<Table>();
      for (const auto& [key, value, written_at] : whole.as_table().dict) {
        parts->dict.put(key, split(value, item, begin, total));
      }
      return Value(std::move(parts));
    }
    if (!whole.is(Value::Kind::kTensor)) {
      throw Error(ErrorKind::kRequest, "request-type",
                  "`SplitTensor` takes an array, got " + backticked(whole.type_name()),
                  "put an array under `data`");
    }
    const Tensor& tensor = whole.as_tensor();
    if (tensor.rank() == 0 || tensor.shape()[0] != total) {
      throw Error(ErrorKind::kRequest, "tensor-shape",
                  "a batch of " + std::to_string(total) + " rows came back as " +
                      backticked(tensor.describe()),
                  "the backend between `CatTensor` and `SplitTensor` must keep axis 0");
    }
    return Value(item.has_batch_axis ? tensor.slice_rows(begin, item.rows) : tensor.row(begin));
  }
};

class ContiguousTensor final : public InlineBackend {
 public:
  explicit ContiguousTensor(Build&) {}
  Traits traits() const override { return {.is_reentrant = true}; }
  int container_depth() const override { return 1; }
  Ends ends() const override { return {.passes_arrays = true}; }

  void forward(Batch batch) override {
    for_each_item(batch, [](Item& item) {
      if (!item.data().is(Value::Kind::kTable)) {
        TypedDict(item.dict, "ContiguousTensor").get<Tensor>(keys::data);
        item.set_result(contiguous(item.data()));
        return;
      }
      auto parts = make_ref<Table>();
      for (const auto& [key, value, written_at] : item.data().as_table().dict) {
        parts->dict.put(key, value.is(Value::Kind::kTensor) ? contiguous(value) : value);
      }
      item.set_result(Value(std::move(parts)));
    });
  }

 private:
  static Value contiguous(const Value& value) {
    Tensor& tensor = value.as_tensor();
    return tensor.is_contiguous() ? value : Value(tensor.contiguous());
  }
};

HAMI_REGISTER(
    CatTensor, .family = "tensor",
    .doc = "Concatenates the rows of all items into one tensor, or each array of a dict.");
HAMI_REGISTER(SplitTensor, .family = "tensor",
              .doc = "Gives each item its rows of the batch tensor.");
HAMI_REGISTER(ContiguousTensor, .family = "tensor",
              .doc = "A row-major copy of the array, or arrays, where it is not one already.");

}  // namespace
}  // namespace hami

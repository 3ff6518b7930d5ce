#include "core/backend.h"

#include <algorithm>
#include <functional>
#include <map>

#include "core/error.h"
#include "core/tensor.h"

namespace hami {
namespace {

BaseEraser the_base_eraser = nullptr;

size_t mix(size_t seed, size_t value) { return seed * 0x9E3779B97F4A7C15ULL + value + 1; }

size_t group_of_value(const Value& value, const Item& item) {
  size_t group = static_cast<size_t>(value.kind());
  if (value.is(Value::Kind::kTable)) {
    for (const auto& [key, part, written_at] : value.as_table().dict) {
      group = mix(group, std::hash<std::string_view>{}(key.text()));
      group = mix(group, group_of_value(part, item));
    }
  }
  if (!value.is(Value::Kind::kTensor)) return group;
  const Tensor& tensor = value.as_tensor();
  group = mix(group, tensor.dtype().code * 256U + tensor.dtype().bits);
  // What lies on a device cannot be joined to what does not.
  const Device device = tensor.device();
  if (!device.is_cpu()) group = mix(group, static_cast<size_t>(device.type * 256 + device.id));
  const bool skips_rows = item.rows > 1 && tensor.rank() > 0 && tensor.shape()[0] == item.rows;
  for (size_t axis = 0; axis < tensor.rank(); ++axis) {
    const bool is_rows = skips_rows && axis == 0;
    // Rows of several-row items count as one, so that they batch with single rows of that rank.
    group = mix(group, static_cast<size_t>(is_rows ? 1 : tensor.shape()[axis]));
  }
  return group;
}

}  // namespace

void add_figures(Figures& all, const Figures& more) {
  for (const auto& [name, value] : more) all[name] += value;
}

BatchRange BatchRange::intersect(const BatchRange& other) const {
  return {std::max(min, other.min), std::min(max, other.max)};
}

Traits Traits::combine(const Traits& other) const {
  return {is_inline && other.is_inline, is_reentrant && other.is_reentrant,
          is_idempotent && other.is_idempotent, reads_everything || other.reads_everything,
          may_skip || other.may_skip};
}

size_t Backend::group_of(const Item& item) const {
  const Value* data = item.dict.find(keys::data);
  return data == nullptr ? 0 : group_of_value(*data, item);
}

void Backend::collect_reads(std::vector<Key>& reads) const { reads.push_back(keys::data); }

void Backend::inject(std::shared_ptr<Backend>) {
  throw Error(ErrorKind::kBuild, "build-inject", "this backend takes no dependency",
              "write the backend that wraps the other one first: `DI[wrapper, wrapped]`");
}

void Backend::forward_with(Batch batch, Backend& dependency) { dependency.forward(batch); }

BatchRange common_range(const Backends& backends) {
  BatchRange range;
  for (const auto& backend : backends) range = range.intersect(backend->batch_range());
  if (range.is_empty()) {
    throw Error(ErrorKind::kBuild, "build-batch-range",
                "no batch size fits all parts of this expression: at least " +
                    std::to_string(range.min) + " and at most " + std::to_string(range.max) +
                    " rows",
                "put the parts into nodes of their own");
  }
  return range;
}

Traits common_traits(const Backends& backends) {
  Traits traits{.is_inline = true, .is_reentrant = true};
  for (const auto& backend : backends) traits = traits.combine(backend->traits());
  return traits;
}

int largest_depth(const Backends& backends) {
  int depth = 0;
  for (const auto& backend : backends) depth = std::max(depth, backend->container_depth());
  return depth;
}

Ends ends_of_chain(const Backends& backends) {
  Ends ends{.passes_arrays = true};
  for (const auto& backend : backends) {
    const Ends own = backend->ends();
    if (own.passes_arrays) continue;
    if (ends.passes_arrays) ends.first = own.first;
    ends.last = own.last;
    ends.passes_arrays = false;
  }
  return ends;
}

void forward_by_group(Backend& backend, Batch batch) {
  if (batch.size() == 1) return backend.forward(batch);
  std::map<size_t, std::vector<Item*>> groups;
  for (Item* item : batch) groups[backend.group_of(*item)].push_back(item);
  for (const auto& [key, items] : groups) backend.forward(items);
}

const Value& Item::data() const {
  const Value* value = dict.find(keys::data);
  if (value == nullptr) {
    throw Error(ErrorKind::kRequest, "request-missing-key", "the request has no key `data`",
                "put the input under `data`");
  }
  return *value;
}

void Item::remove(const Key& key) {
  dict.erase(key);
  if (base && the_base_eraser != nullptr) base = the_base_eraser(base, key);
}

void set_base_eraser(BaseEraser eraser) { the_base_eraser = eraser; }

int64_t num_rows(Batch batch) noexcept {
  int64_t rows = 0;
  for (const Item* item : batch) rows += item->rows;
  return rows;
}

}  // namespace hami

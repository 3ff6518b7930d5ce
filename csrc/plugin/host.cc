#include "plugin/host.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/error.h"
#include "plugin/call.h"
#include "plugin/tensors.h"
#include "plugin/values.h"

namespace hami::plugin {
namespace {

// The words of the last failure on this thread. Plain memory: telling why must not fail, and a
// destructor at the end of every thread would need more of the C library than old systems have.
struct Why {
  char text[500];
  size_t size;
};
thread_local Why why;

hami_status fail(hami_status status, const char* text) noexcept {
  why.size = std::min(std::strlen(text), sizeof(why.text));
  std::memcpy(why.text, text, why.size);
  return status;
}

// Runs `work`; nothing that it throws crosses the border.
template <class Work>
hami_status guarded(Work work) noexcept {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return fail(HAMI_NO_MEMORY, "out of memory");
  } catch (const std::invalid_argument& error) {
    return fail(HAMI_BAD_VALUE, error.what());
  } catch (const std::exception& error) {
    return fail(HAMI_FAILED, error.what());
  }
}

const Dict& dict_of(const hami_dict* dict) noexcept { return *reinterpret_cast<const Dict*>(dict); }
Dict& dict_of(hami_dict* dict) noexcept { return *reinterpret_cast<Dict*>(dict); }
Item& item_of(hami_item* item) noexcept { return *reinterpret_cast<Item*>(item); }

// An object as what a plugin takes it for.
template <class T>
const T& typed(const hami_object* object, const char* name) {
  const auto* found = dynamic_cast<const T*>(object_of(object));
  if (found == nullptr) throw std::invalid_argument(std::string("this is no ") + name);
  return *found;
}

hami_text last_error() { return {why.text, why.size}; }

void retain(const hami_object* object) {
  if (object != nullptr) object_of(object)->retain();
}

void release(const hami_object* object) {
  if (object != nullptr) object_of(object)->release();
}

// --- dicts ---------------------------------------------------------------------------------------

hami_status dict_get(const hami_dict* dict, hami_text key, hami_value* out) {
  const Dict::Entry* entry = find_entry(dict_of(dict), view(key));
  if (entry == nullptr) return fail(HAMI_NOT_FOUND, "there is no such key");
  *out = lend(entry->value);
  return HAMI_OK;
}

uint64_t dict_size(const hami_dict* dict) { return dict_of(dict).size(); }

hami_status dict_at(const hami_dict* dict, uint64_t index, hami_text* key, hami_value* value) {
  if (index >= dict_of(dict).size()) return fail(HAMI_NOT_FOUND, "there is no such entry");
  const Dict::Entry& entry = *(dict_of(dict).begin() + static_cast<ptrdiff_t>(index));
  *key = lend(entry.key.text());
  *value = lend(entry.value);
  return HAMI_OK;
}

hami_status dict_set(hami_dict* dict, hami_text key, const hami_value* value) {
  return guarded([&] {
    set_entry(dict_of(dict), view(key), take(*value));
    return HAMI_OK;
  });
}

// --- new values
// ------------------------------------------------------------------------------------

hami_status text_new(int32_t kind, hami_text text, hami_value* out) {
  return guarded([&] {
    if (kind != HAMI_STR && kind != HAMI_BYTES)
      throw std::invalid_argument("this is no kind of text");
    hami_value value{};
    value.kind = kind;
    value.text = text;
    *out = give(take(value));
    return HAMI_OK;
  });
}

hami_status list_new(const hami_value* values, uint64_t num_values, hami_value* out) {
  return guarded([&] {
    auto list = make_ref<List>();
    for (uint64_t i = 0; i < num_values; ++i) list->values.push_back(take(values[i]));
    *out = give(Value(std::move(list)));
    return HAMI_OK;
  });
}

hami_status table_new(hami_value* out, hami_dict** out_dict) {
  return guarded([&] {
    auto table = make_ref<Table>();
    *out_dict = reinterpret_cast<hami_dict*>(&table->dict);
    *out = give(Value(std::move(table)));
    return HAMI_OK;
  });
}

hami_status tensor_new(const hami_tensor* like, hami_value* out) {
  return guarded([&] {
    *out = give(Value(new_tensor(*like)));
    return HAMI_OK;
  });
}

hami_status tensor_import(hami_managed_tensor* tensor, hami_value* out) {
  return guarded([&] {
    *out = give(Value(import_tensor(tensor)));
    return HAMI_OK;
  });
}

// --- looking into values
// ---------------------------------------------------------------------------

uint64_t list_size(const hami_object* list) {
  const auto* found = dynamic_cast<const List*>(object_of(list));
  return found == nullptr ? 0 : found->values.size();
}

hami_status list_at(const hami_object* list, uint64_t index, hami_value* out) {
  return guarded([&] {
    const auto& values = typed<List>(list, "list").values;
    if (index >= values.size()) return fail(HAMI_NOT_FOUND, "there is no such element");
    *out = lend(values[index]);
    return hami_status{HAMI_OK};
  });
}

const hami_dict* table_dict(const hami_object* table) {
  const auto* found = dynamic_cast<const Table*>(object_of(table));
  return found == nullptr ? nullptr : reinterpret_cast<const hami_dict*>(&found->dict);
}

hami_status type_name(const hami_value* value, hami_value* out_text) {
  return guarded([&] {
    *out_text = give(Value::str(take(*value).type_name()));
    return HAMI_OK;
  });
}

hami_status tensor_view(const hami_object* tensor, hami_tensor* out) {
  return guarded([&] {
    *out = view(typed<Tensor>(tensor, "tensor"));
    return HAMI_OK;
  });
}

int32_t tensor_is_read_only(const hami_object* tensor) {
  const auto* found = dynamic_cast<const Tensor*>(object_of(tensor));
  return found != nullptr && found->is_read_only() ? 1 : 0;
}

hami_status tensor_export(const hami_object* tensor, hami_managed_tensor** out) {
  return guarded([&] {
    *out = export_tensor(Ref<Tensor>(const_cast<Tensor*>(&typed<Tensor>(tensor, "tensor"))));
    return HAMI_OK;
  });
}

// --- a run
// -----------------------------------------------------------------------------------------

uint64_t num_items(const hami_call* call) { return Call::of(call).items.size(); }

hami_item* item_at(hami_call* call, uint64_t index) {
  const Batch items = Call::of(call).items;
  return index < items.size() ? reinterpret_cast<hami_item*>(items[index]) : nullptr;
}

hami_dict* item_dict(hami_item* item) { return reinterpret_cast<hami_dict*>(&item_of(item).dict); }

int64_t item_rows(const hami_item* item) { return reinterpret_cast<const Item*>(item)->rows; }

void item_erase(hami_item* item, hami_text key) {
  guarded([&] {
    item_of(item).remove(Key(view(key)));
    return HAMI_OK;
  });
}

void item_fail(hami_item* item, int32_t is_request, hami_text message, hami_text help) {
  guarded([&] {
    item_of(item).error =
        error_of_run(is_request != 0, std::string(view(message)), std::string(view(help)));
    return HAMI_OK;
  });
}

hami_status set_results(hami_call* call, const hami_value* values, uint64_t num_values) {
  return guarded([&] {
    Call& run = Call::of(call);
    run.num_results = num_values;
    if (num_values != run.items.size()) {
      return fail(HAMI_BAD_VALUE, "another number of results than items");
    }
    for (uint64_t i = 0; i < num_values; ++i) run.items[i]->set_result(take(values[i]));
    return hami_status{HAMI_OK};
  });
}

void explain(hami_call* call, int32_t is_request, hami_text message, hami_text help) {
  guarded([&] {
    Call& current = Call::of(call);
    current.is_request = is_request != 0;
    current.message = view(message);
    current.help = view(help);
    return HAMI_OK;
  });
}

hami_text node_name(const hami_call* call) { return lend(std::string_view(Call::of(call).node)); }

int32_t instance_index(const hami_call* call) { return Call::of(call).instance; }

}  // namespace

std::exception_ptr error_of_run(bool is_request, std::string message, std::string help) {
  if (message.empty()) message = "the backend failed and did not say why";
  if (!is_request) return std::make_exception_ptr(std::runtime_error(message));
  return std::make_exception_ptr(
      Error(ErrorKind::kRequest, "plugin-request", std::move(message), std::move(help)));
}

const hami_host& host() {
  static const hami_host table{
      .size = sizeof(hami_host),
      .abi_major = HAMI_ABI_MAJOR,
      .abi_minor = HAMI_ABI_MINOR,
      .last_error = &last_error,
      .retain = &retain,
      .release = &release,
      .dict_get = &dict_get,
      .dict_size = &dict_size,
      .dict_at = &dict_at,
      .dict_set = &dict_set,
      .text_new = &text_new,
      .list_new = &list_new,
      .table_new = &table_new,
      .tensor_new = &tensor_new,
      .tensor_import = &tensor_import,
      .list_size = &list_size,
      .list_at = &list_at,
      .table_dict = &table_dict,
      .type_name = &type_name,
      .tensor_view = &tensor_view,
      .tensor_is_read_only = &tensor_is_read_only,
      .tensor_export = &tensor_export,
      .num_items = &num_items,
      .item_at = &item_at,
      .item_dict = &item_dict,
      .item_rows = &item_rows,
      .item_erase = &item_erase,
      .item_fail = &item_fail,
      .set_results = &set_results,
      .explain = &explain,
      .node_name = &node_name,
      .instance_index = &instance_index,
  };
  return table;
}

}  // namespace hami::plugin

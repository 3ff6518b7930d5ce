#include "plugin/values.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "core/tensor.h"

namespace hami::plugin {
namespace {

int32_t kind_of(const Value& value) noexcept {
  switch (value.kind()) {
    case Value::Kind::kNone:
      return HAMI_NONE;
    case Value::Kind::kBool:
      return HAMI_BOOL;
    case Value::Kind::kInt:
      return HAMI_INT;
    case Value::Kind::kFloat:
      return HAMI_FLOAT;
    case Value::Kind::kStr:
      return HAMI_STR;
    case Value::Kind::kBytes:
      return HAMI_BYTES;
    case Value::Kind::kTensor:
      return HAMI_TENSOR;
    case Value::Kind::kList:
      return HAMI_LIST;
    case Value::Kind::kTable:
      return HAMI_TABLE;
    case Value::Kind::kAny:
      break;
  }
  return HAMI_OPAQUE;
}

// The object behind a value as what its kind says.
template <class T>
Ref<T> shared_as(const hami_value& value) {
  auto* const object = const_cast<Object*>(object_of(value.object));
  auto* const typed = object == nullptr ? nullptr : dynamic_cast<T*>(object);
  if (typed == nullptr) {
    throw std::invalid_argument("a value of kind " + std::to_string(value.kind) +
                                " has no object of that kind");
  }
  return Ref<T>(typed);
}

Ref<Text> text_of(const hami_value& value) {
  if (value.object != nullptr) return shared_as<Text>(value);
  return make_ref<Text>(std::string(view(value.text)));
}

}  // namespace

hami_value lend(const Value& value) noexcept {
  hami_value lent{};
  lent.kind = kind_of(value);
  lent.object = reinterpret_cast<const hami_object*>(value.object().get());
  if (value.is(Value::Kind::kBool)) lent.integer = value.as_bool() ? 1 : 0;
  if (value.is(Value::Kind::kInt)) lent.integer = value.as_int();
  if (value.is(Value::Kind::kFloat)) lent.real = value.as_float();
  if (value.is(Value::Kind::kStr) || value.is(Value::Kind::kBytes)) {
    lent.text = lend(value.as_text());
  }
  return lent;
}

hami_value give(const Value& value) noexcept {
  if (value.object()) value.object()->retain();
  return lend(value);
}

Value take(const hami_value& value) {
  switch (value.kind) {
    case HAMI_NONE:
      return Value();
    case HAMI_BOOL:
      return Value(value.integer != 0);
    case HAMI_INT:
      return Value(value.integer);
    case HAMI_FLOAT:
      return Value(value.real);
    case HAMI_STR:
      return Value::str(text_of(value));
    case HAMI_BYTES:
      return Value::bytes(text_of(value));
    case HAMI_TENSOR:
      return Value(shared_as<Tensor>(value));
    case HAMI_LIST:
      return Value(shared_as<List>(value));
    case HAMI_TABLE:
      return Value(shared_as<Table>(value));
    case HAMI_OPAQUE:
      return Value(shared_as<Any>(value));
    default:
      throw std::invalid_argument("there is no kind of value with the number " +
                                  std::to_string(value.kind));
  }
}

const Dict::Entry* find_entry(const Dict& dict, std::string_view key) noexcept {
  auto found =
      std::ranges::find_if(dict, [&](const auto& entry) { return entry.key.text() == key; });
  return found == dict.end() ? nullptr : &*found;
}

void set_entry(Dict& dict, std::string_view key, Value value) {
  if (const Dict::Entry* entry = find_entry(dict, key)) {
    const Key known = entry->key;
    return dict.set(known, std::move(value));
  }
  dict.set(key == keys::result.text() ? keys::result : Key(key), std::move(value));
}

}  // namespace hami::plugin

// Values of the core as the plain structs of abi.h, and back. What a plugin hands over is checked
// here: a kind and an object that do not agree are refused, never followed.
#pragma once

#include <hami/abi.h>

#include <string_view>

#include "core/dict.h"
#include "core/value.h"

namespace hami::plugin {

// Borrowed: valid as long as `value` and what it refers to.
hami_value lend(const Value& value) noexcept;

// The same with a reference of its own to the object behind it.
hami_value give(const Value& value) noexcept;

// Shares the object where there is one, and copies text without. Throws std::invalid_argument for
// what is no value.
Value take(const hami_value& value);

inline std::string_view view(hami_text text) noexcept {
  return text.data == nullptr ? std::string_view() : std::string_view(text.data, text.size);
}
inline hami_text lend(std::string_view text) noexcept { return {text.data(), text.size()}; }

inline const Object* object_of(const hami_object* object) noexcept {
  return reinterpret_cast<const Object*>(object);
}

// The entry of that name, or null.
const Dict::Entry* find_entry(const Dict& dict, std::string_view key) noexcept;
// Sets it as a node does.
void set_entry(Dict& dict, std::string_view key, Value value);

}  // namespace hami::plugin

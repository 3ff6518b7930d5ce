// An item as the dict that user code sees. Everything here needs the GIL.
#pragma once

#include <Python.h>

#include "bind/owned.h"
#include "core/item.h"

namespace hami::bind {

// The copy of the caller's dict that the item carries, borrowed; null when there is none.
PyObject* base_of(const Item& item);

// A new dict: `base`, if there is one, overridden by `values`.
Owned to_dict(const Dict& values, PyObject* base);

// The base without `key`, for `Item::remove`. Takes the GIL itself.
Ref<Object> erase_from_base(const Ref<Object>& base, const Key& key);

}  // namespace hami::bind

#include "bind/item_dict.h"

#include "bind/convert.h"
#include "bind/gil.h"

namespace hami::bind {

PyObject* base_of(const Item& item) {
  return item.base ? static_cast<PyHandle*>(item.base.get())->get() : nullptr;
}

Owned to_dict(const Dict& values, PyObject* base) {
  Owned dict = checked(base == nullptr ? PyDict_New() : PyDict_Copy(base));
  for (const auto& [key, value, written_at] : values) {
    const Owned name = checked(key_object(key));
    const Owned object = checked(from_value(value));
    check(PyDict_SetItem(dict.get(), name.get(), object.get()));
  }
  return dict;
}

Ref<Object> erase_from_base(const Ref<Object>& base, const Key& key) {
  const GilAcquire gil;
  PyObject* const dict = static_cast<PyHandle*>(base.get())->get();
  const Owned name = checked(key_object(key));
  if (PyDict_Contains(dict, name.get()) != 1) return base;
  const Owned smaller = checked(PyDict_Copy(dict));
  check(PyDict_DelItem(smaller.get(), name.get()));
  return hold(smaller.get());
}

}  // namespace hami::bind

// `hami._core.KVStorage`: the storage of a pipeline as Python backends use it.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "bind/owned.h"
#include "core/kv_storage.h"

namespace hami::bind {

void define_kv_storage(pybind11::module_& module);

// The Python object of a storage, the same one as long as somebody holds it. REQUIRES: the GIL.
Owned kv_storage_object(const std::shared_ptr<KVStorage>& storage);

}  // namespace hami::bind

// What a plugin declares, checked and in the form of the core's registry.
#pragma once

#include <hami/abi.h>

#include <string>
#include <vector>

#include "core/registry.h"

namespace hami::plugin {

// The classes of a plugin of a version that this host reads. `path` is its file, for errors. Throws
// a config error where a declaration makes no sense.
std::vector<BackendClass> classes_of(const hami_plugin& plugin, const std::string& path);

}  // namespace hami::plugin

// The table of functions that the core offers to plugins.
#pragma once

#include <hami/abi.h>

namespace hami::plugin {

// Lives as long as the process.
const hami_host& host();

}  // namespace hami::plugin

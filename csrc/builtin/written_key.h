// The key that a backend writes besides its result.
#pragma once

#include "plan/build.h"

namespace hami {

// The key in the parameter `key`. Throws a build error for `result` and `error`, which tell the
// runtime how the item fared. REQUIRES: the parameter is set.
Key written_key(Build& build);

}  // namespace hami

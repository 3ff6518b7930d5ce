// Copies of one expression inside one backend, to be run side by side.
#pragma once

#include "plan/build.h"

namespace hami {

// Builds the only child `num_copies` times, each in surroundings of its own. Throws a build error
// when the copies would share a backend that several threads must not call at once.
Backends build_copies(Build& build, size_t num_copies);

}  // namespace hami

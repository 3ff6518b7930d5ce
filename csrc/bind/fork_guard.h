// `ForkGuard`: remembers in which process something was made. Threads do not survive a fork, so a
// pipeline, and all that belongs to it, works only there.
#pragma once

#include "core/error.h"

namespace hami::bind {

class ForkGuard {
 public:
  ForkGuard() noexcept;
  // Whether this process was forked off after the guard was made.
  bool is_in_child() const noexcept;
  static Error error();
  // Counts forks from now on. Called once, when the module loads.
  static void watch();

 private:
  int made_in_;
};

}  // namespace hami::bind

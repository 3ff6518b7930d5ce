// `CallerTurn`: fair shares of the GIL among callers whose requests run in place. Giving the GIL
// away on every call would cost more than the call; never giving it away would let one caller
// starve the others for as long as the interpreter's switch interval times their number. So a
// caller keeps the GIL for a turn, and then lets the one go on that has waited longest.
#pragma once

namespace hami::bind {

class CallerTurn {
 public:
  // A call of this thread has ended that never gave the GIL away. Waits for the others when this
  // thread's turn is over. REQUIRES: the GIL.
  static void end_call();
};

}  // namespace hami::bind

#include "load/load_time.h"

#include <sys/prctl.h>

namespace hami {

MachineTime& MachineTime::instance() {
  static MachineTime time;
  return time;
}

bool MachineTime::wait(Event& event, TimePoint time) noexcept {
  // The kernel wakes a thread up to 50 us late to save power, which here would be measured.
  thread_local const int is_punctual = prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0);
  static_cast<void>(is_punctual);
  std::optional<TimePoint> deadline;
  if (time != TimePoint::max()) deadline = time;
  Event::Wake wake = event.wait(deadline);
  while (wake == Event::Wake::kInterrupted) wake = event.wait(deadline);
  return wake == Event::Wake::kSet;
}

}  // namespace hami

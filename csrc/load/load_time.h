// `LoadTime`: the clock of the loops, which tests replace. Any thread.
#pragma once

#include "core/event.h"

namespace hami {

class LoadTime {
 public:
  virtual ~LoadTime() = default;
  virtual TimePoint now() noexcept = 0;
  // Sleeps until the event is set, or until `time`. Returns whether it is set.
  virtual bool wait(Event& event, TimePoint time) noexcept = 0;
};

// The time of the machine.
class MachineTime final : public LoadTime {
 public:
  static MachineTime& instance();
  TimePoint now() noexcept override { return Clock::now(); }
  bool wait(Event& event, TimePoint time) noexcept override;
};

}  // namespace hami

#include "core/run_watches.h"

#include <algorithm>

namespace hami {

bool WatchedRun::is_abandoned() const noexcept {
  return std::ranges::all_of(batch, [](const Item* item) { return item->is_abandoned(); });
}

void RunWatches::add(WatchedRun& run) {
  {
    const std::lock_guard lock(mutex_);
    runs_.push_back(&run);
  }
  // Either `look` finds this run, or it has left the lock and its answer is seen here.
  if (run.is_abandoned()) run.wake.set();
}

void RunWatches::remove(WatchedRun& run) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase(runs_, &run);
}

void RunWatches::look() noexcept {
  const std::lock_guard lock(mutex_);
  for (WatchedRun* run : runs_) {
    if (run->is_abandoned()) run->wake.set();
  }
}

}  // namespace hami

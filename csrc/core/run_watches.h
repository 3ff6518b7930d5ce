// `RunWatches`: runs that want to know when nobody waits for their items any more, such as a
// coroutine that can be cancelled. Any thread; the lock is held for a look at a few flags only.
#pragma once

#include <mutex>
#include <vector>

#include "core/event.h"
#include "core/item.h"

namespace hami {

// A run under way. It lives on the stack of the thread that runs the batch.
struct WatchedRun {
  Batch batch;
  Event wake;  // set when every item is abandoned; its owner may set it for reasons of its own

  bool is_abandoned() const noexcept;
};

class RunWatches {
 public:
  // From now until `remove` the run is woken when it is abandoned, at once if it is already.
  void add(WatchedRun& run);
  void remove(WatchedRun& run) noexcept;
  // Some request got its answer early.
  void look() noexcept;

 private:
  std::mutex mutex_;
  std::vector<WatchedRun*> runs_;
};

}  // namespace hami

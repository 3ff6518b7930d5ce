// `BackgroundThread`: one instance of a node, that is a live backend with a thread of its own. The
// dispatcher of the node decides what it runs; called directly it runs on the caller's thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/spin.h"
#include "plan/build.h"
#include "schedule/batch_policy.h"
#include "schedule/task.h"

namespace hami {

class BackgroundThread final : public Backend {
 public:
  explicit BackgroundThread(Build& build);

  void forward(Batch batch) override { backend_->forward(batch); }
  BatchRange batch_range() const override { return range_; }
  Traits traits() const override { return backend_->traits(); }
  std::string problem() const override { return backend_->problem(); }
  Figures own_figures() const override { return backend_->own_figures(); }
  int index() const noexcept { return site_->instance; }
  size_t group_of(const Item& item) const override { return backend_->group_of(item); }
  void collect_reads(std::vector<Key>& reads) const override { backend_->collect_reads(reads); }
  int container_depth() const override { return backend_->container_depth(); }
  Ends ends() const override { return backend_->ends(); }

  // The instances registered for the node that is being built. Throws a build error when there are
  // none, or when they have no threads.
  static std::vector<std::shared_ptr<BackgroundThread>> find_all(Build& build);

  // Starts the thread. `work` sets `has_ended` under the dispatcher's lock when it returns.
  void launch(std::function<void()> work);

  // Runs a batch and names this instance in what fails. Returns the number of failed tasks.
  int64_t run(std::span<Task* const> tasks);

  // The rest belongs to the dispatcher, guarded by its lock.
  bool is_busy = false;
  bool is_hung = false;  // the present run takes longer than it should
  TimePoint run_start{};
  std::vector<Task*> assigned;         // to run next
  Release release = Release::kFull;    // why these run now
  std::vector<Task*> running;          // inside the backend now
  std::vector<Task*> answered;         // it has run; its own thread's, without the lock
  TimePoint alarm = TimePoint::max();  // when to look at the queue again
  Event wake;                          // reset by the thread before it looks at the rest
  // While it has nothing to do; long enough for the callers of a batch to come back with their
  // next.
  Spin spin{6 * Spin::kWakeCost};
  std::thread thread;
  bool has_ended = true;

 private:
  std::shared_ptr<Backend> backend_;
  BatchRange range_;
  bool isolates_errors_;
  const FailureSite::Shared site_;
};

}  // namespace hami

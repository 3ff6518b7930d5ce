// `InstanceDispatcher`: the scheduler of one node. Callers and predecessors put tasks into its
// queue, instances take batches out of it; whoever changes the state applies the batching
// decision, so there is no thread besides the instances'. One lock guards queue and instances;
// it is never held while a backend runs or a task finishes.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "plan/build.h"
#include "schedule/background_thread.h"
#include "schedule/batch_policy.h"
#include "schedule/operator.h"

namespace hami {

class InstanceDispatcher final : public Operator,
                                 public std::enable_shared_from_this<InstanceDispatcher> {
 public:
  explicit InstanceDispatcher(Build& build);
  ~InstanceDispatcher() override;

  // Starts one thread for each instance. REQUIRES: held by a shared_ptr.
  void launch();
  // From now on tasks wait up to `timeout` for company. Set while building, by `Batching`.
  void set_batching(Duration timeout) { timeout_ = timeout; }

  void start(std::span<Task* const> tasks) override;
  bool start_bounded(std::span<Task* const> tasks) override;
  bool reserve(size_t num_tasks) override;
  void cancel_reservation(size_t num_tasks) override;
  void start_reserved(std::span<Task* const> tasks) override;
  bool has_room() const noexcept override { return !is_full_.load(std::memory_order_acquire); }
  void add_upstream(Operator* upstream) override { upstreams_.push_back(upstream); }
  void add_downstream(Operator* downstream) override { downstreams_.push_back(downstream); }
  void reconsider() noexcept override;
  void close() noexcept override;
  bool join(TimePoint deadline) noexcept override;
  void add_stats(std::vector<NodeStats>& all) const override;

  BatchRange batch_range() const override;
  BatchRange run_range() const override;
  Traits traits() const override { return traits_; }
  void collect_reads(std::vector<Key>& reads) const override;
  int container_depth() const override { return instances_[0]->container_depth(); }

 private:
  using Lock = std::unique_lock<std::mutex>;
  // What a change of state sets in motion once the lock is released.
  struct Aftermath {
    std::vector<Task*> ended;              // to be finished: dropped or refused
    std::vector<BackgroundThread*> woken;  // to look at their assignment or alarm
    bool has_room_again = false;
  };

  enum class Admission { kFree, kBounded, kReserved };
  bool admit(std::span<Task* const> tasks, Admission admission);
  bool has_places(size_t num_tasks, Aftermath& aftermath);
  bool can_run_in_place(const Task& task) const noexcept;
  bool run_in_place(Task& task);
  void enqueue(Task& task, TimePoint now, Aftermath& aftermath);
  // Applies the decision until nothing can start. `self`, if free, takes work without a wake-up.
  void dispatch(Aftermath& aftermath, BackgroundThread* self);
  Decision decide_now(std::vector<BackgroundThread*>& free, const BackgroundThread* self) const;
  bool has_room_downstream() const noexcept;
  std::vector<Task*> take(const Decision& decision, Aftermath& aftermath);
  // Takes out what was answered while it waited.
  void drop_abandoned(Aftermath& aftermath);
  void note_room(Aftermath& aftermath);
  void set_alarm(TimePoint until, std::span<BackgroundThread* const> free,
                 const BackgroundThread* self, Aftermath& aftermath);
  void set_waiting(bool is_waiting);
  // Ends a critical section: releases the lock, then does what may call others.
  void settle(Aftermath& aftermath, Lock& lock) noexcept;
  void work(BackgroundThread& instance) noexcept;
  void run_assigned(BackgroundThread& instance, Lock& lock);

  const std::string node_name_;
  const std::shared_ptr<PipelineLoad> load_;
  std::vector<std::shared_ptr<BackgroundThread>> instances_;
  std::vector<BatchRange> ranges_;
  int64_t largest_max_ = 1;
  Traits traits_;
  size_t capacity_;
  Duration timeout_{};
  std::vector<Operator*> upstreams_;
  std::vector<Operator*> downstreams_;
  std::atomic<bool> is_full_{false};

  mutable std::mutex mutex_;
  BatchQueue queue_;
  size_t num_reserved_ = 0;  // places promised to tasks that are about to come
  int64_t num_answers_seen_ = 0;
  GraceEstimator grace_;
  TimePoint last_arrival_{};
  TimePoint last_change_{};
  bool is_closed_ = false;
  bool is_waiting_ = false;  // an alarm is set: a change elsewhere may end the wait
  std::condition_variable ended_;

  NodeStats stats_;  // under the lock as well
  // Runs in place take no lock, so they are counted apart.
  std::atomic<int64_t> num_in_place_{0};
  std::atomic<int64_t> num_in_place_errors_{0};
};

}  // namespace hami

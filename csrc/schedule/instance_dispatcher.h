// `InstanceDispatcher`: the scheduler of one node. Callers and predecessors put tasks into its
// queue, instances take batches out of it; whoever changes the state applies the batching
// decision, so there is no thread besides the instances'. One lock guards queue and instances;
// it is never held while a backend runs or a task finishes.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "plan/build.h"
#include "schedule/background_thread.h"
#include "schedule/batch_policy.h"
#include "schedule/operator.h"
#include "schedule/order.h"
#include "schedule/return_estimator.h"

namespace hami {

class InstanceDispatcher final : public Operator,
                                 public std::enable_shared_from_this<InstanceDispatcher> {
 public:
  explicit InstanceDispatcher(Build& build);
  ~InstanceDispatcher() override;

  // Starts one thread for each instance. REQUIRES: held by a shared_ptr.
  void launch();
  // From now on tasks wait up to `timeout` for company, as `policy` decides. Set while building, by
  // `Batching`.
  void set_batching(Duration timeout, std::unique_ptr<BatchPolicy> policy);
  const std::vector<BatchRange>& instance_ranges() const noexcept { return ranges_; }

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
  void add_problems(std::vector<std::string>& problems) const override;

  BatchRange batch_range() const override;
  BatchRange run_range() const override;
  Traits traits() const override { return traits_; }
  void collect_reads(std::vector<Key>& reads) const override;
  int container_depth() const override { return instances_[0]->container_depth(); }
  Ends ends() const override { return instances_[0]->ends(); }

 private:
  using Lock = std::unique_lock<std::mutex>;
  // What a change of state sets in motion once the lock is released.
  struct Aftermath {
    std::vector<Task*> ended;           // to be finished: dropped or refused
    BackgroundThread* woken = nullptr;  // to look at its assignment or alarm
    std::vector<BackgroundThread*> also_woken;
    bool has_room_again = false;

    // Mostly it is one, and one needs no memory.
    void wake(BackgroundThread* instance) {
      if (woken == nullptr) {
        woken = instance;
      } else {
        also_woken.push_back(instance);
      }
    }
  };

  // The instances that could start a batch now; kept, so that finding them allocates nothing.
  struct Free {
    std::vector<BackgroundThread*> threads;
    std::vector<BatchRange> ranges;
    std::vector<size_t> indexes;
  };
  class RunWatch;

  enum class Admission { kFree, kBounded, kReserved };
  bool admit(std::span<Task* const> tasks, Admission admission);
  bool has_places(size_t num_tasks, Aftermath& aftermath);
  bool can_run_in_place(const Task& task) const noexcept;
  bool run_in_place(Task& task);
  // Says in which order and with whom a task runs. What goes wrong is the error of the task.
  void classify(Task& task, TimePoint now) const noexcept;
  // A call that comes from inside a run is not kept waiting by that run.
  bool runs_anywhere() const noexcept { return traits_.is_inline && traits_.is_reentrant; }
  void enqueue(Task& task, Aftermath& aftermath);
  // Applies the decision until nothing can start. `self`, if free, takes work without a wake-up.
  void dispatch(Aftermath& aftermath, BackgroundThread* self);
  void find_free(const BackgroundThread* self);
  Decision decide_now(TimePoint now);
  bool has_room_downstream() const noexcept;
  void take(const Decision& decision, std::vector<Task*>& tasks, Aftermath& aftermath);
  void refuse(const Decision& decision, Aftermath& aftermath);
  // A task that left the queue ends without a run.
  void leave(Task& task, Aftermath& aftermath);
  // Takes out what was answered while it waited.
  void drop_abandoned(Aftermath& aftermath);
  void note_room(Aftermath& aftermath);
  void count_run(int64_t rows);
  void set_alarm(TimePoint until, std::span<BackgroundThread* const> free,
                 const BackgroundThread* self, Aftermath& aftermath);
  void set_waiting(bool is_waiting);
  // Ends a critical section: releases the lock, then does what may call others.
  void settle(Aftermath& aftermath, Lock& lock) noexcept;
  void work(BackgroundThread& instance) noexcept;
  void run_assigned(BackgroundThread& instance, Lock& lock);
  // Fails what an instance runs, if it is still the run that began at `start`. Where partial
  // results show that it goes on, returns when to look again, else `max`.
  TimePoint give_up(BackgroundThread& instance, TimePoint start) noexcept;
  // Runs on the caller's thread.
  void run_in_place_timed(BackgroundThread& instance, std::span<Task* const> tasks);
  // In the trace: what waits, under the lock; and a run, with a number of its own, from its start
  // to the end of its answers.
  void trace_queue() noexcept;
  uint64_t trace_start(std::span<Task* const> tasks, int instance, uint8_t release,
                       TimePoint start) noexcept;
  void trace_run(uint64_t batch, int instance, int64_t rows, uint8_t release, TimePoint start,
                 TimePoint end) noexcept;
  void trace_answers(uint64_t batch, TimePoint begin, TimePoint end) noexcept;
  int64_t run_in_place_traced(BackgroundThread& instance, std::span<Task* const> tasks);
  std::string site_of(const BackgroundThread& instance) const;

  const std::string node_name_;
  const std::shared_ptr<PipelineLoad> load_;
  std::vector<std::shared_ptr<BackgroundThread>> instances_;
  std::vector<BatchRange> ranges_;
  int64_t largest_max_ = 1;
  Traits traits_;
  const size_t capacity_;
  const std::unique_ptr<Order> order_;
  const int32_t trace_node_;
  const Duration hung_after_;  // zero: never
  Duration timeout_{};
  std::vector<Operator*> upstreams_;
  std::vector<Operator*> downstreams_;
  std::atomic<bool> is_full_{false};

  mutable std::mutex mutex_;
  std::unique_ptr<BatchPolicy> policy_ = std::make_unique<BatchPolicy>();
  BatchQueue queue_;
  size_t num_traced_ = 0;    // the length of the queue that the trace told last
  size_t num_reserved_ = 0;  // places promised to tasks that are about to come
  int64_t num_answers_seen_ = 0;
  ReturnEstimator returns_;
  TimePoint last_arrival_{};
  TimePoint last_end_{};     // of a batch, when its callers have their answers
  TimePoint last_change_{};  // the later of the two
  Free free_;
  bool is_closed_ = false;
  bool is_waiting_ = false;  // an alarm is set: a change elsewhere may end the wait
  std::condition_variable ended_;

  NodeStats stats_;  // under the lock as well
  std::array<int64_t, kNumReleases> num_releases_{};
  std::vector<int64_t> num_runs_;  // by their rows; those of many rows are in `stats_`
  LatencyHistogram wait_;
  LatencyHistogram run_;
  // Runs in place take no lock, so they are counted apart.
  std::atomic<int64_t> num_in_place_{0};
  std::atomic<int64_t> num_in_place_errors_{0};
};

}  // namespace hami

// The second half of the dispatcher: its instances' threads, from their first batch to the end.
#include <algorithm>
#include <utility>

#include "core/answer_round.h"
#include "core/error.h"
#include "schedule/instance_dispatcher.h"
#include "schedule/occupied.h"
#include "schedule/refusal.h"

namespace hami {

// --- the instances' threads ---

// Looks at a run that should be over by now.
class InstanceDispatcher::RunWatch final : public Timed {
 public:
  RunWatch(std::shared_ptr<InstanceDispatcher> owner, BackgroundThread& instance, TimePoint start)
      : owner_(std::move(owner)), instance_(instance), start_(start) {}
  void on_time() noexcept override {
    const TimePoint next = owner_->give_up(instance_, start_);
    if (next != TimePoint::max()) owner_->load_->timer.add(Ref<RunWatch>(this), next);
  }

 private:
  const std::shared_ptr<InstanceDispatcher> owner_;
  BackgroundThread& instance_;
  const TimePoint start_;
};

void InstanceDispatcher::work(BackgroundThread& instance) noexcept {
  // Also while it answers: what callbacks do on this thread holds the instance up as well.
  std::optional<Occupied> occupied;
  Lock lock(mutex_);
  while (true) {
    // The thread starts before the node is complete; with the first task it is.
    const bool has_work = !instance.assigned.empty() || !queue_.empty();
    if (has_work && !occupied && !runs_anywhere()) occupied.emplace(*load_, node_name_);
    if (!instance.assigned.empty()) {
      run_assigned(instance, lock);
    } else if (is_closed_) {
      break;
    } else if (instance.alarm <= Clock::now()) {
      instance.alarm = TimePoint::max();
      Aftermath aftermath;
      dispatch(aftermath, &instance);
      settle(aftermath, lock);
      lock.lock();
    } else {
      std::optional<TimePoint> alarm;
      if (instance.alarm != TimePoint::max()) alarm = instance.alarm;
      lock.unlock();
      const auto is_awaited = [&] {
        return !instance.wake.is_set() && (!alarm || Clock::now() < *alarm);
      };
      if (!instance.spin.until([&] { return !is_awaited(); })) instance.wake.wait(alarm);
      lock.lock();
      instance.wake.reset();
    }
  }
  instance.has_ended = true;
  ended_.notify_all();
}

void InstanceDispatcher::run_assigned(BackgroundThread& instance, Lock& lock) {
  instance.running.swap(instance.assigned);  // which leaves their memory in place
  instance.alarm = TimePoint::max();
  const TimePoint start = instance.run_start = Clock::now();
  int64_t rows = 0;
  for (const Task* task : instance.running) {
    rows += task->rows;
    wait_.add(start - task->arrival);
  }
  lock.unlock();
  Ref<RunWatch> watch;
  if (hung_after_ != Duration::zero()) {
    watch = make_ref<RunWatch>(shared_from_this(), instance, start);
    load_->timer.add(watch, start + hung_after_);
  }
  const auto release = static_cast<uint8_t>(instance.release);
  const uint64_t batch = trace_start(instance.running, instance.index(), release, start);
  const int64_t num_failed = instance.run(instance.running);
  if (watch) load_->timer.remove(*watch);
  const TimePoint end = Clock::now();
  run_.add(end - start);
  if (batch != 0) trace_run(batch, instance.index(), rows, release, start, end);
  lock.lock();
  instance.is_hung = false;
  const std::vector<Task*>& tasks = instance.answered;
  instance.answered.swap(instance.running);
  policy_->on_end(tasks, end);
  // Before the first answer, so that no caller comes back before it is expected.
  returns_.on_end(std::ssize(tasks), end);
  count_run(rows);
  stats_.num_items += std::ssize(tasks);
  stats_.num_errors += num_failed;
  // Callers are answered before the next decision, so that they can be back in time for it.
  lock.unlock();
  {
    const AnswerRound round;
    for (Task* task : tasks) task->finish();
  }
  instance.answered.clear();
  if (batch != 0) trace_answers(batch, end, Clock::now());
  lock.lock();
  instance.is_busy = false;
  last_end_ = last_change_ = Clock::now();
  Aftermath aftermath;
  dispatch(aftermath, &instance);
  settle(aftermath, lock);
  lock.lock();
}

TimePoint InstanceDispatcher::give_up(BackgroundThread& instance, TimePoint start) noexcept {
  const double after_ms = std::chrono::duration<double, std::milli>(hung_after_).count();
  std::vector<std::function<void()>> early_failures;
  {
    const Lock lock(mutex_);
    if (instance.running.empty() || instance.run_start != start) return TimePoint::max();
    TimePoint alive_at = TimePoint::min();
    for (const Task* task : instance.running) alive_at = std::max(alive_at, task->alive_at.load());
    const TimePoint now = Clock::now();
    const TimePoint next = std::min(alive_at, now) + hung_after_;
    if (next > now) return next;
    instance.is_hung = true;
    const auto error = refusal::hung(node_name_, instance.index(), after_ms);
    for (Task* task : instance.running) early_failures.push_back(task->early_failure(error));
  }
  for (const auto& fail : early_failures) fail();
  return TimePoint::max();
}

void InstanceDispatcher::run_in_place_timed(BackgroundThread& instance,
                                            std::span<Task* const> tasks) {
  // Runs in place are short and many: reading the clock for each would cost more than it tells.
  constexpr uint32_t kSampled = 16;
  thread_local uint32_t num_runs = 0;
  const bool is_sampled = num_runs++ % kSampled == 0;
  const TimePoint start = is_sampled ? Clock::now() : TimePoint();
  const int64_t num_failed =
      load_->trace.is_on() ? run_in_place_traced(instance, tasks) : instance.run(tasks);
  if (is_sampled) run_.add(Clock::now() - start);
  num_in_place_.fetch_add(1, std::memory_order_relaxed);
  if (num_failed != 0) num_in_place_errors_.fetch_add(num_failed, std::memory_order_relaxed);
}

// --- the end ---

void InstanceDispatcher::close() noexcept {
  const std::exception_ptr closed = refusal::closed(node_name_);
  Aftermath aftermath;
  std::vector<std::function<void()>> early_failures;
  Lock lock(mutex_);
  is_closed_ = true;
  set_waiting(false);
  aftermath.ended = queue_.pop_all();
  for (const auto& instance : instances_) {
    aftermath.wake(instance.get());
    for (Task* task : instance->running) early_failures.push_back(task->early_failure(closed));
    // What was handed over and has not begun is queued as well.
    if (!instance->assigned.empty()) instance->is_busy = false;
    for (Task* task : std::exchange(instance->assigned, {})) aftermath.ended.push_back(task);
  }
  for (Task* task : aftermath.ended) {
    ++(task->is_abandoned() ? stats_.num_dropped : stats_.num_errors);
    task->error = closed;
  }
  if (is_full_.exchange(false)) aftermath.has_room_again = true;
  settle(aftermath, lock);
  for (const auto& fail : early_failures) fail();
}

bool InstanceDispatcher::join(TimePoint deadline) noexcept {
  // A callback that closes its own pipeline runs on one of these threads, which then ends alone.
  const auto has_ended = [](const auto& instance) {
    return instance->has_ended || instance->thread.get_id() == std::this_thread::get_id();
  };
  const auto is_idle_no_more = [&](const auto& instance) {
    return has_ended(instance) || instance->is_busy;
  };
  bool all_ended = false;
  std::vector<std::thread> ended;
  {
    Lock lock(mutex_);
    // Idle threads end at once; only those inside a backend or a callback need a time limit.
    ended_.wait(lock, [&] { return std::ranges::all_of(instances_, is_idle_no_more); });
    all_ended = ended_.wait_until(lock, deadline,
                                  [&] { return std::ranges::all_of(instances_, has_ended); });
    for (const auto& instance : instances_) {
      if (!instance->thread.joinable()) continue;
      if (instance->has_ended) {
        ended.push_back(std::move(instance->thread));
      } else {
        instance->thread.detach();
      }
    }
  }
  for (std::thread& thread : ended) thread.join();
  return all_ended;
}

void InstanceDispatcher::add_stats(std::vector<NodeStats>& all) const {
  Figures figures;
  for (const auto& instance : instances_) add_figures(figures, instance->own_figures());
  Lock lock(mutex_);
  NodeStats stats = stats_;
  stats.node = node_name_;
  stats.backend = std::move(figures);
  stats.num_waiting = static_cast<int64_t>(queue_.size());
  stats.num_instances = std::ssize(instances_);
  stats.num_busy = std::ranges::count_if(instances_, [](const auto& one) { return one->is_busy; });
  stats.num_hung = std::ranges::count_if(instances_, [](const auto& one) { return one->is_hung; });
  stats.wait = wait_.percentiles();
  stats.run = run_.percentiles();
  stats.num_errors += num_in_place_errors_.load(std::memory_order_relaxed);
  for (size_t rows = 0; rows < num_runs_.size(); ++rows) {
    if (num_runs_[rows] > 0) stats.batch_rows[static_cast<int64_t>(rows)] = num_runs_[rows];
  }
  for (size_t i = 0; i < kNumReleases; ++i) {
    if (num_releases_[i] == 0) continue;
    stats.releases[to_string(static_cast<Release>(i))] = num_releases_[i];
  }
  if (const int64_t num_in_place = num_in_place_.load(std::memory_order_relaxed)) {
    stats.num_items += num_in_place;
    stats.batch_rows[1] += num_in_place;
    stats.releases["in_place"] += num_in_place;
  }
  all.push_back(std::move(stats));
}

void InstanceDispatcher::add_problems(std::vector<std::string>& problems) const {
  {
    const Lock lock(mutex_);
    for (const auto& instance : instances_) {
      if (!instance->is_hung) continue;
      problems.push_back(site_of(*instance) + " does not come back from its backend");
    }
  }
  for (const auto& instance : instances_) {
    if (std::string problem = instance->problem(); !problem.empty()) {
      problems.push_back(site_of(*instance) + ": " + problem);
    }
  }
}

std::string InstanceDispatcher::site_of(const BackgroundThread& instance) const {
  return "instance " + std::to_string(instance.index()) + " of node " + backticked(node_name_);
}

}  // namespace hami

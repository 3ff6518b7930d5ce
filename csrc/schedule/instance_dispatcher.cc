#include "schedule/instance_dispatcher.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "schedule/refusal.h"

namespace hami {
InstanceDispatcher::InstanceDispatcher(Build& build)
    : node_name_(build.node_name()),
      load_(build.scope().load()),
      instances_(BackgroundThread::find_all(build)),
      capacity_(static_cast<size_t>(build.params().get_int("queue_capacity"))),
      queue_(parse_order(build.params().get_str("scheduler"))) {
  traits_ = instances_[0]->traits();
  for (const auto& instance : instances_) {
    ranges_.push_back(instance->batch_range());
    largest_max_ = std::max(largest_max_, instance->batch_range().max);
  }
}

InstanceDispatcher::~InstanceDispatcher() { set_waiting(false); }

void InstanceDispatcher::launch() {
  for (const auto& instance : instances_) {
    instance->launch([self = shared_from_this(), instance] { self->work(*instance); });
  }
}

BatchRange InstanceDispatcher::batch_range() const { return {1, largest_max_}; }

BatchRange InstanceDispatcher::run_range() const {
  const auto least = std::ranges::min_element(ranges_, {}, &BatchRange::min);
  return {least->min, largest_max_};
}

void InstanceDispatcher::collect_reads(std::vector<Key>& reads) const {
  for (const auto& instance : instances_) instance->collect_reads(reads);
}

// --- arrival ---

void InstanceDispatcher::start(std::span<Task* const> tasks) { admit(tasks, Admission::kFree); }

bool InstanceDispatcher::start_bounded(std::span<Task* const> tasks) {
  return admit(tasks, Admission::kBounded);
}

bool InstanceDispatcher::reserve(size_t num_tasks) {
  Aftermath aftermath;
  Lock lock(mutex_);
  const bool is_granted = has_places(num_tasks, aftermath);
  if (is_granted) num_reserved_ += num_tasks;
  settle(aftermath, lock);
  return is_granted;
}

void InstanceDispatcher::cancel_reservation(size_t num_tasks) {
  const Lock lock(mutex_);
  num_reserved_ -= num_tasks;
}

void InstanceDispatcher::start_reserved(std::span<Task* const> tasks) {
  admit(tasks, Admission::kReserved);
}

bool InstanceDispatcher::has_places(size_t num_tasks, Aftermath& aftermath) {
  drop_abandoned(aftermath);
  return is_closed_ || queue_.size() + num_reserved_ + num_tasks <= capacity_;
}

bool InstanceDispatcher::admit(std::span<Task* const> tasks, Admission admission) {
  if (tasks.size() == 1 && can_run_in_place(*tasks[0]) && run_in_place(*tasks[0])) return true;
  for (Task* task : tasks) task->group = instances_[0]->group_of(*task);
  Aftermath aftermath;
  Lock lock(mutex_);
  if (admission == Admission::kBounded && !has_places(tasks.size(), aftermath)) {
    settle(aftermath, lock);
    return false;
  }
  if (admission == Admission::kReserved) num_reserved_ -= tasks.size();
  const TimePoint now = Clock::now();
  for (Task* task : tasks) enqueue(*task, now, aftermath);
  if (queue_.size() >= capacity_) is_full_.store(true, std::memory_order_release);
  dispatch(aftermath, nullptr);
  settle(aftermath, lock);
  return true;
}

void InstanceDispatcher::enqueue(Task& task, TimePoint now, Aftermath& aftermath) {
  if (is_closed_) {
    task.error = refusal::closed(node_name_);
  } else if (task.rows > largest_max_) {
    task.error = refusal::too_large(node_name_, task.rows, largest_max_);
  }
  if (task.error != nullptr) {
    ++stats_.num_errors;
    aftermath.ended.push_back(&task);
    return;
  }
  // Gaps count within a burst only: an arrival at an empty queue says nothing about the next one.
  if (!queue_.empty()) grace_.add_gap(now - last_arrival_);
  task.arrival = last_arrival_ = last_change_ = now;
  queue_.push(task);
}

bool InstanceDispatcher::can_run_in_place(const Task& task) const noexcept {
  return traits_.is_inline && task.may_run_inline && task.rows == 1 && has_room_downstream();
}

bool InstanceDispatcher::run_in_place(Task& task) {
  Task* const tasks[] = {&task};
  if (traits_.is_reentrant) {
    if (instances_[0]->run(tasks) != 0)
      num_in_place_errors_.fetch_add(1, std::memory_order_relaxed);
    num_in_place_.fetch_add(1, std::memory_order_relaxed);
    task.finish();
    return true;
  }
  Lock lock(mutex_);
  auto free = std::ranges::find_if(instances_, [](const auto& one) { return !one->is_busy; });
  if (is_closed_ || !queue_.empty() || free == instances_.end()) return false;
  BackgroundThread& instance = **free;
  instance.is_busy = true;
  lock.unlock();
  const int64_t num_failed = instance.run(tasks);
  num_in_place_errors_.fetch_add(num_failed, std::memory_order_relaxed);
  num_in_place_.fetch_add(1, std::memory_order_relaxed);
  lock.lock();
  instance.is_busy = false;
  Aftermath aftermath;
  dispatch(aftermath, nullptr);
  aftermath.ended.push_back(&task);
  settle(aftermath, lock);
  return true;
}

// --- decision ---

bool InstanceDispatcher::has_room_downstream() const noexcept {
  return std::ranges::all_of(downstreams_, [](const Operator* next) { return next->has_room(); });
}

Decision InstanceDispatcher::decide_now(std::vector<BackgroundThread*>& free,
                                        const BackgroundThread* self) const {
  for (const auto& instance : instances_) {
    if (instance->is_busy || instance->has_ended) continue;
    free.push_back(instance.get());
    // Among equals the first is taken, and a thread that is awake already is the cheapest.
    if (instance.get() == self) std::swap(free.front(), free.back());
  }
  std::vector<BatchRange> free_ranges;
  for (const BackgroundThread* instance : free) free_ranges.push_back(instance->batch_range());
  return decide({.queue = queue_,
                 .now = Clock::now(),
                 .free = free_ranges,
                 .all = ranges_,
                 .num_inside = load_->num_inside.load(std::memory_order_relaxed),
                 .timeout = timeout_,
                 .grace = grace_.grace(),
                 .last_change = last_change_});
}

void InstanceDispatcher::dispatch(Aftermath& aftermath, BackgroundThread* self) {
  set_waiting(false);
  drop_abandoned(aftermath);
  while (!queue_.empty() && has_room_downstream()) {
    std::vector<BackgroundThread*> free;
    const Decision decision = decide_now(free, self);
    if (decision.action == Decision::Action::kIdle) return;
    if (decision.action == Decision::Action::kWait) {
      set_alarm(decision.until, free, self, aftermath);
      return;
    }
    auto tasks = take(decision, aftermath);
    if (decision.action == Decision::Action::kRefuse) {
      for (Task* task : tasks) {
        task->error = refusal::too_small(node_name_);
        ++stats_.num_errors;
        aftermath.ended.push_back(task);
      }
      continue;
    }
    if (tasks.empty()) continue;
    BackgroundThread& instance = *free[decision.instance];
    instance.assigned = std::move(tasks);
    instance.is_busy = true;
    ++stats_.releases[to_string(decision.release)];
    if (&instance != self) aftermath.woken.push_back(&instance);
  }
}

std::vector<Task*> InstanceDispatcher::take(const Decision& decision, Aftermath& aftermath) {
  auto tasks = queue_.pop(decision.group, decision.count);
  const auto abandoned =
      std::ranges::stable_partition(tasks, [](const Task* task) { return !task->is_abandoned(); });
  stats_.num_dropped += std::ssize(abandoned);
  aftermath.ended.insert(aftermath.ended.end(), abandoned.begin(), abandoned.end());
  tasks.erase(abandoned.begin(), abandoned.end());
  note_room(aftermath);
  return tasks;
}

void InstanceDispatcher::drop_abandoned(Aftermath& aftermath) {
  // Looking through the queue is worth it only when some request was answered since the last time.
  const int64_t num_answers = load_->num_early_answers.load(std::memory_order_acquire);
  if (queue_.empty() || num_answers == num_answers_seen_) return;
  num_answers_seen_ = num_answers;
  const auto dropped = queue_.remove_abandoned();
  stats_.num_dropped += std::ssize(dropped);
  aftermath.ended.insert(aftermath.ended.end(), dropped.begin(), dropped.end());
  note_room(aftermath);
}

void InstanceDispatcher::note_room(Aftermath& aftermath) {
  if (queue_.size() < capacity_ && is_full_.exchange(false, std::memory_order_acq_rel)) {
    aftermath.has_room_again = true;
  }
}

void InstanceDispatcher::set_alarm(TimePoint until, std::span<BackgroundThread* const> free,
                                   const BackgroundThread* self, Aftermath& aftermath) {
  set_waiting(true);
  // One sleeper with an alarm is enough. An alarm that rings early only leads to another look.
  const bool is_set = std::ranges::any_of(
      free, [&](const BackgroundThread* instance) { return instance->alarm <= until; });
  if (is_set) return;
  auto chosen = std::ranges::find(free, self);
  if (chosen == free.end()) chosen = free.begin();
  (*chosen)->alarm = until;
  if (*chosen != self) aftermath.woken.push_back(*chosen);
}

void InstanceDispatcher::set_waiting(bool is_waiting) {
  if (is_waiting == is_waiting_) return;
  is_waiting_ = is_waiting;
  load_->num_waiting_nodes.fetch_add(is_waiting ? 1 : -1, std::memory_order_acq_rel);
}

void InstanceDispatcher::settle(Aftermath& aftermath, Lock& lock) noexcept {
  lock.unlock();
  for (BackgroundThread* instance : aftermath.woken) instance->wake.notify_one();
  for (Task* task : aftermath.ended) task->finish();
  if (aftermath.has_room_again) {
    for (Operator* upstream : upstreams_) upstream->reconsider();
  }
}

void InstanceDispatcher::reconsider() noexcept {
  Aftermath aftermath;
  Lock lock(mutex_);
  dispatch(aftermath, nullptr);
  settle(aftermath, lock);
}

// --- the instances' threads ---

void InstanceDispatcher::work(BackgroundThread& instance) noexcept {
  Lock lock(mutex_);
  while (true) {
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
    } else if (instance.alarm != TimePoint::max()) {
      instance.wake.wait_until(lock, instance.alarm);
    } else {
      instance.wake.wait(lock);
    }
  }
  instance.has_ended = true;
  ended_.notify_all();
}

void InstanceDispatcher::run_assigned(BackgroundThread& instance, Lock& lock) {
  instance.running = std::exchange(instance.assigned, {});
  instance.alarm = TimePoint::max();
  int64_t rows = 0;
  for (const Task* task : instance.running) rows += task->rows;
  lock.unlock();
  const int64_t num_failed = instance.run(instance.running);
  lock.lock();
  const std::vector<Task*> tasks = std::exchange(instance.running, {});
  ++stats_.batch_rows[rows];
  stats_.num_items += std::ssize(tasks);
  stats_.num_errors += num_failed;
  // Callers are answered before the next decision, so that they can be back in time for it.
  lock.unlock();
  for (Task* task : tasks) task->finish();
  lock.lock();
  instance.is_busy = false;
  last_change_ = Clock::now();
  Aftermath aftermath;
  dispatch(aftermath, &instance);
  settle(aftermath, lock);
  lock.lock();
}

// --- the end ---

void InstanceDispatcher::close() noexcept {
  Aftermath aftermath;
  std::vector<std::function<void()>> early_failures;
  Lock lock(mutex_);
  is_closed_ = true;
  set_waiting(false);
  aftermath.ended = queue_.pop_all();
  for (Task* task : aftermath.ended) {
    if (task->is_abandoned()) ++stats_.num_dropped;
    task->error = refusal::closed(node_name_);
  }
  if (is_full_.exchange(false)) aftermath.has_room_again = true;
  for (const auto& instance : instances_) {
    aftermath.woken.push_back(instance.get());
    for (Task* task : instance->running) {
      early_failures.push_back(task->early_failure(refusal::closed(node_name_)));
    }
  }
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
  Lock lock(mutex_);
  NodeStats stats = stats_;
  stats.node = node_name_;
  stats.num_waiting = static_cast<int64_t>(queue_.size());
  stats.num_errors += num_in_place_errors_.load(std::memory_order_relaxed);
  if (const int64_t num_in_place = num_in_place_.load(std::memory_order_relaxed)) {
    stats.num_items += num_in_place;
    stats.batch_rows[1] += num_in_place;
    stats.releases["in_place"] += num_in_place;
  }
  all.push_back(std::move(stats));
}

static const Registration registration_of_InstanceDispatcher{
    BackendClass{.name = "InstanceDispatcher",
                 .family = "scheduling",
                 .doc = "Gives each batch to the best-fitting free instance of the node.",
                 .params = {{.name = "queue_capacity",
                             .type = "int",
                             .doc = "most requests that wait at this node",
                             .default_value = Value(int64_t{65536}),
                             .min = 1},
                            {.name = "scheduler",
                             .type = "str",
                             .doc = "which waiting request runs first",
                             .default_value = Value::str(std::string("fifo")),
                             .choices = {"fifo", "priority", "edf"}}},
                 .create = [](Build& build) -> std::shared_ptr<Backend> {
                   auto dispatcher = std::make_shared<InstanceDispatcher>(build);
                   build.scope().add_service(dispatcher);
                   dispatcher->launch();
                   return dispatcher;
                 }}};

}  // namespace hami

#include "schedule/instance_dispatcher.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "schedule/occupied.h"
#include "schedule/refusal.h"

namespace hami {
namespace {

const Value& scheduler_of(const Build& build) {
  static const Key scheduler = Key::intern("scheduler");
  return *build.params().values().find(scheduler);
}

}  // namespace

InstanceDispatcher::InstanceDispatcher(Build& build)
    : node_name_(build.node_name()),
      load_(build.scope().load()),
      instances_(BackgroundThread::find_all(build)),
      capacity_(static_cast<size_t>(build.params().get_int("queue_capacity"))),
      order_(make_order(scheduler_of(build))),
      trace_node_(load_->trace.find_node(node_name_)),
      hung_after_(std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::milli>(
          build.params().find_float("hung_after_ms").value_or(0)))),
      queue_(order_->is_arrival()) {
  traits_ = instances_[0]->traits();
  traits_.reads_everything |= order_->reads_everything();
  for (const auto& instance : instances_) {
    ranges_.push_back(instance->batch_range());
    largest_max_ = std::max(largest_max_, instance->batch_range().max);
  }
  constexpr int64_t kManyRows = 1024;
  num_runs_.resize(static_cast<size_t>(std::min(largest_max_, kManyRows)) + 1);
}

InstanceDispatcher::~InstanceDispatcher() { set_waiting(false); }

void InstanceDispatcher::launch() {
  for (const auto& instance : instances_) {
    instance->launch([self = shared_from_this(), instance] { self->work(*instance); });
  }
}

void InstanceDispatcher::set_batching(Duration timeout, std::unique_ptr<BatchPolicy> policy) {
  timeout_ = timeout;
  policy_ = std::move(policy);
  if (policy_->sees_everything()) traits_.is_inline = false;
}

BatchRange InstanceDispatcher::batch_range() const { return {1, largest_max_}; }

BatchRange InstanceDispatcher::run_range() const {
  const auto least = std::ranges::min_element(ranges_, {}, &BatchRange::min);
  return {least->min, largest_max_};
}

void InstanceDispatcher::collect_reads(std::vector<Key>& reads) const {
  for (const auto& instance : instances_) instance->collect_reads(reads);
  policy_->collect_reads(reads);
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
  const TimePoint now = Clock::now();
  for (Task* task : tasks) classify(*task, now);
  Aftermath aftermath;
  Lock lock(mutex_);
  if (admission == Admission::kBounded && !has_places(tasks.size(), aftermath)) {
    settle(aftermath, lock);
    return false;
  }
  if (admission == Admission::kReserved) num_reserved_ -= tasks.size();
  for (Task* task : tasks) enqueue(*task, aftermath);
  if (queue_.size() >= capacity_) is_full_.store(true, std::memory_order_release);
  dispatch(aftermath, nullptr);
  settle(aftermath, lock);
  return true;
}

void InstanceDispatcher::classify(Task& task, TimePoint now) const noexcept {
  try {
    task.arrival = now;
    task.group = instances_[0]->group_of(task);
    task.order = order_->order_of(task);
  } catch (...) {
    task.error = std::current_exception();
  }
}

void InstanceDispatcher::enqueue(Task& task, Aftermath& aftermath) {
  if (is_closed_) {
    task.error = refusal::closed(node_name_);
  } else if (task.error == nullptr && task.rows > largest_max_) {
    task.error = refusal::too_large(node_name_, task.rows, largest_max_);
  } else if (task.error == nullptr) {
    try {
      policy_->on_arrival(task, task.arrival);
    } catch (...) {
      task.error = std::current_exception();
    }
  }
  if (task.error != nullptr) {
    // A branch of a request that has failed elsewhere may arrive while the node closes.
    ++(task.is_abandoned() ? stats_.num_dropped : stats_.num_errors);
    aftermath.ended.push_back(&task);
    return;
  }
  returns_.on_arrival(task.arrival, !queue_.empty());
  last_arrival_ = last_change_ = task.arrival;
  queue_.push(task);
}

bool InstanceDispatcher::can_run_in_place(const Task& task) const noexcept {
  return traits_.is_inline && task.may_run_inline && task.rows == 1 && has_room_downstream();
}

bool InstanceDispatcher::run_in_place(Task& task) {
  Task* const tasks[] = {&task};
  if (traits_.is_reentrant) {
    run_in_place_timed(*instances_[0], tasks);
    task.finish();
    return true;
  }
  Lock lock(mutex_);
  auto free = std::ranges::find_if(instances_, [](const auto& one) { return !one->is_busy; });
  if (is_closed_ || !queue_.empty() || free == instances_.end()) return false;
  BackgroundThread& instance = **free;
  instance.is_busy = true;
  lock.unlock();
  {
    const Occupied occupied(*load_, node_name_);
    run_in_place_timed(instance, tasks);
  }
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

void InstanceDispatcher::find_free(const BackgroundThread* self) {
  free_.threads.clear();
  free_.ranges.clear();
  free_.indexes.clear();
  const auto add = [&](size_t index) {
    const auto& instance = instances_[index];
    if (instance->is_busy || instance->has_ended) return;
    free_.threads.push_back(instance.get());
    free_.ranges.push_back(ranges_[index]);
    free_.indexes.push_back(index);
  };
  // Among equals the first is taken, and a thread that is awake already is the cheapest.
  if (self != nullptr) add(static_cast<size_t>(self->index()));
  for (size_t i = 0; i < instances_.size(); ++i) {
    if (instances_[i].get() != self) add(i);
  }
}

Decision InstanceDispatcher::decide_now(TimePoint now) {
  // After an arrival the rest of a burst follows at its pace, and never sooner than its first
  // could.
  const TimePoint patient_until =
      std::max(last_arrival_ + returns_.grace(), last_end_ + returns_.grace_after_end());
  return policy_->decide({.queue = queue_,
                          .now = now,
                          .free = free_.ranges,
                          .free_instances = free_.indexes,
                          .all = ranges_,
                          .num_inside = load_->num_inside.load(std::memory_order_relaxed),
                          .timeout = timeout_,
                          .num_expected = returns_.num_expected(),
                          .grace = patient_until - last_change_,
                          .last_change = last_change_,
                          .last_end = last_end_});
}

void InstanceDispatcher::dispatch(Aftermath& aftermath, BackgroundThread* self) {
  set_waiting(false);
  drop_abandoned(aftermath);
  while (!queue_.empty() && has_room_downstream()) {
    find_free(self);
    if (free_.threads.empty()) return;
    const TimePoint now = Clock::now();
    const Decision decision = decide_now(now);
    if (decision.action == Decision::Action::kIdle) return;
    if (decision.action == Decision::Action::kWait) {
      if (decision.release == Release::kEveryoneHere) returns_.on_wait(now);
      set_alarm(decision.until, free_.threads, self, aftermath);
      return;
    }
    if (decision.action == Decision::Action::kRefuse) {
      refuse(decision, aftermath);
      continue;
    }
    BackgroundThread& instance = *free_.threads[decision.instance];
    take(decision, instance.assigned, aftermath);
    if (instance.assigned.empty()) continue;
    policy_->on_start(instance.assigned);
    returns_.on_start(now, decision.release != Release::kFull && returns_.num_expected() > 0);
    instance.is_busy = true;
    instance.release = decision.release;
    ++num_releases_[static_cast<size_t>(decision.release)];
    if (&instance != self) aftermath.wake(&instance);
  }
}

void InstanceDispatcher::take(const Decision& decision, std::vector<Task*>& tasks,
                              Aftermath& aftermath) {
  queue_.pop(*decision.group, decision.count, tasks,
             [this](const Task& task) { return policy_->can_run(task); });
  std::erase_if(tasks, [&](Task* task) {
    if (!task->is_abandoned()) return false;
    ++stats_.num_dropped;
    leave(*task, aftermath);
    return true;
  });
  note_room(aftermath);
}

void InstanceDispatcher::refuse(const Decision& decision, Aftermath& aftermath) {
  std::vector<Task*> tasks;
  take(decision, tasks, aftermath);
  for (Task* task : tasks) {
    task->error = refusal::too_small(node_name_);
    leave(*task, aftermath);
    ++stats_.num_errors;
  }
}

void InstanceDispatcher::drop_abandoned(Aftermath& aftermath) {
  // Looking through the queue is worth it only when some request was answered since the last time.
  const int64_t num_answers = load_->num_early_answers.load(std::memory_order_acquire);
  if (queue_.empty() || num_answers == num_answers_seen_) return;
  num_answers_seen_ = num_answers;
  const auto dropped = queue_.remove_abandoned();
  stats_.num_dropped += std::ssize(dropped);
  for (Task* task : dropped) leave(*task, aftermath);
  note_room(aftermath);
}

void InstanceDispatcher::leave(Task& task, Aftermath& aftermath) {
  policy_->on_leave(task, Clock::now());
  aftermath.ended.push_back(&task);
}

void InstanceDispatcher::note_room(Aftermath& aftermath) {
  if (queue_.size() < capacity_ && is_full_.exchange(false, std::memory_order_acq_rel)) {
    aftermath.has_room_again = true;
  }
}

void InstanceDispatcher::count_run(int64_t rows) {
  if (const auto index = static_cast<size_t>(rows); index < num_runs_.size()) {
    ++num_runs_[index];
  } else {
    ++stats_.batch_rows[rows];
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
  if (*chosen != self) aftermath.wake(*chosen);
}

void InstanceDispatcher::set_waiting(bool is_waiting) {
  if (is_waiting == is_waiting_) return;
  is_waiting_ = is_waiting;
  load_->num_waiting_nodes.fetch_add(is_waiting ? 1 : -1, std::memory_order_acq_rel);
}

void InstanceDispatcher::settle(Aftermath& aftermath, Lock& lock) noexcept {
  if (load_->trace.is_on()) trace_queue();
  lock.unlock();
  if (aftermath.woken != nullptr) aftermath.woken->wake.set();
  for (BackgroundThread* instance : aftermath.also_woken) instance->wake.set();
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

static const Registration registration_of_InstanceDispatcher{BackendClass{
    .name = "InstanceDispatcher",
    .family = "scheduling",
    .doc = "Gives each batch to the best-fitting free instance of the node.",
    .params = {{.name = "queue_capacity",
                .type = "int",
                .doc = "most requests that wait at this node",
                .default_value = Value(int64_t{65536}),
                .min = 1},
               {.name = "scheduler",
                .type = "scheduler",
                .doc = "which waiting request runs first: `fifo`, `priority`, `edf`, or "
                       "the name of a registered class",
                .default_value = Value::str(std::string("fifo"))},
               {.name = "hung_after_ms",
                .type = "float",
                .doc = "a run that takes longer fails its requests and turns health bad",
                .unit = "ms",
                .min = 1,
                .max = 86400000}},
    .create = [](Build& build) -> std::shared_ptr<Backend> {
      auto dispatcher = std::make_shared<InstanceDispatcher>(build);
      build.scope().add_service(dispatcher);
      dispatcher->launch();
      return dispatcher;
    }}};

}  // namespace hami

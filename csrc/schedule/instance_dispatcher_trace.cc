// What the scheduler of a node tells the trace of its pipeline.
#include "schedule/instance_dispatcher.h"

namespace hami {
namespace {

// Runs in place have no reason: nobody waited.
constexpr uint8_t kInPlace = kNumReleases;

}  // namespace

void InstanceDispatcher::trace_queue() noexcept {
  if (queue_.size() == num_traced_) return;
  num_traced_ = queue_.size();
  load_->trace.record({.kind = TraceKind::kQueue,
                       .node = trace_node_,
                       .begin = Clock::now(),
                       .value = static_cast<int64_t>(num_traced_)});
}

uint64_t InstanceDispatcher::trace_start(std::span<Task* const> tasks, int instance,
                                         uint8_t release, TimePoint start) noexcept {
  if (!load_->trace.is_on()) return 0;
  const uint64_t batch = load_->trace.new_id();
  for (const Task* task : tasks) {
    load_->trace.record({.kind = TraceKind::kBatch,
                         .detail = release,
                         .node = trace_node_,
                         .instance = instance,
                         .begin = task->arrival,
                         .end = start,
                         .request = task->trace_id,
                         .batch = batch,
                         .value = task->rows});
  }
  return batch;
}

void InstanceDispatcher::trace_run(uint64_t batch, int instance, int64_t rows, uint8_t release,
                                   TimePoint start, TimePoint end) noexcept {
  load_->trace.record({.kind = TraceKind::kForward,
                       .detail = release,
                       .node = trace_node_,
                       .instance = instance,
                       .begin = start,
                       .end = end,
                       .batch = batch,
                       .value = rows});
}

void InstanceDispatcher::trace_answers(uint64_t batch, TimePoint begin, TimePoint end) noexcept {
  load_->trace.record({.kind = TraceKind::kNotify,
                       .node = trace_node_,
                       .begin = begin,
                       .end = end,
                       .batch = batch});
}

int64_t InstanceDispatcher::run_in_place_traced(BackgroundThread& instance,
                                                std::span<Task* const> tasks) {
  const TimePoint start = Clock::now();
  for (Task* task : tasks) task->arrival = start;
  const uint64_t batch = trace_start(tasks, -1, kInPlace, start);
  const int64_t num_failed = instance.run(tasks);
  if (batch != 0) trace_run(batch, -1, tasks[0]->rows, kInPlace, start, Clock::now());
  return num_failed;
}

}  // namespace hami

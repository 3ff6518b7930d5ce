#include "graph/queue_operator.h"

#include <algorithm>
#include <utility>

#include "schedule/refusal.h"

namespace hami {

QueueOperator::QueueOperator(Build& build)
    : node_name_(build.node_name()),
      backend_name_(build.expr().name),
      queue_(build.scope().default_queue(build.params().get_str("queue"))),
      capacity_(build.params().get_int("queue_capacity")) {}

std::vector<Param> QueueOperator::params() {
  return {{.name = "queue", .type = "str", .doc = "the queue's name", .is_required = true},
          {.name = "queue_capacity",
           .type = "int",
           .doc = "most requests that wait at this node",
           .default_value = Value(int64_t{65536}),
           .min = 1}};
}

// --- arrival ---

void QueueOperator::start(std::span<Task* const> tasks) {
  num_here_.fetch_add(std::ssize(tasks), std::memory_order_acq_rel);
  start_reserved(tasks);
}

bool QueueOperator::start_bounded(std::span<Task* const> tasks) {
  if (!reserve(tasks.size())) return false;
  start_reserved(tasks);
  return true;
}

bool QueueOperator::reserve(size_t num_tasks) {
  if (!has_room_downstream()) return false;
  const auto count = static_cast<int64_t>(num_tasks);
  int64_t num_here = num_here_.load(std::memory_order_acquire);
  do {
    if (num_here + count > capacity_) return false;
  } while (!num_here_.compare_exchange_weak(num_here, num_here + count));
  return true;
}

void QueueOperator::start_reserved(std::span<Task* const> tasks) {
  for (Task* task : tasks) {
    auto& visit = static_cast<Visit&>(*task);
    try {
      start_one(visit);
    } catch (...) {
      fail(visit, std::current_exception());
    }
  }
}

void QueueOperator::start_one(Visit& visit) {
  // The visit may have ended, and the request with it, when `enter` returns.
  const Ref<Request> request = visit.request;
  const auto wait = make_ref<Wait>(*this, visit);
  enter(*queue_, wait, visit);
  if (!wait->has_waited) return;
  // It can come to no batch while it waits here, so nobody should wait for it.
  request->pipeline->add_waiting(1);
  // An answer that came before it stood in line did not find it there.
  if (request->is_abandoned()) queue_->call_off(request.get());
}

// --- end ---

void QueueOperator::end(Wait& wait, Outcome outcome) noexcept {
  Visit& visit = wait.visit_;
  const std::shared_ptr<Pipeline> alive = visit.request->pipeline;
  if (wait.has_waited) alive->add_waiting(-1);
  if (outcome == Outcome::kClosed) return fail(visit, refusal::closed(node_name_));
  auto& count = outcome == Outcome::kDone ? num_moved_ : num_called_off_;
  count.fetch_add(1, std::memory_order_relaxed);
  leave(1);
  if (outcome == Outcome::kDone) return carry_on(visit, std::move(wait.value));
  visit.finish();
}

void QueueOperator::fail(Visit& visit, std::exception_ptr error) noexcept {
  const std::shared_ptr<Pipeline> alive = visit.request->pipeline;
  visit.error = std::move(error);
  visit.site = std::make_shared<FailureSite>(node_name_, backend_name_, 0);
  num_failed_.fetch_add(1, std::memory_order_relaxed);
  leave(1);
  visit.finish();
}

void QueueOperator::leave(size_t num_tasks) noexcept {
  const auto count = static_cast<int64_t>(num_tasks);
  const int64_t num_before = num_here_.fetch_sub(count, std::memory_order_acq_rel);
  if (num_before >= capacity_ && num_before - count < capacity_) reconsider();
}

// --- back-pressure ---

bool QueueOperator::has_room_downstream() const noexcept {
  return std::ranges::all_of(downstreams_, [](const Operator* next) { return next->has_room(); });
}

bool QueueOperator::has_room() const noexcept {
  return num_here_.load(std::memory_order_acquire) < capacity_ && has_room_downstream();
}

void QueueOperator::reconsider() noexcept {
  for (Operator* upstream : upstreams_) upstream->reconsider();
}

void QueueOperator::add_stats(std::vector<NodeStats>& all) const {
  NodeStats stats;
  stats.node = node_name_;
  stats.num_waiting = num_here_.load(std::memory_order_relaxed);
  stats.num_items = num_moved_.load(std::memory_order_relaxed);
  stats.num_errors = num_failed_.load(std::memory_order_relaxed);
  stats.num_dropped = num_called_off_.load(std::memory_order_relaxed);
  all.push_back(std::move(stats));
}

}  // namespace hami

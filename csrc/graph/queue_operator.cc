#include "graph/queue_operator.h"

#include <utility>

#include "schedule/refusal.h"

namespace hami {

QueueOperator::QueueOperator(Build& build)
    : HoldingOperator(build),
      queue_(build.scope().default_queue(build.params().get_str("queue"))) {}

std::vector<Param> QueueOperator::params() {
  return {{.name = "queue", .type = "str", .doc = "the queue's name", .is_required = true},
          {.name = "queue_capacity",
           .type = "int",
           .doc = "most requests that wait at this node",
           .default_value = Value(int64_t{65536}),
           .min = 1}};
}

// --- arrival ---

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
  if (outcome == Outcome::kClosed) return fail(visit, refusal::closed(node_name()));
  auto& count = outcome == Outcome::kDone ? num_moved_ : num_called_off_;
  count.fetch_add(1, std::memory_order_relaxed);
  leave(1);
  if (outcome == Outcome::kDone) return carry_on(visit, std::move(wait.value));
  visit.finish();
}

void QueueOperator::fail(Visit& visit, std::exception_ptr error) noexcept {
  const std::shared_ptr<Pipeline> alive = visit.request->pipeline;
  visit.error = std::move(error);
  visit.site = std::make_shared<FailureSite>(node_name(), backend_name(), 0);
  num_failed_.fetch_add(1, std::memory_order_relaxed);
  leave(1);
  visit.finish();
}

void QueueOperator::add_stats(std::vector<NodeStats>& all) const {
  NodeStats stats;
  stats.node = node_name();
  stats.num_waiting = num_here();
  stats.num_items = num_moved_.load(std::memory_order_relaxed);
  stats.num_errors = num_failed_.load(std::memory_order_relaxed);
  stats.num_dropped = num_called_off_.load(std::memory_order_relaxed);
  all.push_back(std::move(stats));
}

}  // namespace hami

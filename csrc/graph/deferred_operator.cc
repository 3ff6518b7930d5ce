#include "graph/deferred_operator.h"

#include <utility>

#include "schedule/refusal.h"

namespace hami {

// --- one stay ---

DeferredOperator::Stay::Stay(DeferredOperator& owner, Visit& visit)
    : owner_(owner),
      pipeline_(visit.request->pipeline),
      request_(visit.request),
      stream_(visit.stream()),
      node_(visit.node),
      arrival_(Clock::now()),
      visit_(&visit) {}

bool DeferredOperator::Stay::is_wanted() const noexcept {
  return visit_.load(std::memory_order_acquire) != nullptr && !request_->is_abandoned();
}

bool DeferredOperator::Stay::has_room() const { return !stream_ || stream_->has_room(); }

bool DeferredOperator::Stay::emit(Value partial, bool is_last) const {
  if (!is_wanted()) return false;
  request_->trace_partial(node_);
  if (!stream_) return true;
  return is_last ? stream_->push_last(std::move(partial)) : stream_->push(std::move(partial));
}

bool DeferredOperator::Stay::fail(std::exception_ptr error) {
  return finish([&](Visit& visit) { visit.error = std::move(error); });
}

// --- arrival ---

DeferredOperator::DeferredOperator(Build& build) : HoldingOperator(build) {}

void DeferredOperator::start_reserved(std::span<Task* const> tasks) {
  for (Task* task : tasks) start_one(static_cast<Visit&>(*task));
}

void DeferredOperator::start_one(Visit& visit) {
  // The visit may have ended, and everybody else's interest in it, when `begin` returns.
  const auto stay = make_ref<Stay>(*this, visit);
  bool is_closed = false;
  {
    const std::lock_guard lock(mutex_);
    is_closed = is_closed_;
    inside_.insert(stay);
  }
  if (is_closed) {
    stay->fail(refusal::closed(node_name()));
    return;
  }
  try {
    begin(stay, visit);
  } catch (...) {
    stay->fail(std::current_exception());
  }
}

// --- end ---

void DeferredOperator::end(Stay& stay, Visit& visit) noexcept {
  const Ref<Stay> alive(&stay);  // and with it the pipeline, of which this is a part
  {
    const std::lock_guard lock(mutex_);
    inside_.erase(alive);
  }
  const TimePoint now = Clock::now();
  run_.add(now - stay.arrival_);
  if (visit.trace_id != 0) {
    stay.pipeline_->trace().record({.kind = TraceKind::kHold,
                                    .node = visit.node,
                                    .begin = stay.arrival_,
                                    .end = now,
                                    .request = visit.trace_id});
  }
  if (visit.error != nullptr) {
    visit.site = std::make_shared<FailureSite>(node_name(), backend_name(), 0);
    num_failed_.fetch_add(1, std::memory_order_relaxed);
  }
  num_answered_.fetch_add(1, std::memory_order_relaxed);
  leave(1);
  visit.finish();
}

void DeferredOperator::close() noexcept {
  std::vector<Ref<Stay>> left;
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    left.assign(inside_.begin(), inside_.end());
  }
  for (const Ref<Stay>& stay : left) stay->fail(refusal::closed(node_name()));
}

void DeferredOperator::add_stats(std::vector<NodeStats>& all) const {
  NodeStats stats;
  stats.node = node_name();
  stats.num_waiting = num_here();
  stats.num_items = num_answered_.load(std::memory_order_relaxed);
  stats.num_errors = num_failed_.load(std::memory_order_relaxed);
  stats.num_instances = 1;
  stats.run = run_.percentiles();
  stats.backend = own_figures();
  all.push_back(std::move(stats));
}

}  // namespace hami

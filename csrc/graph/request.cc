#include "graph/request.h"

#include "core/error.h"
#include "graph/dispatcher.h"
#include "graph/pipeline.h"

namespace hami {

bool Request::claim_answer() noexcept {
  State open = kOpen;
  return state_.compare_exchange_strong(open, kAnswering, std::memory_order_acq_rel);
}

void Request::announce() noexcept {
  if (deadline != TimePoint::max()) pipeline->timer().remove(*this);
  pipeline->leave(*this);
  if (trace_id != 0) trace_answer();
  if (completion != nullptr) completion->on_answered(*this);
  if (stream) stream->end();
  takes_turns ? answered.set_in_turn() : answered.set();
}

void Request::succeed() noexcept {
  if (!claim_answer()) return;
  output = std::move(*collected);
  forget_input();  // before the caller wakes
  announce();
}

void Request::forget_input() noexcept {
  input.clear();
  base = nullptr;
  kept.clear();
}

bool Request::fail(std::exception_ptr reason, FailureSite::Shared where) noexcept {
  if (!claim_answer()) return false;
  if (num_visits.load(std::memory_order_acquire) > 0) pipeline->note_early_answer();
  error = std::move(reason);
  site = std::move(where);
  announce();
  pipeline->leave_queues(*this);
  return true;
}

void Request::expire() noexcept {
  fail(std::make_exception_ptr(Error(ErrorKind::kDeadlineExceeded, "deadline-exceeded",
                                     "the deadline passed before the request was done",
                                     "raise `deadline_ms`, or send less at a time")));
}

bool Request::cancel() noexcept {
  return fail(std::make_exception_ptr(
      Error(ErrorKind::kCancelled, "cancelled", "the caller cancelled the request")));
}

Visit::Visit(Ref<Request> owner, int node) : request(std::move(owner)), node(node) {
  rows = request->rows;
  priority = request->priority;
  deadline = request->deadline;
  may_run_inline = request->may_run_inline;
  trace_id = request->trace_id;
  partials = this;
}

ResultStream* Visit::stream() const noexcept {
  const bool is_heard = request->runs_alone || request->pipeline->node(node).is_output;
  return is_heard ? request->stream.get() : nullptr;
}

bool Visit::push(Value value) {
  if (request->is_abandoned()) return false;
  ResultStream* const listener = stream();
  request->trace_partial(node);
  alive_at = TimePoint::max();
  const bool is_wanted = listener == nullptr || listener->push(std::move(value));
  alive_at = Clock::now();
  return is_wanted;
}

void Visit::finish() noexcept { Dispatcher::on_finished(*this); }

}  // namespace hami

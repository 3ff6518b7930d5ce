// The stations of a request that the scheduler does not see, in the trace of its pipeline.
#include "core/error.h"
#include "graph/pipeline.h"
#include "graph/request.h"

namespace hami {
namespace {

TraceOutcome outcome_of(const std::exception_ptr& error) noexcept {
  if (error == nullptr) return TraceOutcome::kOk;
  try {
    std::rethrow_exception(error);
  } catch (const Error& own) {
    switch (own.kind()) {
      case ErrorKind::kDeadlineExceeded:
        return TraceOutcome::kDeadlineExceeded;
      case ErrorKind::kCancelled:
        return TraceOutcome::kCancelled;
      case ErrorKind::kClosed:
        return TraceOutcome::kClosed;
      default:
        return TraceOutcome::kError;
    }
  } catch (...) {
    return TraceOutcome::kError;
  }
}

}  // namespace

void Request::trace_submit(TimePoint begin, uint64_t parent) noexcept {
  Trace& trace = pipeline->trace();
  trace_id = trace.new_id();
  trace.record({.kind = TraceKind::kSubmit,
                .begin = begin,
                .end = Clock::now(),
                .request = trace_id,
                .batch = parent,
                .value = rows});
}

void Request::trace_refuse() const noexcept {
  if (trace_id == 0) return;
  pipeline->trace().record(
      {.kind = TraceKind::kRefuse, .begin = Clock::now(), .request = trace_id});
}

void Request::trace_partial(int node) const noexcept {
  if (trace_id == 0) return;
  pipeline->trace().record(
      {.kind = TraceKind::kPartial, .node = node, .begin = Clock::now(), .request = trace_id});
}

void Request::trace_answer() const noexcept {
  pipeline->trace().record({.kind = TraceKind::kAnswer,
                            .detail = static_cast<uint8_t>(outcome_of(error)),
                            .begin = Clock::now(),
                            .request = trace_id,
                            .value = pipeline->num_requests()});
}

void Request::trace_return(TimePoint begin) const noexcept {
  if (trace_id == 0) return;
  pipeline->trace().record(
      {.kind = TraceKind::kReturn, .begin = begin, .end = Clock::now(), .request = trace_id});
}

}  // namespace hami

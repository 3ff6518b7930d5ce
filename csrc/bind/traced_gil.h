// `TracedGil`: the GIL for one run of Python code, which shows in the trace of the pipeline how
// long the run waited for it and how long it kept it.
#pragma once

#include "bind/gil.h"
#include "core/trace.h"

namespace hami::bind {

class TracedGil {
 public:
  // REQUIRES: `trace` outlives the scope.
  TracedGil(Trace& trace, int32_t node)
      : trace_(trace), node_(node), outer_(innermost_), asked_(time()), gil_() {
    innermost_ = this;
    if (asked_ == TimePoint()) return;
    taken_ = Clock::now();
    // A thread that had it before, as a caller has, waited for nothing.
    if (gil_.was_taken()) note(TraceKind::kGilWait, asked_, taken_);
  }
  // Before the lock goes: who takes it next must not seem to have it at the same time.
  ~TracedGil() {
    if (asked_ != TimePoint()) note(TraceKind::kPython, taken_, Clock::now());
    innermost_ = outer_;
  }
  TracedGil(const TracedGil&) = delete;
  TracedGil& operator=(const TracedGil&) = delete;

 private:
  // A scope inside another one of the same pipeline is a part of it.
  TimePoint time() const noexcept {
    const bool is_part = outer_ != nullptr && &outer_->trace_ == &trace_;
    return trace_.is_on() && !is_part ? Clock::now() : TimePoint();
  }
  void note(TraceKind kind, TimePoint begin, TimePoint end) const noexcept {
    trace_.record({.kind = kind, .node = node_, .begin = begin, .end = end});
  }

  static inline thread_local const TracedGil* innermost_ = nullptr;

  Trace& trace_;
  const int32_t node_;
  const TracedGil* const outer_;
  const TimePoint asked_;
  const GilAcquire gil_;
  TimePoint taken_{};
};

}  // namespace hami::bind

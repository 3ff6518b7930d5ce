// `TracedGil`: the GIL for one run of Python code, which shows in the trace of the pipeline how long
// the run waited for it and how long it kept it.
#pragma once

#include "bind/gil.h"
#include "core/trace.h"

namespace hami::bind {

class TracedGil {
 public:
  // REQUIRES: `trace` outlives the scope.
  TracedGil(Trace& trace, int32_t node) : trace_(trace), node_(node), asked_(time()), gil_() {
    if (is_traced()) note(TraceKind::kGilWait, asked_, taken_ = Clock::now());
  }
  // Before the lock goes: who takes it next must not seem to have it at the same time.
  ~TracedGil() {
    if (is_traced()) note(TraceKind::kPython, taken_, Clock::now());
  }
  TracedGil(const TracedGil&) = delete;
  TracedGil& operator=(const TracedGil&) = delete;

 private:
  TimePoint time() const noexcept { return trace_.is_on() ? Clock::now() : TimePoint(); }
  // A scope inside another one is a part of it.
  bool is_traced() const noexcept { return asked_ != TimePoint() && gil_.was_taken(); }
  void note(TraceKind kind, TimePoint begin, TimePoint end) const noexcept {
    trace_.record({.kind = kind, .node = node_, .begin = begin, .end = end});
  }

  Trace& trace_;
  const int32_t node_;
  const TimePoint asked_;
  const GilAcquire gil_;
  TimePoint taken_{};
};

}  // namespace hami::bind

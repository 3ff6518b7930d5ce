// `hami._core.StepPlan`: a step of an `LlmScheduler` as Python executors read it, without copies.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <mutex>

#include "llm/llm_scheduler.h"

namespace hami::bind {

// A scheduler as its Python objects share it. The lock is only for programs that break the rule of
// the one thread: they get an order of calls, not a crash.
struct SharedScheduler {
  explicit SharedScheduler(const llm::Settings& settings) : scheduler(settings) {}
  std::mutex mutex;
  llm::LlmScheduler scheduler;
};

// The plan of one step. Its memory is the scheduler's, and lives as long as any view of it; what is
// in it is that of the last step.
class PlanObject {
 public:
  PlanObject(std::shared_ptr<SharedScheduler> owner, int64_t serial)
      : owner_(std::move(owner)), serial_(serial) {}

  // Raises RuntimeError when a later step has overwritten it.
  llm::StepPlan& plan() const;
  const std::shared_ptr<SharedScheduler>& owner() const noexcept { return owner_; }
  int64_t serial() const noexcept { return serial_; }

 private:
  std::shared_ptr<SharedScheduler> owner_;
  int64_t serial_;
};

void define_llm_plan(pybind11::module_& module);

}  // namespace hami::bind

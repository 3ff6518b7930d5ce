#include "schedule/order.h"

#include <algorithm>

#include "core/error.h"

namespace hami {
namespace {

HostOrderFactory the_host_order_factory = nullptr;

int64_t nanoseconds(TimePoint time) { return Duration(time.time_since_epoch()).count(); }

class Fifo final : public Order {
 public:
  int64_t order_of(const Task& task) const override { return nanoseconds(task.arrival); }
  bool is_arrival() const noexcept override { return true; }
};

// Higher first; waiting 100 ms is worth one step, so that nobody starves. Two waiting tasks age
// alike, so their order never changes while they wait.
class ByPriority final : public Order {
 public:
  int64_t order_of(const Task& task) const override {
    constexpr int64_t kStep = Duration(std::chrono::milliseconds(100)).count();
    constexpr int64_t kLargest = int64_t{1} << 31;
    return nanoseconds(task.arrival) - std::clamp(task.priority, -kLargest, kLargest) * kStep;
  }
};

class EarliestDeadlineFirst final : public Order {
 public:
  int64_t order_of(const Task& task) const override { return nanoseconds(task.deadline); }
};

}  // namespace

std::unique_ptr<Order> make_order(const Value& scheduler) {
  if (scheduler.is(Value::Kind::kAny)) return the_host_order_factory(scheduler.as_any());
  const std::string_view name = scheduler.as_text();
  if (name == "fifo") return std::make_unique<Fifo>();
  if (name == "priority") return std::make_unique<ByPriority>();
  if (name == "edf") return std::make_unique<EarliestDeadlineFirst>();
  throw Error(ErrorKind::kBuild, "build-scheduler", "unknown scheduler " + backticked(name),
              "use `fifo`, `priority` or `edf`");
}

void set_host_order_factory(HostOrderFactory factory) { the_host_order_factory = factory; }

}  // namespace hami

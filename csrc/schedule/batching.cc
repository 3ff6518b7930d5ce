#include "schedule/batching.h"

#include "core/error.h"

namespace hami {
namespace {
constexpr double kDefaultTimeoutMs = 4;
}  // namespace

Batching::Batching(Build& build) : timeout_ms_(build.params().find_float("batching_timeout")) {
  if (build.num_children() == 1) inject(build.child(0));
}

void Batching::inject(std::shared_ptr<Backend> dispatcher) {
  dispatcher_ = std::dynamic_pointer_cast<InstanceDispatcher>(dispatcher);
  if (dispatcher_ == nullptr) {
    throw Error(ErrorKind::kBuild, "build-inject", "`Batching` wraps a dispatcher only",
                "write `DI[Batching, InstanceDispatcher]`");
  }
  const double default_ms = dispatcher_->batch_range().max > 1 ? kDefaultTimeoutMs : 0;
  const std::chrono::duration<double, std::milli> timeout(timeout_ms_.value_or(default_ms));
  dispatcher_->set_batching(std::chrono::duration_cast<Duration>(timeout));
}

InstanceDispatcher& Batching::next() const {
  if (dispatcher_ == nullptr) {
    throw Error(ErrorKind::kBuild, "build-inject", "`Batching` has no dispatcher to feed",
                "write `DI[Batching, InstanceDispatcher]`");
  }
  return *dispatcher_;
}

HAMI_REGISTER(Batching, .family = "scheduling",
              .doc = "Waits for a fuller batch, but never for someone who cannot come.",
              .params = {{.name = "batching_timeout",
                          .type = "float",
                          .doc = "longest wait of an item for company; 4 where max > 1, else 0",
                          .unit = "ms",
                          .min = 0,
                          .max = 86400000}},
              .min_children = 0, .max_children = 1);

}  // namespace hami

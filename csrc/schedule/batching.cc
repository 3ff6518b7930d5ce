#include "schedule/batching.h"

#include "core/error.h"
#include "schedule/stateful_policy.h"

namespace hami {
namespace {
constexpr double kDefaultTimeoutMs = 4;
}  // namespace

Batching::Batching(Build& build) : timeout_ms_(build.params().find_float("batching_timeout")) {}

void Batching::inject(std::shared_ptr<Backend> dispatcher) {
  dispatcher_ = std::dynamic_pointer_cast<InstanceDispatcher>(dispatcher);
  if (dispatcher_ == nullptr) {
    throw Error(ErrorKind::kBuild, "build-inject", "`Batching` wraps a dispatcher only",
                "write `DI[Batching, InstanceDispatcher]`");
  }
  const double default_ms = dispatcher_->batch_range().max > 1 ? kDefaultTimeoutMs : 0;
  const std::chrono::duration<double, std::milli> timeout(timeout_ms_.value_or(default_ms));
  dispatcher_->set_batching(std::chrono::duration_cast<Duration>(timeout),
                            make_policy(*dispatcher_));
}

InstanceDispatcher& Batching::next() const {
  if (dispatcher_ == nullptr) {
    throw Error(ErrorKind::kBuild, "build-inject", "`Batching` has no dispatcher to feed",
                "write `DI[Batching, InstanceDispatcher]`");
  }
  return *dispatcher_;
}

namespace {

// Keeps all items of a sequence on the instance that holds its state.
class StatefulBatching final : public Batching {
 public:
  explicit StatefulBatching(Build& build)
      : Batching(build),
        ttl_ms_(build.params().get_float("state_ttl_ms")),
        storage_(build.scope().storage()) {}

 protected:
  std::unique_ptr<BatchPolicy> make_policy(const InstanceDispatcher& dispatcher) const override {
    const std::chrono::duration<double, std::milli> ttl(ttl_ms_);
    return std::make_unique<StatefulPolicy>(
        dispatcher.instance_ranges(), std::chrono::duration_cast<Duration>(ttl),
        // What backends kept for the sequence goes with it.
        [storage = storage_](const Value& request_id) { storage->erase_all(request_id); });
  }

 private:
  const double ttl_ms_;
  const std::shared_ptr<KVStorage> storage_;
};

const Param kBatchingTimeout{.name = "batching_timeout",
                             .type = "float",
                             .doc = "longest wait of an item for company; 4 where max > 1, else 0",
                             .unit = "ms",
                             .min = 0,
                             .max = 86400000};

// `Batching[dispatcher]` is short for `DI[Batching, dispatcher]`.
template <class Front>
std::shared_ptr<Backend> create(Build& build) {
  auto front = std::make_shared<Front>(build);
  if (build.num_children() == 1) front->inject(build.child(0));
  return front;
}

const Registration registration_of_batching{
    BackendClass{.name = "Batching",
                 .family = "scheduling",
                 .doc = "Waits for a fuller batch, but never for someone who cannot come.",
                 .params = {kBatchingTimeout},
                 .max_children = 1,
                 .create = create<Batching>}};

const Registration registration_of_stateful_batching{BackendClass{
    .name = "StatefulBatching",
    .family = "scheduling",
    .doc = "Sends all items of a `request_id` to the instance that holds its state, and "
           "waits for the other ids of that instance.",
    .params = {kBatchingTimeout,
               {.name = "state_ttl_ms",
                .type = "float",
                .doc = "how long a state without items lives",
                .default_value = Value(600000.0),
                .unit = "ms",
                .min = 0,
                .max = 86400000}},
    .max_children = 1,
    .create = create<StatefulBatching>}};

}  // namespace

}  // namespace hami

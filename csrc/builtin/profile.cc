// `Profile[X]`: measures every run of X, for the statistics of the pipeline. It writes nothing into
// the items, unless `key` says where they shall find the milliseconds of their run.
#include <atomic>
#include <optional>

#include "builtin/container.h"
#include "builtin/written_key.h"
#include "core/event.h"
#include "core/profiled.h"

namespace hami {
namespace {

class Profile final : public Container, public Profiled {
 public:
  explicit Profile(Build& build)
      : Container(build),
        node_(build.node_name()),
        backend_(build.expr().children[0].name),
        instance_(build.instance_index()) {
    if (build.params().is_set("key")) key_ = written_key(build);
  }

  Ends ends() const override { return children_[0]->ends(); }

  void forward(Batch batch) override {
    const TimePoint start = Clock::now();
    try {
      children_[0]->forward(batch);
    } catch (...) {
      num_raised_.fetch_add(1, std::memory_order_relaxed);
      count(batch, Clock::now() - start);
      throw;
    }
    const double run_ms = count(batch, Clock::now() - start);
    if (!key_) return;
    for (Item* item : batch) {
      if (item->error == nullptr) item->dict.set(*key_, Value(run_ms));
    }
  }

  RunFigures figures() const override {
    return {.node = node_,
            .backend = backend_,
            .instance = instance_,
            .num_items = num_items_.load(std::memory_order_relaxed),
            .num_rows = num_rows_.load(std::memory_order_relaxed),
            .num_raised = num_raised_.load(std::memory_order_relaxed),
            .run = run_.percentiles()};
  }

 private:
  // Returns the duration in milliseconds.
  double count(Batch batch, Duration duration) {
    num_items_.fetch_add(std::ssize(batch), std::memory_order_relaxed);
    num_rows_.fetch_add(num_rows(batch), std::memory_order_relaxed);
    run_.add(duration);
    return std::chrono::duration<double, std::milli>(duration).count();
  }

  const std::string node_;
  const std::string backend_;
  const int instance_;
  std::optional<Key> key_;
  // X may be reentrant, so several threads may count at once.
  std::atomic<int64_t> num_items_{0};
  std::atomic<int64_t> num_rows_{0};
  std::atomic<int64_t> num_raised_{0};
  LatencyHistogram run_;
};

const Registration registration{BackendClass{
    .name = "Profile",
    .family = "flow",
    .doc = "Measures every run of its child.",
    .params = {{.name = "key",
                .type = "str",
                .doc = "where items find the milliseconds of their run; without it nowhere"}},
    .min_children = 1,
    .max_children = 1,
    .create = [](Build& build) -> std::shared_ptr<Backend> {
      auto profile = std::make_shared<Profile>(build);
      build.scope().add_service(profile);
      return profile;
    }}};

}  // namespace
}  // namespace hami

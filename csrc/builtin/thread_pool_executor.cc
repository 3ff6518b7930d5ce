// `ThreadPoolExecutor(num_threads)[X]`: copies of X inside one instance, each with a thread. A
// batch is divided among them, so one large batch keeps several cores busy; what fails, fails in
// its part alone.
#include <algorithm>
#include <atomic>

#include "builtin/batch_parts.h"
#include "builtin/copies.h"
#include "builtin/worker_threads.h"
#include "core/error.h"
#include "core/isolation.h"

namespace hami {
namespace {

class ThreadPoolExecutor final : public Backend {
 public:
  explicit ThreadPoolExecutor(Build& build)
      : copies_(build_copies(build, static_cast<size_t>(build.params().get_int("num_threads")))),
        part_range_(copies_[0]->batch_range()),
        isolates_(build.params().get_bool("isolate_errors") && copies_[0]->traits().is_idempotent),
        threads_(copies_.size(), build.node_name() + ".pool") {}

  BatchRange batch_range() const override {
    const auto num_copies = static_cast<int64_t>(copies_.size());
    const bool is_bounded = part_range_.max <= BatchRange::kAny / num_copies;
    return {part_range_.min, is_bounded ? part_range_.max * num_copies : BatchRange::kAny};
  }
  Traits traits() const override {
    Traits traits = copies_[0]->traits();
    traits.is_inline = false;
    traits.is_reentrant = false;
    return traits;
  }
  size_t group_of(const Item& item) const override { return copies_[0]->group_of(item); }
  void collect_reads(std::vector<Key>& reads) const override { copies_[0]->collect_reads(reads); }
  int container_depth() const override { return copies_[0]->container_depth(); }
  Ends ends() const override { return copies_[0]->ends(); }

  void forward(Batch batch) override {
    const auto parts = divide_batch(batch, copies_.size(), part_range_);
    if (parts.size() == 1) return run(0, parts[0]);  // nothing to hand over
    std::atomic<size_t> next{0};
    threads_.run(std::min(parts.size(), copies_.size()), [&](size_t index) {
      for (size_t part = next++; part < parts.size(); part = next++) run(index, parts[part]);
    });
  }

 private:
  void run(size_t copy, Batch part) noexcept {
    if (num_rows(part) >= part_range_.min) return run_isolated(*copies_[copy], part, isolates_);
    const auto error = std::make_exception_ptr(
        Error(ErrorKind::kRequest, "request-too-small",
              std::to_string(num_rows(part)) + " rows are left for a backend that takes at least " +
                  std::to_string(part_range_.min),
              "set `max` to a multiple of what one thread takes"));
    for (Item* item : part) item->error = error;
  }

  const Backends copies_;
  const BatchRange part_range_;
  const bool isolates_;
  WorkerThreads threads_;  // last: ends first
};

HAMI_REGISTER(ThreadPoolExecutor, .family = "scheduling",
              .doc = "Divides each batch among copies of its child that run side by side.",
              .params = {{.name = "num_threads",
                          .type = "int",
                          .doc = "how many copies, each with a thread",
                          .default_value = Value(int64_t{4}),
                          .min = 1,
                          .max = 1024},
                         {.name = "isolate_errors",
                          .type = "bool",
                          .doc = "run a part that raises again in halves, so that only the bad "
                                 "item fails",
                          .default_value = Value(true)}},
              .min_children = 1, .max_children = 1);

}  // namespace
}  // namespace hami

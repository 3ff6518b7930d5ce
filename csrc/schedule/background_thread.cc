#include "schedule/background_thread.h"

#include <algorithm>

#include "core/error.h"
#include "schedule/isolation.h"

namespace hami {
namespace {

// The rows of one run: what the backend takes, narrowed to the node's `min` and `max`. A backend
// that takes any number runs one row at a time unless the node says otherwise.
BatchRange range_of_node(const Backend& backend, const Params& params) {
  const BatchRange own = backend.batch_range();
  BatchRange wanted{params.find_int("min").value_or(1), params.find_int("max").value_or(own.max)};
  if (wanted.max == BatchRange::kAny) wanted.max = std::max<int64_t>(1, wanted.min);
  const auto max = params.find_int("max");
  if (max && *max > own.max) {
    throw Error(ErrorKind::kBuild, "build-batch-range",
                "`max` = " + quoted(std::to_string(*max)) +
                    " is above what the backend can run at once, which is " +
                    quoted(std::to_string(own.max)),
                "lower `max` to " + std::to_string(own.max));
  }
  const BatchRange range = own.intersect(wanted);
  if (range.is_empty()) {
    throw Error(ErrorKind::kBuild, "build-batch-range",
                "no batch size fits both the node (" + std::to_string(wanted.min) + " to " +
                    std::to_string(wanted.max) + ") and the backend (at least " +
                    std::to_string(own.min) + ")",
                "raise `max` to at least " + std::to_string(own.min));
  }
  return range;
}

}  // namespace

BackgroundThread::BackgroundThread(Build& build)
    : backend_(build.child(0)),
      range_(range_of_node(*backend_, build.params())),
      isolates_errors_(build.params().get_bool("isolate_errors")),
      site_{build.node_name(), build.expr().children[0].name, build.instance_index()} {}

int64_t BackgroundThread::run(std::span<Task* const> tasks) {
  run_batch(*backend_, tasks, isolates_errors_ && backend_->traits().is_idempotent);
  int64_t num_failed = 0;
  for (Task* task : tasks) {
    if (task->error == nullptr) continue;
    task->site = site_;
    ++num_failed;
  }
  return num_failed;
}

HAMI_REGISTER(BackgroundThread, .family = "scheduling",
              .doc = "One instance of a node: a backend with a thread of its own.",
              .params = {{.name = "max", .type = "int", .doc = "most rows of one run", .min = 1},
                         {.name = "min", .type = "int", .doc = "fewest rows of one run", .min = 1},
                         {.name = "isolate_errors",
                          .type = "bool",
                          .doc = "run a batch that raises again in halves, so that only the bad "
                                 "item fails",
                          .default_value = Value(true)}},
              .min_children = 1, .max_children = 1);

}  // namespace hami

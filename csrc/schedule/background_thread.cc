#include "schedule/background_thread.h"

#include <pthread.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "schedule/isolation.h"

namespace hami {
namespace {

// The kernel keeps 15 characters of a thread's name.
void name_this_thread(const std::string& node, int index) {
  const std::string suffix = "." + std::to_string(index);
  pthread_setname_np(pthread_self(), (node.substr(0, 15 - suffix.size()) + suffix).c_str());
}

// The rows of one run: what the backend takes, narrowed to the node's `min` and `max`. A backend
// that takes any number runs one row at a time unless the node says otherwise.
BatchRange range_of_node(const Backend& backend, const Params& params) {
  const BatchRange own = backend.batch_range();
  BatchRange wanted{params.find_int("min").value_or(1), params.find_int("max").value_or(own.max)};
  if (wanted.max == BatchRange::kAny) wanted.max = std::max<int64_t>(1, wanted.min);
  const auto max = params.find_int("max");
  if (max && *max > own.max) {
    throw Error(ErrorKind::kBuild, "build-batch-range",
                "`max` = " + backticked(std::to_string(*max)) +
                    " is above what the backend can run at once, which is " +
                    backticked(std::to_string(own.max)),
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
      site_(std::make_shared<FailureSite>(build.node_name(), build.expr().children[0].name,
                                          build.instance_index())) {}

std::vector<std::shared_ptr<BackgroundThread>> BackgroundThread::find_all(Build& build) {
  std::vector<std::shared_ptr<BackgroundThread>> instances;
  for (const auto& backend : build.scope().find_indexed(build.node_name())) {
    auto instance = std::dynamic_pointer_cast<BackgroundThread>(backend);
    if (instance == nullptr) {
      throw Error(ErrorKind::kBuild, "build-instance-thread",
                  "the instances of node " + backticked(build.node_name()) + " have no threads",
                  "write `InstancesRegister[BackgroundThread[...]]`");
    }
    instances.push_back(std::move(instance));
  }
  if (instances.empty()) {
    throw Error(ErrorKind::kBuild, "build-no-instances",
                "node " + backticked(build.node_name()) + " has a dispatcher but no instances",
                "add `InstancesRegister[BackgroundThread[BackendProxy]]` before it");
  }
  return instances;
}

void BackgroundThread::launch(std::function<void()> work) {
  has_ended = false;
  try {
    thread = std::thread([name = site_->node, index = site_->instance, work = std::move(work)] {
      name_this_thread(name, index);
      work();
    });
  } catch (const std::system_error& error) {
    has_ended = true;  // nobody must wait for a thread that never was
    throw Error(ErrorKind::kBuild, "build-thread",
                "the thread of instance " + std::to_string(site_->instance) + " of node " +
                    backticked(site_->node) + " cannot be started: " + error.what(),
                "lower `instance_num`, or raise the limits of the process");
  }
}

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

// `Scope`: the names of ONE pipeline while it is built and run. Two pipelines in a process never
// share a name. Written only while building, on the building thread; read-only afterwards.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/backend.h"
#include "core/kv_storage.h"
#include "core/queue.h"
#include "core/run_watches.h"
#include "core/timer.h"
#include "core/trace.h"

namespace hami {

// What the schedulers of all nodes of a pipeline need to know of the whole.
struct PipelineLoad {
  // Items inside the pipeline that may still reach some queue: one per request and branch.
  std::atomic<int64_t> num_inside{0};
  // How deep the nodes look into lists and dicts. Set before the first request.
  int container_depth = 0;
  // Requests answered (deadline, cancellation, a failed branch) while items of theirs may wait.
  std::atomic<int64_t> num_early_answers{0};
  // Runs that stop when all their requests were answered early.
  RunWatches run_watches;
  // Nodes that hold a batch back in the hope of further items.
  std::atomic<int64_t> num_waiting_nodes{0};
  // Deadlines of requests, and of runs.
  Timer timer;
  // Its timeline, while somebody records one.
  Trace trace;
};

class Scope {
 public:
  explicit Scope(std::shared_ptr<PipelineLoad> load) : load_(std::move(load)) {}

  // Makes `backend` known under `name`. Throws a build error when the name is taken.
  void add(const std::string& name, std::shared_ptr<Backend> backend);
  // The backend registered under `name`, or null.
  std::shared_ptr<Backend> find(const std::string& name) const;
  // All backends registered as `prefix.0`, `prefix.1`, ... in order.
  std::vector<std::shared_ptr<Backend>> find_indexed(const std::string& prefix) const;
  // Keeps a backend alive as long as the pipeline without giving it a name.
  void keep(std::shared_ptr<Backend> backend) { kept_.push_back(std::move(backend)); }
  // Backends with threads, which the pipeline closes and joins, in the order they were made.
  void add_service(std::shared_ptr<Backend> service) { services_.push_back(std::move(service)); }
  const std::vector<std::shared_ptr<Backend>>& services() const noexcept { return services_; }
  const std::shared_ptr<PipelineLoad>& load() const noexcept { return load_; }
  // Backends that own more than memory, which the pipeline tears down at its end.
  void add_owner(std::shared_ptr<Backend> owner) { owners_.push_back(std::move(owner)); }
  const std::vector<std::shared_ptr<Backend>>& owners() const noexcept { return owners_; }
  // What backends share under a name of their choice; null until one of them sets it.
  Ref<Object>& shared(const std::string& name) { return shared_[name]; }

  // The queue of this name, made on first use.
  std::shared_ptr<Queue> default_queue(const std::string& name);
  // The same with its capacity. Throws a build error when the name has another one already.
  std::shared_ptr<Queue> declare_queue(const std::string& name, size_t capacity);
  std::vector<std::shared_ptr<Queue>> queues() const;
  // What the pipeline's backends keep beyond one call. Thread safe at any time.
  const std::shared_ptr<KVStorage>& storage() const noexcept { return storage_; }

 private:
  struct NamedQueue {
    std::shared_ptr<Queue> queue;
    bool is_declared = false;
  };

  std::map<std::string, std::shared_ptr<Backend>> backends_;
  std::vector<std::shared_ptr<Backend>> kept_;
  std::vector<std::shared_ptr<Backend>> services_;
  std::vector<std::shared_ptr<Backend>> owners_;
  std::map<std::string, Ref<Object>> shared_;
  std::shared_ptr<PipelineLoad> load_;
  std::map<std::string, NamedQueue> queues_;
  std::shared_ptr<KVStorage> storage_ = std::make_shared<KVStorage>();
};

}  // namespace hami

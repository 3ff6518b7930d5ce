// `Pipeline`: a plan that runs. It owns the nodes, admits requests, and ends them all in `close`.
// Everything here may be called from any thread, and nothing needs the host language.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/spin.h"
#include "graph/dispatcher.h"
#include "graph/request.h"
#include "plan/build.h"
#include "plan/expr.h"

namespace hami {

class Pipeline final : public std::enable_shared_from_this<Pipeline> {
 public:
  // Builds every node. Throws what a backend's constructor throws; what was built is closed then.
  static std::shared_ptr<Pipeline> create(Plan plan);
  ~Pipeline();

  // Admits the requests, all or none. Throws QueueFull, Closed or a request error; the requests
  // are then untouched.
  void submit(std::span<const Ref<Request>> requests);
  // Throws a request error when this thread holds an instance that the request may need, so that
  // waiting for the answer could last for ever. A deadline ends every wait.
  void check_may_wait_for(const Request& request) const;

  // Stops admission, lets requests end for `timeout` at most, fails the rest with `Closed`, and
  // ends the threads. True when everything ended by itself. A second call does nothing.
  bool close(Duration timeout) noexcept;
  bool is_closed() const noexcept { return is_closing_.load(std::memory_order_acquire); }

  std::vector<NodeStats> stats() const;
  // What is wrong now, in words; nothing while all is well.
  std::vector<std::string> problems() const;
  int64_t num_requests() const noexcept { return num_requests_.load(std::memory_order_relaxed); }
  const PipelineSettings& settings() const noexcept { return plan_.settings; }

  // What submit must bring along from the caller's dict.
  const std::vector<Key>& reads() const noexcept { return reads_; }
  bool reads_everything() const noexcept { return reads_everything_; }
  int container_depth() const noexcept { return load_->container_depth; }

  // --- for the dispatcher and the requests ---
  const Node& node(int index) const noexcept { return nodes_[static_cast<size_t>(index)]; }
  size_t num_nodes() const noexcept { return nodes_.size(); }
  // The fewest and most rows that the backends of a node get at once.
  BatchRange run_range(int index) const { return node(index).entry->run_range(); }
  const RegionPlan& region(int index) const noexcept {
    return plan_.regions[static_cast<size_t>(index)];
  }
  bool has_joins() const noexcept { return has_joins_; }
  bool has_restarts() const noexcept { return has_restarts_; }
  int find_root(std::string_view name) const;
  // Any node. Throws a request error when there is none of that name.
  int find_node(std::string_view name) const;
  Dispatcher& dispatcher() noexcept { return dispatcher_; }
  // Of threads that wait for an answer.
  Spin& spin() noexcept { return spin_; }
  Timer& timer() noexcept { return load_->timer; }
  Trace& trace() noexcept { return load_->trace; }
  // The number of items inside changes; nodes that wait for company may have to stop waiting.
  void add_inside(int64_t change) noexcept;
  // So many visits more, or less, wait in queues: they are not inside for others.
  void add_waiting(int64_t change) noexcept;
  // A request was answered before its visits had ended; those that wait in queues are dead.
  void note_early_answer() noexcept {
    load_->num_early_answers.fetch_add(1);
    load_->run_watches.look();
  }
  // The request was answered early: it, and what became moot with it, waits in no queue any more.
  void leave_queues(const Request& request) noexcept;
  // The request has its answer.
  void leave(const Request& request) noexcept;

 private:
  explicit Pipeline(Plan plan);
  void build_nodes();
  void build_node(size_t index, Scope& scope);
  void link_nodes();
  void collect_needs();
  bool passes(const Request& request, const std::string& node_name) const;
  void admit(int64_t num_requests);
  void remove(int64_t num_requests) noexcept;

  const Plan plan_;
  std::shared_ptr<PipelineLoad> load_ = std::make_shared<PipelineLoad>();
  Scope scope_{load_};
  std::vector<Node> nodes_;
  std::vector<Key> reads_;
  bool reads_everything_ = false;
  bool has_joins_ = false;
  bool has_restarts_ = false;
  std::vector<std::shared_ptr<Queue>> queues_;
  Dispatcher dispatcher_{*this};

  Spin spin_{Spin::kWakeCost};
  std::atomic<int64_t> num_requests_{0};
  std::atomic<int64_t> num_in_queues_{0};
  std::atomic<bool> is_closing_{false};
  std::mutex mutex_;
  std::condition_variable drained_;
};

}  // namespace hami

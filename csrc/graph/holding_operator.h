// `HoldingOperator`: what nodes have in common that hold requests without a thread, until something
// outside lets them go on: an element of a queue, or a backend that answers later. How many are
// inside at most is `queue_capacity`, as at any node. Any thread may call anything.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "plan/build.h"
#include "schedule/operator.h"

namespace hami {

class HoldingOperator : public Operator {
 public:
  explicit HoldingOperator(Build& build);

  void start(std::span<Task* const> tasks) override;
  bool start_bounded(std::span<Task* const> tasks) override;
  bool reserve(size_t num_tasks) override;
  void cancel_reservation(size_t num_tasks) override { leave(num_tasks); }
  bool has_room() const noexcept override;
  void add_upstream(Operator* upstream) override { upstreams_.push_back(upstream); }
  void add_downstream(Operator* downstream) override { downstreams_.push_back(downstream); }
  void reconsider() noexcept override;

 protected:
  const std::string& node_name() const noexcept { return node_name_; }
  const std::string& backend_name() const noexcept { return backend_name_; }
  int64_t num_here() const noexcept { return num_here_.load(std::memory_order_relaxed); }
  // So many of those that came have left. Who waits for room hears of it.
  void leave(size_t num_tasks) noexcept;

 private:
  bool has_room_downstream() const noexcept;

  const std::string node_name_;
  const std::string backend_name_;
  const int64_t capacity_;
  std::vector<Operator*> upstreams_;
  std::vector<Operator*> downstreams_;
  std::atomic<int64_t> num_here_{0};
};

}  // namespace hami

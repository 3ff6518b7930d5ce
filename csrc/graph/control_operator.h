// `ControlOperator`: what operators that direct the graph have in common. They hold nothing back
// themselves, so there is room in them while there is room behind them.
#pragma once

#include <vector>

#include "schedule/operator.h"

namespace hami {

class ControlOperator : public Operator {
 public:
  // Starts one task. What it throws becomes the error of that task.
  virtual void start_one(Task& task) = 0;

  void start(std::span<Task* const> tasks) final;
  // A task does not wait here, but what becomes of it would wait at the next node.
  bool start_bounded(std::span<Task* const> tasks) final;
  bool reserve(size_t) final { return has_room(); }
  bool has_room() const noexcept final;
  void add_downstream(Operator* downstream) final { downstreams_.push_back(downstream); }
  void add_upstream(Operator* upstream) final { upstreams_.push_back(upstream); }
  void reconsider() noexcept override;

 private:
  std::vector<Operator*> downstreams_;
  std::vector<Operator*> upstreams_;
};

}  // namespace hami

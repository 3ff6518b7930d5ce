// `Batching`: makes the dispatcher behind it wait for fuller batches. It is the node's entry: tasks
// pass through it into the dispatcher's queue, where the batching decision is taken.
#pragma once

#include <memory>

#include "plan/build.h"
#include "schedule/instance_dispatcher.h"

namespace hami {

class Batching : public Operator {
 public:
  explicit Batching(Build& build);

  void inject(std::shared_ptr<Backend> dispatcher) override;
  void start(std::span<Task* const> tasks) override { next().start(tasks); }
  bool start_bounded(std::span<Task* const> tasks) override { return next().start_bounded(tasks); }
  bool reserve(size_t num_tasks) override { return next().reserve(num_tasks); }
  void cancel_reservation(size_t num_tasks) override { next().cancel_reservation(num_tasks); }
  void start_reserved(std::span<Task* const> tasks) override { next().start_reserved(tasks); }
  bool has_room() const noexcept override { return dispatcher_->has_room(); }
  void add_upstream(Operator* upstream) override { next().add_upstream(upstream); }
  void add_downstream(Operator* downstream) override { next().add_downstream(downstream); }
  void reconsider() noexcept override { dispatcher_->reconsider(); }
  BatchRange batch_range() const override { return next().batch_range(); }
  BatchRange run_range() const override { return next().run_range(); }
  Traits traits() const override { return next().traits(); }
  void collect_reads(std::vector<Key>& reads) const override { next().collect_reads(reads); }
  int container_depth() const override { return next().container_depth(); }
  Ends ends() const override { return next().ends(); }

 protected:
  // The policy for the dispatcher to follow.
  virtual std::unique_ptr<BatchPolicy> make_policy(const InstanceDispatcher&) const {
    return std::make_unique<BatchPolicy>();
  }

 private:
  // Throws a build error when there is none.
  InstanceDispatcher& next() const;

  std::optional<double> timeout_ms_;
  std::shared_ptr<InstanceDispatcher> dispatcher_;
};

}  // namespace hami

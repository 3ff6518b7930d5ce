// `QueueOperator`: what `Send` and `Recv` have in common. Its requests wait in the queue, without a
// thread, until their element has moved, they are called off, or the queue closes.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "core/queue.h"
#include "graph/holding_operator.h"
#include "graph/pipeline.h"
#include "graph/request.h"
#include "plan/build.h"

namespace hami {

class QueueOperator : public HoldingOperator {
 public:
  explicit QueueOperator(Build& build);

  void start_reserved(std::span<Task* const> tasks) override;
  void close() noexcept override { queue_->close(); }
  void add_stats(std::vector<NodeStats>& all) const override;

  // The declared parameters that both have.
  static std::vector<Param> params();

 protected:
  using Outcome = Queue::Outcome;

  // One request of this node on its way through the queue.
  class Wait final : public Queue::Waiter {
   public:
    Wait(QueueOperator& owner, Visit& visit)
        : Waiter(visit.request.get()), operator_(owner), visit_(visit) {}
    bool is_wanted() const noexcept override { return !visit_.is_abandoned(); }
    void end(Outcome outcome) noexcept override { operator_.end(*this, outcome); }

   private:
    friend class QueueOperator;
    QueueOperator& operator_;
    Visit& visit_;
  };
  // Gets the waiter into the queue's line.
  virtual void enter(Queue& queue, Ref<Wait> wait, const Visit& visit) = 0;
  // The value has moved: carries the visit on, on any thread.
  virtual void carry_on(Visit& visit, Value value) = 0;

 private:
  void start_one(Visit& visit);
  void end(Wait& wait, Outcome outcome) noexcept;
  void fail(Visit& visit, std::exception_ptr error) noexcept;

  const std::shared_ptr<Queue> queue_;
  std::atomic<int64_t> num_moved_{0};
  std::atomic<int64_t> num_called_off_{0};
  std::atomic<int64_t> num_failed_{0};
};

// Makes an operator and gives it to the pipeline, which closes it.
template <class Class>
std::shared_ptr<Backend> create_queue_operator(Build& build) {
  auto made = std::make_shared<Class>(build);
  build.scope().add_service(made);
  return made;
}

}  // namespace hami

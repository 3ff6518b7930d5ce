// `PipelineTarget`: a pipeline as the loops of csrc/load call it, without the host language. Every
// call is a new request; the values of its input are shared, which is safe since they never change.
#pragma once

#include <memory>
#include <vector>

#include "graph/pipeline.h"
#include "load/closed_loop.h"
#include "load/open_loop.h"

namespace hami {

// A caller's dict, as it is read once; and the requests that are made of it.
struct LoadSample {
  Dict input;
  Ref<Object> base;
  int64_t rows = 1;
  int64_t priority = 0;
  // From the start of a request to its deadline; none where it is the largest.
  Duration time_limit = Duration::max();
  int root = -1;
};

class PipelineTarget final : public ClosedTarget, public OpenTarget {
 public:
  enum class Order { kGiven, kRandom };
  struct Choice {
    Order order = Order::kGiven;
    uint64_t seed = 0;
  };

  // `timeout`: a caller takes back what has no answer by then. REQUIRES: at least one sample.
  PipelineTarget(std::shared_ptr<Pipeline> pipeline, std::vector<LoadSample> samples, Choice choice,
                 size_t num_callers, Duration timeout);

  std::exception_ptr call(size_t caller, int64_t number) noexcept override;
  void start(const OpenCall& call) override;
  bool is_gone() noexcept override { return pipeline_->is_closed(); }

  // Takes back what callers wait for, now and from now on. Any thread.
  void cancel() noexcept;
  // What a request fails with that had no answer in time.
  std::exception_ptr unanswered() const;
  // Which sample request `number` is made of; depends on nothing but the choice.
  size_t sample_of(int64_t number) const noexcept;

 private:
  // What a caller sleeps for, with a reference of its own that goes to whoever takes it out.
  using Awaited = std::atomic<Request*>;

  Ref<Request> make(int64_t number, TimePoint sent) const;
  void await(Request& request, Awaited& awaited) noexcept;

  const std::shared_ptr<Pipeline> pipeline_;
  const std::vector<LoadSample> samples_;
  const Choice choice_;
  const Duration timeout_;
  std::vector<Awaited> awaited_;  // by caller
  std::atomic<bool> is_cancelled_{false};
};

}  // namespace hami

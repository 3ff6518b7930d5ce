// `DeferredOperator`: a node that takes requests one by one and answers each later, in any order
// and on any thread, such as a backend that batches continuously.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "core/latency_histogram.h"
#include "graph/holding_operator.h"
#include "graph/pipeline.h"
#include "graph/request.h"
#include "plan/build.h"

namespace hami {

class DeferredOperator : public HoldingOperator {
 public:
  // One request inside. It ends once: by whoever owes the answer, or by the end of the pipeline.
  // Any thread may call anything at any time, with no lock held, not even that of the host
  // language.
  class Stay final : public RefCounted {
   public:
    Stay(DeferredOperator& owner, Visit& visit);

    // Somebody still waits for the answer.
    bool is_wanted() const noexcept;
    // There is a place for a partial result. Without a listener there always is.
    bool has_room() const;
    // Somebody listens to partial results.
    bool is_streamed() const noexcept { return static_cast<bool>(stream_); }
    // Passes a partial result on; waits while there is no room, unless it is the last one. False
    // when nobody wants the rest.
    bool emit(Value partial, bool is_last = false) const;
    // Ends it with what `fill` writes into the item. False when it has ended before.
    template <class Fill>
    bool finish(Fill fill) {
      Visit* const visit = take();
      if (visit == nullptr) return false;
      try {
        fill(*visit);
      } catch (...) {
        visit->error = std::current_exception();
      }
      owner_.end(*this, *visit);
      return true;
    }
    bool fail(std::exception_ptr error);

   private:
    friend class DeferredOperator;
    Visit* take() noexcept { return visit_.exchange(nullptr, std::memory_order_acq_rel); }

    DeferredOperator& owner_;
    const std::shared_ptr<Pipeline> pipeline_;  // keeps the owner alive
    const Ref<Request> request_;
    const Ref<ResultStream> stream_;  // null when nobody listens
    const int node_;
    const TimePoint arrival_;
    std::atomic<Visit*> visit_;
  };

  explicit DeferredOperator(Build& build);

  void start_reserved(std::span<Task* const> tasks) override;
  void close() noexcept override;
  void add_stats(std::vector<NodeStats>& all) const override;

 protected:
  // Takes a request over; what it throws is the answer. The item is the callee's until the stay has
  // ended.
  virtual void begin(Ref<Stay> stay, Item& item) = 0;

 private:
  void start_one(Visit& visit);
  void end(Stay& stay, Visit& visit) noexcept;

  mutable std::mutex mutex_;
  struct ByAddress {
    bool operator()(const Ref<Stay>& left, const Ref<Stay>& right) const noexcept {
      return std::less<>()(left.get(), right.get());
    }
  };
  std::set<Ref<Stay>, ByAddress> inside_;  // whom `close` must answer
  LatencyHistogram run_;
  bool is_closed_ = false;

  std::atomic<int64_t> num_answered_{0};
  std::atomic<int64_t> num_failed_{0};
};

}  // namespace hami

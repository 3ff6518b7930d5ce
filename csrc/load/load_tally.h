// `LoadTally`: what the loops record, and `LoadFigures`, what it comes to. Recording takes no lock,
// but for an error: callers have parts of their own, and an open loop adds with atomic counters.
#pragma once

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>

#include "core/latency_histogram.h"

namespace hami {

struct LoadFigures {
  double seconds = 0;
  int64_t num_requests = 0;
  int64_t num_errors = 0;
  // Of the failed request that was sent first.
  std::exception_ptr first_error;
  // Of the requests without an error.
  Percentiles latency;
  // How late requests were sent; empty for a closed loop.
  Percentiles lateness;

  double throughput_per_s() const noexcept {
    return static_cast<double>(num_requests - num_errors) / std::max(seconds, 1e-9);
  }
};

class LoadTally {
 public:
  explicit LoadTally(size_t num_callers);

  // Request `number` has ended at `end`. Any thread.
  void add(size_t caller, int64_t number, TimePoint end, Duration latency,
           const std::exception_ptr& error) noexcept;
  void add_lateness(Duration lateness) noexcept { lateness_.add(lateness); }
  // So many more requests will never have an answer; `number` is the first of them.
  void add_unanswered(int64_t num_unanswered, int64_t number, const std::exception_ptr& error);

  int64_t num_ended() const noexcept;
  int64_t num_errors() const noexcept { return num_errors_.load(std::memory_order_relaxed); }
  // When the last answer came.
  TimePoint last_end() const noexcept;
  // Adds all up, over that time.
  LoadFigures figures(Duration duration) const;

 private:
  // Not beside that of another caller in one line of the cache.
  struct alignas(64) Part {
    std::atomic<int64_t> num_ended{0};
    std::atomic<TimePoint> last_end{TimePoint::min()};
    FineLatencyHistogram latency;
  };

  void keep_error(int64_t number, const std::exception_ptr& error) noexcept;

  const size_t num_parts_;
  const std::unique_ptr<Part[]> parts_;
  FineLatencyHistogram lateness_;
  std::atomic<int64_t> num_errors_{0};
  mutable std::mutex mutex_;
  int64_t first_failed_ = std::numeric_limits<int64_t>::max();
  std::exception_ptr first_error_;
};

}  // namespace hami

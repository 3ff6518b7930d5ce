// `LatencyHistogram`: how long something took, over all times that it happened. Its buckets grow
// with the value, so that a percentile is right to a sixteenth of itself whether it is microseconds
// or minutes; those of `FineLatencyHistogram`, which is eight times as large, to 0.4 percent. Any
// thread may add; reading while others add is fine.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "core/event.h"

namespace hami {

struct Percentiles {
  struct Bucket {
    double below_ms;
    int64_t count;
  };

  int64_t count = 0;
  double p50_ms = 0;
  double p90_ms = 0;
  double p99_ms = 0;
  double p999_ms = 0;
  double max_ms = 0;
  double mean_ms = 0;
  double sum_ms = 0;
  std::vector<Bucket> buckets;  // those that hold something, in order
};

// A power of two is cut into 2^kBitsOfPart equal buckets.
template <int kBitsOfPart>
class LatencyHistogramOf {
 public:
  void add(Duration duration) noexcept;
  // Adds what the other holds.
  void merge(const LatencyHistogramOf& other) noexcept;
  // Percentiles by nearest rank: the smallest bucket that holds at least that share of the values.
  // The sum takes each value for the middle of its bucket.
  Percentiles percentiles() const;

 private:
  // Below 2^kBitsOfPart ns there is a bucket for each value.
  static constexpr size_t kNumParts = size_t{1} << kBitsOfPart;
  static constexpr size_t kNumBuckets = (64 - kBitsOfPart) * kNumParts;

  static size_t bucket_of(uint64_t nanoseconds) noexcept;
  static double middle_ms(size_t bucket) noexcept;
  static double end_ms(size_t bucket) noexcept;
  void raise_longest(int64_t nanoseconds) noexcept;

  std::array<std::atomic<int64_t>, kNumBuckets> counts_{};
  std::atomic<int64_t> longest_{0};
};

extern template class LatencyHistogramOf<4>;
extern template class LatencyHistogramOf<7>;
using LatencyHistogram = LatencyHistogramOf<4>;
using FineLatencyHistogram = LatencyHistogramOf<7>;

}  // namespace hami

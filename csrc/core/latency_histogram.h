// `LatencyHistogram`: how long something took, over all times that it happened. Its buckets grow
// with the value, so that a percentile is right to a sixteenth of itself whether it is microseconds
// or minutes. Any thread may add; reading while others add is fine.
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
  double max_ms = 0;
  double sum_ms = 0;
  std::vector<Bucket> buckets;  // those that hold something, in order
};

class LatencyHistogram {
 public:
  void add(Duration duration) noexcept;
  // Percentiles by nearest rank: the smallest bucket that holds at least that share of the values.
  // The sum takes each value for the middle of its bucket.
  Percentiles percentiles() const;

 private:
  // A power of two is cut into 16 equal buckets; below 16 ns there is a bucket for each value.
  static constexpr int kBitsOfPart = 4;
  static constexpr size_t kNumParts = size_t{1} << kBitsOfPart;
  static constexpr size_t kNumBuckets = (64 - kBitsOfPart) * kNumParts;

  static size_t bucket_of(uint64_t nanoseconds) noexcept;
  static double middle_ms(size_t bucket) noexcept;
  static double end_ms(size_t bucket) noexcept;

  std::array<std::atomic<int64_t>, kNumBuckets> counts_{};
  std::atomic<int64_t> longest_{0};
};

}  // namespace hami

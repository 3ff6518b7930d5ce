#include "core/latency_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace hami {
namespace {
constexpr double kNanosecondsPerMs = 1e6;
}  // namespace

template <int kBitsOfPart>
size_t LatencyHistogramOf<kBitsOfPart>::bucket_of(uint64_t nanoseconds) noexcept {
  if (nanoseconds < kNumParts) return static_cast<size_t>(nanoseconds);
  const int shift = std::bit_width(nanoseconds) - 1 - kBitsOfPart;
  const uint64_t part = (nanoseconds >> shift) - kNumParts;
  return static_cast<size_t>(shift + 1) * kNumParts + static_cast<size_t>(part);
}

template <int kBitsOfPart>
double LatencyHistogramOf<kBitsOfPart>::middle_ms(size_t bucket) noexcept {
  if (bucket < kNumParts) return static_cast<double>(bucket) / kNanosecondsPerMs;
  const auto shift = static_cast<int>(bucket / kNumParts) - 1;
  const auto least = static_cast<double>(kNumParts + bucket % kNumParts);
  return std::ldexp(least + 0.5, shift) / kNanosecondsPerMs;
}

template <int kBitsOfPart>
double LatencyHistogramOf<kBitsOfPart>::end_ms(size_t bucket) noexcept {
  if (bucket < kNumParts) return static_cast<double>(bucket + 1) / kNanosecondsPerMs;
  const auto shift = static_cast<int>(bucket / kNumParts) - 1;
  return std::ldexp(static_cast<double>(kNumParts + bucket % kNumParts + 1), shift) /
         kNanosecondsPerMs;
}

template <int kBitsOfPart>
void LatencyHistogramOf<kBitsOfPart>::add(Duration duration) noexcept {
  const int64_t nanoseconds =
      std::max<int64_t>(0, std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count());
  counts_[bucket_of(static_cast<uint64_t>(nanoseconds))].fetch_add(1, std::memory_order_relaxed);
  raise_longest(nanoseconds);
}

template <int kBitsOfPart>
void LatencyHistogramOf<kBitsOfPart>::merge(const LatencyHistogramOf& other) noexcept {
  for (size_t i = 0; i < kNumBuckets; ++i) {
    const int64_t count = other.counts_[i].load(std::memory_order_relaxed);
    if (count != 0) counts_[i].fetch_add(count, std::memory_order_relaxed);
  }
  raise_longest(other.longest_.load(std::memory_order_relaxed));
}

template <int kBitsOfPart>
void LatencyHistogramOf<kBitsOfPart>::raise_longest(int64_t nanoseconds) noexcept {
  int64_t longest = longest_.load(std::memory_order_relaxed);
  while (longest < nanoseconds &&
         !longest_.compare_exchange_weak(longest, nanoseconds, std::memory_order_relaxed)) {
  }
}

template <int kBitsOfPart>
Percentiles LatencyHistogramOf<kBitsOfPart>::percentiles() const {
  std::array<int64_t, kNumBuckets> counts{};
  Percentiles found;
  for (size_t i = 0; i < kNumBuckets; ++i) {
    counts[i] = counts_[i].load(std::memory_order_relaxed);
    if (counts[i] == 0) continue;
    found.count += counts[i];
    found.sum_ms += static_cast<double>(counts[i]) * middle_ms(i);
    found.buckets.push_back({end_ms(i), counts[i]});
  }
  if (found.count == 0) return found;
  found.mean_ms = found.sum_ms / static_cast<double>(found.count);
  found.max_ms = static_cast<double>(longest_.load(std::memory_order_relaxed)) / kNanosecondsPerMs;
  const auto at = [&](double share) {
    const auto rank = static_cast<int64_t>(std::ceil(share * static_cast<double>(found.count)));
    int64_t num_below = 0;
    size_t bucket = 0;
    while ((num_below += counts[bucket]) < rank) ++bucket;
    return std::min(middle_ms(bucket), found.max_ms);
  };
  found.p50_ms = at(0.5);
  found.p90_ms = at(0.9);
  found.p99_ms = at(0.99);
  found.p999_ms = at(0.999);
  return found;
}

template class LatencyHistogramOf<4>;
template class LatencyHistogramOf<7>;

}  // namespace hami

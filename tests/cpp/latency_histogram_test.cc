// Percentiles from buckets: right to a sixteenth over twelve orders of magnitude.
#include "core/latency_histogram.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

namespace hami {
namespace {

TEST_SUITE_BEGIN("histogram");

using std::chrono::microseconds;
using std::chrono::nanoseconds;

bool is_close(double got, double wanted) { return std::abs(got - wanted) <= wanted / 16; }

TEST_CASE("nothing added gives zeros") {
  const Percentiles found = LatencyHistogram().percentiles();
  CHECK(found.count == 0);
  CHECK(found.max_ms == 0);
}

TEST_CASE("one value is every percentile, at any size") {
  for (double ns = 1; ns < 1e18; ns *= 3.7) {
    LatencyHistogram histogram;
    histogram.add(nanoseconds(static_cast<int64_t>(ns)));
    const Percentiles found = histogram.percentiles();
    CAPTURE(ns);
    CHECK(found.max_ms == static_cast<double>(static_cast<int64_t>(ns)) / 1e6);
    CHECK(is_close(found.p50_ms, found.max_ms));
    CHECK(is_close(found.p99_ms, found.max_ms));
    CHECK(found.p99_ms <= found.max_ms);
  }
}

TEST_CASE("percentiles are those of the sorted values") {
  LatencyHistogram histogram;
  for (int i = 1000; i >= 1; --i) histogram.add(microseconds(i));
  const Percentiles found = histogram.percentiles();
  CHECK(found.count == 1000);
  CHECK(is_close(found.p50_ms, 0.5));
  CHECK(is_close(found.p90_ms, 0.9));
  CHECK(is_close(found.p99_ms, 0.99));
  CHECK(found.max_ms == 1);
}

TEST_CASE("a clock that ran backwards counts as nothing") {
  LatencyHistogram histogram;
  histogram.add(nanoseconds(-5));
  CHECK(histogram.percentiles().count == 1);
  CHECK(histogram.percentiles().max_ms == 0);
}

TEST_CASE("buckets hold every value below their end, and their sum is close") {
  LatencyHistogram histogram;
  for (int i = 1000; i >= 1; --i) histogram.add(microseconds(i));
  histogram.add(nanoseconds(3));
  const Percentiles found = histogram.percentiles();
  int64_t num_below = 0;
  double before_ms = 0;
  for (const auto& [below_ms, count] : found.buckets) {
    CHECK(count > 0);
    CHECK(below_ms > before_ms);
    before_ms = below_ms;
    num_below += count;
    // Every microsecond that is shorter lies in this bucket or in one before.
    const double num_shorter = std::min(std::ceil(below_ms * 1000 - 1e-9) - 1, 1000.0);
    CHECK(num_below == static_cast<int64_t>(std::max(num_shorter, 0.0)) + 1);
  }
  CHECK(num_below == found.count);
  CHECK(is_close(found.sum_ms, 500.5));
}

TEST_CASE("a fine histogram is right to 0.4 percent, at any size") {
  for (double ns = 1; ns < 1e18; ns *= 1.37) {
    FineLatencyHistogram histogram;
    histogram.add(nanoseconds(static_cast<int64_t>(ns)));
    // A larger value, since none is shown beyond the largest.
    histogram.add(nanoseconds(static_cast<int64_t>(ns * 2)));
    const double wanted = static_cast<double>(static_cast<int64_t>(ns)) / 1e6;
    CAPTURE(ns);
    CHECK(std::abs(histogram.percentiles().p50_ms - wanted) <= wanted * 0.004);
  }
}

TEST_CASE("a merged histogram holds what both held") {
  LatencyHistogram low;
  LatencyHistogram high;
  for (int i = 1; i <= 500; ++i) low.add(microseconds(i));
  for (int i = 501; i <= 1000; ++i) high.add(microseconds(i));
  low.merge(high);
  const Percentiles found = low.percentiles();
  CHECK(found.count == 1000);
  CHECK(is_close(found.p50_ms, 0.5));
  CHECK(is_close(found.p999_ms, 0.999));
  CHECK(is_close(found.mean_ms, 0.5005));
  CHECK(found.max_ms == 1);
}

TEST_CASE("without values there is no bucket") {
  CHECK(LatencyHistogram().percentiles().buckets.empty());
}

TEST_SUITE_END();

}  // namespace
}  // namespace hami

// When the requests of an open loop are sent.
#include "load/arrivals.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

namespace hami {
namespace {

TEST_SUITE_BEGIN("load");

using std::chrono::nanoseconds;

std::vector<double> gaps_of(Arrivals arrivals, int num_gaps) {
  std::vector<double> gaps;
  Duration last{};
  for (int i = 0; i < num_gaps; ++i) {
    const Duration at = arrivals.next();
    gaps.push_back(std::chrono::duration<double>(at - last).count());
    last = at;
  }
  return gaps;
}

TEST_CASE("a fixed rate begins at once and never drifts") {
  Arrivals arrivals(3.0, Arrivals::Kind::kFixed, 0);
  for (int64_t i = 0; i <= 300'000; ++i) {
    const Duration at = arrivals.next();
    if (i == 1) CHECK(at == nanoseconds(333'333'333));
    if (i % 3 == 0) CHECK_MESSAGE(at == std::chrono::seconds(i / 3), i);
  }
}

TEST_CASE("gaps of a Poisson process have the mean and the variance of an exponential") {
  constexpr double kRate = 2000;
  constexpr int kNumGaps = 200'000;
  const auto gaps = gaps_of(Arrivals(kRate, Arrivals::Kind::kPoisson, 7), kNumGaps);
  double sum = 0;
  double squares = 0;
  int num_above_mean = 0;
  for (double gap : gaps) {
    CHECK_MESSAGE(gap >= 0, gap);
    sum += gap;
    squares += gap * gap;
    num_above_mean += gap > 1 / kRate ? 1 : 0;
  }
  const double mean = sum / kNumGaps;
  const double variance = squares / kNumGaps - mean * mean;
  // Four standard errors.
  CHECK(mean * kRate == doctest::Approx(1).epsilon(0.009));
  CHECK(variance * kRate * kRate == doctest::Approx(1).epsilon(0.026));
  CHECK(num_above_mean / double{kNumGaps} == doctest::Approx(std::exp(-1)).epsilon(0.012));
}

TEST_CASE("gaps of a Poisson process do not depend on the gap before") {
  const auto gaps = gaps_of(Arrivals(1, Arrivals::Kind::kPoisson, 11), 100'000);
  double products = 0;
  for (size_t i = 1; i < gaps.size(); ++i) products += (gaps[i] - 1) * (gaps[i - 1] - 1);
  CHECK(std::abs(products / static_cast<double>(gaps.size())) < 0.013);
}

TEST_CASE("a seed gives the same times again, and another one others") {
  const auto first = gaps_of(Arrivals(100, Arrivals::Kind::kPoisson, 5), 100);
  CHECK(first == gaps_of(Arrivals(100, Arrivals::Kind::kPoisson, 5), 100));
  CHECK(first != gaps_of(Arrivals(100, Arrivals::Kind::kPoisson, 6), 100));
}

TEST_SUITE_END();

}  // namespace
}  // namespace hami

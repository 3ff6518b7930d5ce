#include "load/arrivals.h"

#include <cmath>

namespace hami {

Duration Arrivals::next() noexcept {
  // The sum is kept in units of the mean gap: that of a fixed rate is then a whole number, and
  // nothing adds up to a drift.
  if (kind_ == Kind::kPoisson) {
    const double uniform = static_cast<double>(random_() >> 11) * 0x1p-53;  // in [0, 1)
    num_mean_gaps_ += -std::log1p(-uniform);
  }
  const std::chrono::duration<double> at(num_mean_gaps_ / rate_per_s_);
  if (kind_ == Kind::kFixed) num_mean_gaps_ += 1;
  return std::chrono::duration_cast<Duration>(at);
}

}  // namespace hami

// `Arrivals`: when the requests of an open loop are sent. The times depend on nothing but rate,
// kind and seed, never on what becomes of the requests. One thread.
#pragma once

#include <cstdint>
#include <random>

#include "core/event.h"

namespace hami {

class Arrivals {
 public:
  enum class Kind { kPoisson, kFixed };

  // REQUIRES: a rate above zero.
  Arrivals(double rate_per_s, Kind kind, uint64_t seed) noexcept
      : rate_per_s_(rate_per_s), kind_(kind), random_(seed) {}

  // When the next request is sent, counted from the start.
  Duration next() noexcept;

 private:
  const double rate_per_s_;
  const Kind kind_;
  // Its numbers are the same with every standard library, unlike those of the distributions.
  std::mt19937_64 random_;
  double num_mean_gaps_ = 0;
};

}  // namespace hami

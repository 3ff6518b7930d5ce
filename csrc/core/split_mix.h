// `split_mix`: numbers that look random, the n-th of a stream by itself. For choices that must come
// out the same for a seed, whichever thread makes them.
#pragma once

#include <cstdint>

namespace hami {

// The finaliser of SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number
// generators", OOPSLA 2014, with the constants of Vigna's public-domain splitmix64.c.
constexpr uint64_t split_mix(uint64_t bits) noexcept {
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9ULL;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBULL;
  return bits ^ (bits >> 31);
}

// What the states of two neighbours of a stream differ by.
constexpr uint64_t kGoldenGamma = 0x9E3779B97F4A7C15ULL;

}  // namespace hami

// The two floating types of 16 bits, as conversions from and to float. Arithmetic on them is the
// business of engines.
#pragma once

#include <bit>
#include <cstdint>

namespace hami {

// IEEE 754 binary16. Rounds to nearest, ties to even; a double is rounded to float first.
class Float16 {
 public:
  Float16() = default;
  template <class T>
  explicit Float16(T number) : bits_(encode(static_cast<float>(number))) {}
  template <class T>
  explicit operator T() const {
    return static_cast<T>(decode(bits_));
  }

 private:
  static uint16_t encode(float number) {
    const auto all = std::bit_cast<uint32_t>(number);
    const auto sign = static_cast<uint16_t>((all >> 16) & 0x8000);
    const uint32_t magnitude = all & 0x7FFFFFFF;
    constexpr uint32_t kInfinity = 0x7F800000;
    if (magnitude > kInfinity) return sign | 0x7E00;
    constexpr uint32_t kRoundsToInfinity = 0x477FF000;  // 65520, halfway above the largest number
    if (magnitude >= kRoundsToInfinity) return sign | 0x7C00;
    constexpr uint32_t kSmallestNormal = 0x38800000;  // 2^-14
    if (magnitude < kSmallestNormal) {
      // Adding 1/2 leaves, as the last bits of the sum, the multiples of 2^-24: rounded by the
      // processor.
      const float sum = std::bit_cast<float>(magnitude) + 0.5F;
      return sign | static_cast<uint16_t>(std::bit_cast<uint32_t>(sum) - 0x3F000000);
    }
    // 13 bits of the fraction go; a carry runs into the exponent, where it belongs.
    const uint32_t is_odd = (magnitude >> 13) & 1;
    const uint32_t rounded = magnitude - (112U << 23) + 0xFFF + is_odd;
    return sign | static_cast<uint16_t>(rounded >> 13);
  }

  static float decode(uint16_t bits) {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
    const uint32_t exponent = (bits >> 10) & 0x1F;
    const uint32_t fraction = bits & 0x3FF;
    if (exponent == 0) {
      const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
      return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
    }
    const uint32_t wide = exponent == 31 ? 255 : exponent + 112;
    return std::bit_cast<float>(sign | (wide << 23) | (fraction << 13));
  }

  uint16_t bits_ = 0;
};

// The upper half of a float. Rounds to nearest, ties to even.
class Bfloat16 {
 public:
  Bfloat16() = default;
  template <class T>
  explicit Bfloat16(T number) : bits_(encode(static_cast<float>(number))) {}
  template <class T>
  explicit operator T() const {
    return static_cast<T>(std::bit_cast<float>(static_cast<uint32_t>(bits_) << 16));
  }

 private:
  static uint16_t encode(float number) {
    const auto all = std::bit_cast<uint32_t>(number);
    const bool is_nan = (all & 0x7FFFFFFF) > 0x7F800000;
    if (is_nan) return static_cast<uint16_t>((all >> 16) | 0x40);  // still not a number when cut
    return static_cast<uint16_t>((all + 0x7FFF + ((all >> 16) & 1)) >> 16);
  }

  uint16_t bits_ = 0;
};

}  // namespace hami

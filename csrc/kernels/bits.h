// The two floating types of 16 bits as the bits that buffers hold.
#pragma once

#include <bit>
#include <cstdint>

#include "core/float16.h"

namespace hami::kernels {

template <class Half>
inline uint16_t bits_of(Half number) {
  return std::bit_cast<uint16_t>(number);
}

template <class Half>
inline Half bits_to(uint16_t bits) {
  return std::bit_cast<Half>(bits);
}

}  // namespace hami::kernels

// What every isa_*.cc includes first, before it turns its instruction set on: functions of the
// standard library must not be compiled for processors that others lack, since the linker keeps
// one copy of each. `HAMI_TARGET_BEGIN(...)` and `HAMI_TARGET_END` enclose what is compiled for
// them.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "kernels/bits.h"
#include "kernels/kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define HAMI_INLINE inline __attribute__((always_inline))
#define HAMI_NOINLINE __attribute__((noinline))
// Nothing happens to the pointer, and the compiler does not know.
#define HAMI_OPAQUE(pointer) asm volatile("" : "+r"(pointer))
#define HAMI_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define HAMI_TARGET_BEGIN(features) \
  HAMI_PRAGMA(clang attribute push(__attribute__((target(features))), apply_to = function))
#define HAMI_TARGET_END HAMI_PRAGMA(clang attribute pop)
#else
#define HAMI_TARGET_BEGIN(features) \
  HAMI_PRAGMA(GCC push_options)     \
  HAMI_PRAGMA(GCC target(features))
#define HAMI_TARGET_END HAMI_PRAGMA(GCC pop_options)
#endif

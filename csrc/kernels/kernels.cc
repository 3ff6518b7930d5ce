#include "kernels/kernels.h"

#include "kernels/tables.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace hami::kernels {
namespace {

#if defined(__x86_64__)
// Asked of the processor itself where older compilers have no name for a feature. That the system
// saves the wide registers is what __builtin_cpu_supports adds for avx2 and avx512f.
bool has_f16c() noexcept {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c >> 29 & 1) != 0;
}

bool has_avx512_bf16() noexcept {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> 5 & 1) != 0;
}

bool has_avx512_vnni() noexcept {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (c >> 11 & 1) != 0;
}
#endif

// Even making a table may use the instructions that it is for.
Kernels table_of(Isa isa) {
  if (!is_supported(isa)) return portable_table();
#if defined(__x86_64__)
  switch (isa) {
    case Isa::kPortable:
      return portable_table();
    case Isa::kAvx2:
      return avx2_table();
    case Isa::kAvx512:
      return avx512_table();
    case Isa::kAvx512Bf16:
      return avx512_bf16_table();
  }
#endif
  return portable_table();
}

}  // namespace

bool is_supported(Isa isa) noexcept {
  if (isa == Isa::kPortable) return true;
#if defined(__x86_64__)
  __builtin_cpu_init();
  static const bool avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  static const bool avx512 =
      avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  static const bool bf16 = avx512 && has_avx512_bf16() && has_avx512_vnni();
  return isa == Isa::kAvx2 ? avx2 : isa == Isa::kAvx512 ? avx512 : bf16;
#else
  return false;
#endif
}

Isa best_isa() noexcept {
  for (const Isa isa : {Isa::kAvx512Bf16, Isa::kAvx512, Isa::kAvx2}) {
    if (is_supported(isa)) return isa;
  }
  return Isa::kPortable;
}

const Kernels& kernels_of(Isa isa) {
  static const Kernels portable = table_of(Isa::kPortable);
  static const Kernels avx2 = table_of(Isa::kAvx2);
  static const Kernels avx512 = table_of(Isa::kAvx512);
  static const Kernels avx512_bf16 = table_of(Isa::kAvx512Bf16);
  switch (isa) {
    case Isa::kPortable:
      return portable;
    case Isa::kAvx2:
      return avx2;
    case Isa::kAvx512:
      return avx512;
    case Isa::kAvx512Bf16:
      return avx512_bf16;
  }
  return portable;
}

const char* name_of(Isa isa) noexcept {
  constexpr const char* kNames[] = {"portable", "avx2", "avx512", "avx512_bf16"};
  return kNames[static_cast<int>(isa)];
}

const char* name_of(Format format) noexcept {
  constexpr const char* kNames[] = {"float32", "bfloat16", "float16", "q8", "q4"};
  return kNames[static_cast<int>(format)];
}

size_t bytes_of(Format format) noexcept {
  constexpr size_t kBytes[] = {4, 2, 2, 34, 20};
  return kBytes[static_cast<int>(format)];
}

size_t attention_scratch(int head_dim) noexcept {
  constexpr size_t kWidestPanel = 32;
  const size_t row =
      (static_cast<size_t>(head_dim) + kWidestPanel - 1) / kWidestPanel * kWidestPanel;
  return 2 * kMaxQueries * row + kMaxQueries * kKeyTile + 2 * kKeyTile * row;
}

}  // namespace hami::kernels

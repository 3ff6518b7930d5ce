// The kernels for processors with AVX-512 and its products of bfloat16.
#include "kernels/isa_begin.h"
#include "kernels/tables.h"

#if defined(__x86_64__)
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // in the header of the intrinsics
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#define HAMI_ISA Isa::kAvx512Bf16
#define HAMI_HAS_VNNI 1
HAMI_TARGET_BEGIN("avx512bf16,avx512vnni,avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")

namespace hami::kernels {
namespace avx512_bf16 {

#include "kernels/simd_avx512.h"
//
#include "kernels/matmul_body.h"
//
#include "kernels/rows_body.h"
//
#include "kernels/blocks_body.h"
//
#include "kernels/dot_bf16_body.h"
//
#include "kernels/attention_body.h"
//
#include "kernels/attention_many_body.h"
//
#include "kernels/attention_bf16_body.h"
//
#include "kernels/table_body.h"

}  // namespace avx512_bf16

Kernels avx512_bf16_table() {
  Kernels table = avx512_bf16::make_table();
  const int bfloat16 = static_cast<int>(Format::kBfloat16);
  table.matmul[bfloat16] = &avx512_bf16::matmul<avx512_bf16::DotBfloat16Kernel>;
  table.round[bfloat16] = &avx512_bf16::round_to_bf16;
  table.attend_many[bfloat16] = &avx512_bf16::attend_many<avx512_bf16::Bfloat16Tile>;
  return table;
}

}  // namespace hami::kernels

HAMI_TARGET_END
#endif

// The kernels for processors with AVX-512.
#include "kernels/isa_begin.h"
#include "kernels/tables.h"

#if defined(__x86_64__)
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // in the header of the intrinsics
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#define HAMI_ISA Isa::kAvx512
#define HAMI_HAS_VNNI 0
HAMI_TARGET_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")

namespace hami::kernels {
namespace avx512 {

#include "kernels/simd_avx512.h"
//
#include "kernels/matmul_body.h"
//
#include "kernels/rows_body.h"
//
#include "kernels/blocks_body.h"
//
#include "kernels/attention_body.h"
//
#include "kernels/attention_many_body.h"
//
#include "kernels/table_body.h"

}  // namespace avx512

Kernels avx512_table() { return avx512::make_table(); }

}  // namespace hami::kernels

HAMI_TARGET_END
#endif

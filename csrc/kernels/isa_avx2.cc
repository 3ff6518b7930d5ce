// The kernels for processors with AVX2, FMA and F16C.
#include "kernels/isa_begin.h"
#include "kernels/tables.h"

#if defined(__x86_64__)
HAMI_TARGET_BEGIN("avx2,fma,f16c")

namespace hami::kernels {
namespace avx2 {

#include "kernels/simd_avx2.h"
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

}  // namespace avx2

Kernels avx2_table() { return avx2::make_table(); }

}  // namespace hami::kernels

HAMI_TARGET_END
#endif

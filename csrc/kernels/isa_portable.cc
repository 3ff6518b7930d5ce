// The kernels for any processor.
#include "kernels/isa_begin.h"
#include "kernels/tables.h"

namespace hami::kernels {
namespace portable {

#include "kernels/simd_portable.h"
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

}  // namespace portable

Kernels portable_table() { return portable::make_table(); }

}  // namespace hami::kernels

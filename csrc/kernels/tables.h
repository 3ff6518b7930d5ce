// The tables that the files of the instruction sets make; kernels.cc picks from them.
#pragma once

#include "kernels/kernels.h"

namespace hami::kernels {

Kernels portable_table();
Kernels avx2_table();
Kernels avx512_table();
Kernels avx512_bf16_table();

}  // namespace hami::kernels

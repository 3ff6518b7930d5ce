// What one kind of processor can do: a table of functions, written once over a vector type and
// compiled for each instruction set (isa_*.cc). All pointers are to plain memory; nothing here
// checks, allocates or waits, and everything may run on many threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace hami::kernels {

// Instruction sets, each one including those before it.
enum class Isa { kPortable, kAvx2, kAvx512, kAvx512Bf16 };
constexpr int kNumIsas = 4;

// How weights, or keys and values, are stored. The last two are blocks of 32 with a scale.
enum class Format { kFloat32, kBfloat16, kFloat16, kQ8, kQ4 };
constexpr int kNumFormats = 5;

// What a product of matrices does with its result.
enum class Epilogue {
  kStore,    // out = product + bias
  kAdd,      // out += product
  kSiluMul,  // panels in pairs: out = silu(product of the first) * product of the second
};

// Rows of activations times panels of packed weights.
struct MatmulArgs {
  const void* x = nullptr;  // rows as `round` writes them, else of floats
  size_t x_stride = 0;      // bytes
  int num_rows = 0;
  const std::byte* panels = nullptr;  // the first of the matrix
  size_t panel_bytes = 0;
  int first_panel = 0;
  int num_panels = 0;  // pairs of panels with kSiluMul
  int depth = 0;       // a multiple of kDepthStep
  float* out = nullptr;
  size_t out_stride = 0;  // floats
  int num_cols = 0;       // columns of `out`; the last panel may have more
  Epilogue epilogue = Epilogue::kStore;
  const float* bias = nullptr;
};
using Matmul = void (*)(const MatmulArgs&);

// The depth of a packed matrix is filled with zeros up to a multiple of this.
constexpr int kDepthStep = 32;

// Queries of consecutive tokens of one row, and one head of its keys and values.
struct AttentionArgs {
  const float* q = nullptr;  // `group` heads of `head_dim` for each token
  size_t q_stride = 0;       // floats from token to token
  int num_tokens = 0;
  int group = 0;
  int head_dim = 0;
  const void* keys = nullptr;  // page 0 of this head
  const void* values = nullptr;
  size_t page_stride = 0;  // elements from page to page
  int page_size = 0;
  const int32_t* pages = nullptr;
  int first_position = 0;  // of the first token
  int begin = 0;           // the keys to look at: [begin, end), and none after the token
  int end = 0;
  float scale = 0;
  float* out = nullptr;  // as q
  size_t out_stride = 0;
  float* sums = nullptr;  // null, or (maximum, sum) per query: then `out` is not yet divided
  float* scratch = nullptr;
};
using Attend = void (*)(const AttentionArgs&);

struct Kernels {
  Isa isa;
  int panel_width;  // columns of a panel
  int max_rows;     // that one pass over a panel serves

  Matmul matmul[kNumFormats];
  // Null, or what rounds a row of `depth` floats to the activations that `matmul` takes, which are
  // no longer than the row.
  void (*round[kNumFormats])(const float* row, int depth, void* out);
  // Decoding: few queries, any positions. Prefill: many, blocked.
  Attend attend_few[3];
  Attend attend_many[3];

  void (*rms_norm)(const float* x, const float* weight, int n, float eps, float* out);
  // Rotates halves of a head in place by the angles of its position.
  void (*rotate)(float* head, const float* cos, const float* sin, int head_dim);
  // n floats to the format of a page.
  void (*store[3])(const float* from, int n, void* to);
};

// Floats of scratch that one `attend_*` may use.
constexpr int kMaxHeadDim = 256;
constexpr int kMaxQueries = 96;  // of one attend_many: tokens x group
constexpr int kKeyTile = 64;
size_t attention_scratch(int head_dim) noexcept;

// The kernels of an instruction set. REQUIRES: is_supported(isa).
const Kernels& kernels_of(Isa isa);
bool is_supported(Isa isa) noexcept;
Isa best_isa() noexcept;
const char* name_of(Isa isa) noexcept;
const char* name_of(Format format) noexcept;

constexpr bool is_blocked(Format format) noexcept { return format > Format::kFloat16; }

// Bytes of one element; for blocks, of 32 elements of one column.
size_t bytes_of(Format format) noexcept;

}  // namespace hami::kernels

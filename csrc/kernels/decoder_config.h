// What a decoder is made of: the sizes of a dense Llama, Qwen2 or Qwen3, how its numbers are
// stored, and how much one step may hold.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/kernels.h"

namespace hami::kernels {

struct DecoderConfig {
  int64_t num_layers = 0;
  int64_t hidden = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t intermediate = 0;
  int64_t vocab = 0;
  double rms_eps = 1e-5;
  int64_t max_tokens_per_step = 0;
  int64_t max_rows = 0;
  Format dtype = Format::kBfloat16;     // of the weights
  Format kv_dtype = Format::kBfloat16;  // float32, bfloat16 or float16
  int64_t num_threads = 0;              // 0: one for each processor
  std::vector<float> inv_freq;          // head_dim / 2 angles per position
  bool has_qkv_bias = false;            // Qwen2
  bool has_qk_norm = false;             // Qwen3
  bool ties_embeddings = false;         // the output uses the rows of the embedding
  Isa isa = Isa::kPortable;

  int64_t q_size() const noexcept { return num_heads * head_dim; }
  int64_t kv_size() const noexcept { return num_kv_heads * head_dim; }
};

// Throws a config error that names the first value that cannot be.
void check(const DecoderConfig& config);

// The format called `name`. Throws a config error that lists those there are; `parameter` asked.
Format format_named(const std::string& name, const char* parameter);
// The instruction set called `name`; "" is the best that this processor has.
Isa isa_named(const std::string& name);

}  // namespace hami::kernels

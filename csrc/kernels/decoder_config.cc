#include "kernels/decoder_config.h"

#include <cmath>
#include <limits>

#include "core/error.h"

namespace hami::kernels {
namespace {

[[noreturn]] void refuse(const std::string& message, const std::string& help) {
  throw Error(ErrorKind::kConfig, "decoder-config", message, help);
}

void check_range(const char* name, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return;
  refuse("`" + std::string(name) + "` is " + backticked(std::to_string(value)),
         "choose a number from " + std::to_string(low) + " to " + std::to_string(high));
}

}  // namespace

void check(const DecoderConfig& config) {
  constexpr int64_t kMost = 1 << 24;
  check_range("num_layers", config.num_layers, 1, 4096);
  check_range("hidden", config.hidden, 1, kMost);
  check_range("num_heads", config.num_heads, 1, 4096);
  check_range("num_kv_heads", config.num_kv_heads, 1, config.num_heads);
  check_range("head_dim", config.head_dim, 16, kMaxHeadDim);
  check_range("intermediate", config.intermediate, 1, kMost);
  check_range("vocab", config.vocab, 1, kMost);
  check_range("max_tokens_per_step", config.max_tokens_per_step, 1, 1 << 20);
  check_range("max_rows", config.max_rows, 1, 1 << 20);
  check_range("threads", config.num_threads, 0, 1024);
  if (config.head_dim % 16 != 0) {
    refuse("`head_dim` is " + backticked(std::to_string(config.head_dim)),
           "it must be a multiple of 16");
  }
  if (config.num_heads % config.num_kv_heads != 0) {
    refuse("`num_heads` is " + backticked(std::to_string(config.num_heads)) +
               ", no multiple of `num_kv_heads`, " +
               backticked(std::to_string(config.num_kv_heads)),
           "every head of keys serves the same number of queries");
  }
  if (static_cast<int64_t>(config.inv_freq.size()) != config.head_dim / 2) {
    refuse("`inv_freq` has " + backticked(std::to_string(config.inv_freq.size())) + " numbers",
           "give head_dim / 2 = " + std::to_string(config.head_dim / 2) +
               ": rope_theta ** (-2 * i / head_dim), scaled as the model wants it");
  }
  for (const float angle : config.inv_freq) {
    if (!std::isfinite(angle)) refuse("`inv_freq` holds a number that is not finite", "");
  }
  if (!(config.rms_eps >= 0) || !std::isfinite(config.rms_eps)) {
    refuse("`rms_eps` is " + backticked(std::to_string(config.rms_eps)),
           "choose a small number, such as 1e-5");
  }
  if (config.kv_dtype > Format::kFloat16) {
    refuse("`kv_dtype` is " + backticked(name_of(config.kv_dtype)),
           "choose float32, bfloat16 or float16");
  }
}

Format format_named(const std::string& name, const char* parameter) {
  for (int i = 0; i < kNumFormats; ++i) {
    const auto format = static_cast<Format>(i);
    if (name == name_of(format)) return format;
  }
  refuse("`" + std::string(parameter) + "` is " + backticked(name),
         "choose float32, bfloat16, float16, q8 or q4");
}

Isa isa_named(const std::string& name) {
  if (name.empty()) return best_isa();
  for (int i = 0; i < kNumIsas; ++i) {
    const auto isa = static_cast<Isa>(i);
    if (name != name_of(isa)) continue;
    if (is_supported(isa)) return isa;
    refuse("`isa` is " + backticked(name) + ", which this processor does not have",
           "leave it out: the best that there is gets chosen");
  }
  refuse("`isa` is " + backticked(name), "choose portable, avx2, avx512 or avx512_bf16");
}

}  // namespace hami::kernels

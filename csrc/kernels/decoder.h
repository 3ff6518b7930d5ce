// `Decoder`: a whole dense Llama, Qwen2 or Qwen3 on the CPU. `run` takes the plan of a step and
// does everything in one go: page copies, all layers, the logits that are wanted. One thread at a
// time.
//
// Activations are float32 whatever the weights are, so sums are those of float32 over rounded
// weights; only keys and values are rounded again, when they are written to their pages. With
// AVX512_BF16 and bfloat16 weights each row is rounded before a product.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/decoder_config.h"
#include "kernels/decoder_weights.h"
#include "kernels/kv_pool.h"
#include "kernels/memory.h"
#include "kernels/paged_attention.h"
#include "kernels/product.h"
#include "kernels/step_view.h"
#include "kernels/thread_team.h"

namespace hami::kernels {

class Decoder {
 public:
  // Throws a config error for sizes that cannot be.
  explicit Decoder(const DecoderConfig& config);

  const DecoderConfig& config() const noexcept { return config_; }
  DecoderWeights& weights() noexcept { return weights_; }
  const DecoderWeights& weights() const noexcept { return weights_; }
  const KvPool& pool() const noexcept { return pool_; }

  // New, empty pages instead of those there are.
  void make_pool(int64_t num_pages, int64_t page_size, int64_t num_swap_pages);
  // Throws a request error for a plan that does not fit, before anything is changed, and a build
  // error while weights or the pool are missing.
  void check(const StepView& step) const;
  // Writes [num_logits, vocab]. REQUIRES: `check` has passed.
  void run(const StepView& step, float* logits);

 private:
  void forward(Member& member, const StepView& step, float* logits) noexcept;
  void copy_pages(Member& member, const StepView& step) noexcept;
  void embed(Member& member, const StepView& step) noexcept;
  void attend(Member& member, const StepView& step, int64_t layer) noexcept;
  void place(const StepView& step, int64_t layer, int token) noexcept;
  // Keeps the rows of tokens whose logits are wanted.
  void choose(Member& member, const StepView& step) noexcept;
  // A product whose activations are hidden rows, normed on the way.
  Product normed_product(const PackedMatrix& matrix, const Rows& x, int num_rows,
                         const std::vector<float>& norm) const noexcept;

  const DecoderConfig config_;
  const Kernels& kernels_;
  DecoderWeights weights_;
  KvPool pool_;
  ThreadTeam team_;
  AttentionTasks attention_;
  Workspace workspace_;
  Rows hidden_, qkv_, attended_, inner_, angles_;
  Rows chosen_hidden_, chosen_attended_;
};

}  // namespace hami::kernels

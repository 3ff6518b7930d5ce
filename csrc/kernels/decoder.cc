#include "kernels/decoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/error.h"

namespace hami::kernels {
namespace {

DecoderConfig checked(DecoderConfig config) {
  check(config);
  if (config.num_threads == 0) config.num_threads = num_processors();
  return config;
}

AttentionShape shape_of(const DecoderConfig& config) {
  AttentionShape shape;
  shape.num_heads = static_cast<int>(config.num_heads);
  shape.num_kv_heads = static_cast<int>(config.num_kv_heads);
  shape.head_dim = static_cast<int>(config.head_dim);
  shape.kv_format = config.kv_dtype;
  shape.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(config.head_dim)));
  return shape;
}

}  // namespace

Decoder::Decoder(const DecoderConfig& config)
    : config_(checked(config)),
      kernels_(kernels_of(config.isa)),
      weights_(config_, kernels_),
      team_(static_cast<int>(config_.num_threads)),
      attention_(kernels_, shape_of(config_), team_.size()),
      workspace_(config_.max_tokens_per_step,
                 std::max({config_.hidden, config_.q_size(), config_.intermediate}), team_.size()),
      hidden_(config_.max_tokens_per_step, config_.hidden),
      qkv_(config_.max_tokens_per_step, config_.q_size() + 2 * config_.kv_size()),
      attended_(config_.max_tokens_per_step, config_.q_size()),
      inner_(config_.max_tokens_per_step, config_.intermediate),
      angles_(config_.max_tokens_per_step, config_.head_dim),
      chosen_hidden_(config_.max_tokens_per_step, config_.hidden),
      chosen_attended_(config_.max_tokens_per_step, config_.q_size()) {}

void Decoder::make_pool(int64_t num_pages, int64_t page_size, int64_t num_swap_pages) {
  pool_ = KvPool();  // both at once would need the memory twice
  pool_ = KvPool(config_, num_pages, page_size, num_swap_pages);
}

void Decoder::check(const StepView& step) const {
  if (!weights_.missing().empty()) {
    throw Error(ErrorKind::kBuild, "decoder-incomplete",
                std::to_string(weights_.missing().size()) + " weights are missing, first " +
                    backticked(*weights_.missing().begin()),
                "call `set_weight` with each of them");
  }
  if (pool_.num_pages() == 0) {
    throw Error(ErrorKind::kBuild, "decoder-incomplete", "the decoder has no pages yet",
                "call `make_pool`");
  }
  kernels::check(step, config_, pool_.bounds());
}

void Decoder::run(const StepView& step, float* logits) {
  attention_.plan(step);
  team_.run([&](Member& member) { forward(member, step, logits); });
}

void Decoder::forward(Member& member, const StepView& step, float* logits) noexcept {
  copy_pages(member, step);
  if (step.num_tokens() == 0) return;
  embed(member, step);
  for (int64_t i = 0; i < config_.num_layers; ++i) {
    const LayerWeights& layer = weights_.layer(i);
    const bool is_last = i + 1 == config_.num_layers;
    Product qkv = normed_product(layer.qkv, hidden_, step.num_tokens(), layer.input_norm);
    qkv.out = qkv_.row(0);
    qkv.out_stride = qkv_.stride;
    if (config_.has_qkv_bias) qkv.bias = layer.qkv_bias.data();
    qkv.run(member, workspace_);
    attend(member, step, i);
    if (is_last) choose(member, step);
    const Rows& attended = is_last ? chosen_attended_ : attended_;
    const Rows& hidden = is_last ? chosen_hidden_ : hidden_;
    const int num_rows = is_last ? step.num_logits() : step.num_tokens();
    const auto add_to_hidden = [&](const PackedMatrix& matrix, const Rows& x) {
      Product{&matrix, &x, num_rows, hidden.row(0), hidden.stride, Epilogue::kAdd}.run(member,
                                                                                       workspace_);
    };
    add_to_hidden(layer.o, attended);
    Product gate_up = normed_product(layer.gate_up, hidden, num_rows, layer.post_norm);
    gate_up.out = inner_.row(0);
    gate_up.out_stride = inner_.stride;
    gate_up.epilogue = Epilogue::kSiluMul;
    gate_up.run(member, workspace_);
    add_to_hidden(layer.down, inner_);
  }
  Product head =
      normed_product(weights_.head(), chosen_hidden_, step.num_logits(), weights_.norm());
  head.out = logits;
  head.out_stride = static_cast<size_t>(config_.vocab);
  head.run(member, workspace_);
}

Product Decoder::normed_product(const PackedMatrix& matrix, const Rows& x, int num_rows,
                                const std::vector<float>& norm) const noexcept {
  Product product;
  product.matrix = &matrix;
  product.x = &x;
  product.num_rows = num_rows;
  product.norm_weight = norm.data();
  product.norm_eps = static_cast<float>(config_.rms_eps);
  return product;
}

void Decoder::copy_pages(Member& member, const StepView& step) noexcept {
  const auto copy = [&](KvPool::Way way, StepView::Array pairs) {
    if (pairs.empty()) return;
    // One plane a task: within a plane the copies keep their order.
    member.share(pool_.num_planes(), [&](int64_t plane) {
      for (size_t i = 0; i < pairs.size(); i += 2) pool_.copy(way, plane, pairs[i], pairs[i + 1]);
    });
  };
  copy(KvPool::Way::kOut, step.swap_out);
  copy(KvPool::Way::kIn, step.swap_in);
  copy(KvPool::Way::kWithin, step.copies);
}

void Decoder::embed(Member& member, const StepView& step) noexcept {
  const int64_t half = config_.head_dim / 2;
  member.share(step.num_tokens(), [&](int64_t token) {
    const size_t t = static_cast<size_t>(token);
    weights_.embed(step.token_ids[t], hidden_.row(token));
    float* const angles = angles_.row(token);  // cosines, then sines
    const auto position = static_cast<float>(step.positions[t]);
    for (int64_t i = 0; i < half; ++i) {
      const float angle = position * config_.inv_freq[static_cast<size_t>(i)];
      angles[i] = static_cast<float>(std::cos(static_cast<double>(angle)));
      angles[half + i] = static_cast<float>(std::sin(static_cast<double>(angle)));
    }
  });
}

// Queries and keys of a token get their norm and rotation; keys and values go to their slot.
void Decoder::place(const StepView& step, int64_t layer, int token) noexcept {
  const LayerWeights& weights = weights_.layer(layer);
  const int head_dim = static_cast<int>(config_.head_dim);
  const auto eps = static_cast<float>(config_.rms_eps);
  const float* const angles = angles_.row(token);
  const auto turn = [&](float* head, const std::vector<float>& norm) {
    if (!norm.empty()) kernels_.rms_norm(head, norm.data(), head_dim, eps, head);
    kernels_.rotate(head, angles, angles + head_dim / 2, head_dim);
  };
  float* head = qkv_.row(token);
  for (int64_t i = 0; i < config_.num_heads; ++i, head += head_dim) turn(head, weights.q_norm);
  const int64_t slot = step.slots[static_cast<size_t>(token)];
  const auto page = static_cast<size_t>(slot / pool_.page_size());
  const auto offset = static_cast<size_t>(slot % pool_.page_size());
  const size_t place = (page * pool_.page_stride() + offset * static_cast<size_t>(head_dim)) *
                       bytes_of(config_.kv_dtype);
  const auto store = kernels_.store[static_cast<int>(config_.kv_dtype)];
  for (int64_t i = 0; i < config_.num_kv_heads; ++i, head += head_dim) {
    turn(head, weights.k_norm);
    store(head, head_dim, pool_.keys(layer, i) + place);
  }
  for (int64_t i = 0; i < config_.num_kv_heads; ++i, head += head_dim) {
    store(head, head_dim, pool_.values(layer, i) + place);
  }
}

void Decoder::attend(Member& member, const StepView& step, int64_t layer) noexcept {
  member.share(step.num_tokens(),
               [&](int64_t token) { place(step, layer, static_cast<int>(token)); });
  AttentionData data;
  data.q = qkv_.row(0);
  data.q_stride = qkv_.stride;
  data.out = attended_.row(0);
  data.out_stride = attended_.stride;
  data.keys = pool_.keys(layer, 0);
  data.values = pool_.values(layer, 0);
  data.page_stride = pool_.page_stride();
  data.head_stride = pool_.head_stride();
  data.page_size = static_cast<int>(pool_.page_size());
  attention_.run(member, data);
}

void Decoder::choose(Member& member, const StepView& step) noexcept {
  member.share(step.num_logits(), [&](int64_t i) {
    const int32_t token = step.logit_tokens[static_cast<size_t>(i)];
    std::memcpy(chosen_hidden_.row(i), hidden_.row(token),
                sizeof(float) * static_cast<size_t>(config_.hidden));
    std::memcpy(chosen_attended_.row(i), attended_.row(token),
                sizeof(float) * static_cast<size_t>(config_.q_size()));
  });
}

}  // namespace hami::kernels

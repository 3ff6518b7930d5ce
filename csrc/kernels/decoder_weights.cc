#include "kernels/decoder_weights.h"

#include <charconv>

#include "core/error.h"
#include "core/tensor.h"

namespace hami::kernels {
namespace {

[[noreturn]] void refuse(const std::string& message, const std::string& help) {
  throw Error(ErrorKind::kConfig, "decoder-weight", message, help);
}

}  // namespace

DecoderWeights::DecoderWeights(const DecoderConfig& config, const Kernels& kernels)
    : config_(config), norm_(static_cast<size_t>(config.hidden)) {
  const auto size = [](int64_t number) { return static_cast<int>(number); };
  const Format format = config.dtype;
  const int hidden = size(config.hidden);
  const int qkv = size(config.q_size() + 2 * config.kv_size());
  layers_.resize(static_cast<size_t>(config.num_layers));
  for (LayerWeights& layer : layers_) {
    layer.input_norm.resize(static_cast<size_t>(hidden));
    layer.post_norm.resize(static_cast<size_t>(hidden));
    layer.qkv = PackedMatrix(arena_, kernels, format, qkv, hidden);
    layer.o = PackedMatrix(arena_, kernels, format, hidden, size(config.q_size()));
    layer.gate_up = PackedMatrix(arena_, kernels, format, size(config.intermediate), hidden, true);
    layer.down = PackedMatrix(arena_, kernels, format, hidden, size(config.intermediate));
    if (config.has_qkv_bias) {
      layer.qkv_bias.resize(static_cast<size_t>(layer.qkv.num_panels()) *
                            static_cast<size_t>(kernels.panel_width));
    }
    if (config.has_qk_norm) {
      layer.q_norm.resize(static_cast<size_t>(config.head_dim));
      layer.k_norm.resize(static_cast<size_t>(config.head_dim));
    }
  }
  // Four bits are too few for the output, where small differences choose the token.
  const Format head = format == Format::kQ4 ? Format::kQ8 : format;
  head_ = PackedMatrix(arena_, kernels, head, size(config.vocab), hidden);
  if (!config.ties_embeddings) {
    // Looked up, not multiplied: blocks would lose digits and save no time.
    const Format kept = is_blocked(format) ? Format::kBfloat16 : format;
    embeddings_ = PackedMatrix(arena_, kernels, kept, size(config.vocab), hidden);
  }
  expect_all();
}

void DecoderWeights::expect_all() {
  missing_ = {"embed_tokens.weight", "norm.weight"};
  if (!config_.ties_embeddings) missing_.insert("lm_head.weight");
  for (int64_t i = 0; i < config_.num_layers; ++i) {
    const std::string prefix = "layers." + std::to_string(i) + ".";
    for (const char* name : {"q", "k", "v", "o"}) {
      missing_.insert(prefix + "self_attn." + name + "_proj.weight");
    }
    for (const char* name : {"mlp.gate_proj", "mlp.up_proj", "mlp.down_proj", "input_layernorm",
                             "post_attention_layernorm"}) {
      missing_.insert(prefix + name + ".weight");
    }
    for (const char* name : {"q", "k", "v"}) {
      if (config_.has_qkv_bias) missing_.insert(prefix + "self_attn." + name + "_proj.bias");
    }
    for (const char* name : {"q", "k"}) {
      if (config_.has_qk_norm) missing_.insert(prefix + "self_attn." + name + "_norm.weight");
    }
  }
}

bool DecoderWeights::find_in_layer(LayerWeights& layer, const std::string& name,
                                   Place& place) const {
  const int64_t q = config_.q_size();
  const int64_t kv = config_.kv_size();
  const int64_t hidden = config_.hidden;
  const int64_t inner = config_.intermediate;
  struct Named {
    const char* name;
    Place place;
  };
  const Named all[] = {
      {"self_attn.q_proj.weight", {&layer.qkv, nullptr, 0, q, hidden}},
      {"self_attn.k_proj.weight", {&layer.qkv, nullptr, q, kv, hidden}},
      {"self_attn.v_proj.weight", {&layer.qkv, nullptr, q + kv, kv, hidden}},
      {"self_attn.o_proj.weight", {&layer.o, nullptr, 0, hidden, q}},
      {"mlp.gate_proj.weight", {&layer.gate_up, nullptr, 0, inner, hidden, 0}},
      {"mlp.up_proj.weight", {&layer.gate_up, nullptr, 0, inner, hidden, 1}},
      {"mlp.down_proj.weight", {&layer.down, nullptr, 0, hidden, inner}},
      {"input_layernorm.weight", {nullptr, &layer.input_norm, 0, 0, hidden}},
      {"post_attention_layernorm.weight", {nullptr, &layer.post_norm, 0, 0, hidden}},
      {"self_attn.q_proj.bias", {nullptr, &layer.qkv_bias, 0, 0, q}},
      {"self_attn.k_proj.bias", {nullptr, &layer.qkv_bias, q, 0, kv}},
      {"self_attn.v_proj.bias", {nullptr, &layer.qkv_bias, q + kv, 0, kv}},
      {"self_attn.q_norm.weight", {nullptr, &layer.q_norm, 0, 0, config_.head_dim}},
      {"self_attn.k_norm.weight", {nullptr, &layer.k_norm, 0, 0, config_.head_dim}},
  };
  for (const Named& one : all) {
    if (name != one.name) continue;
    place = one.place;
    return place.vector == nullptr || !place.vector->empty();
  }
  return false;
}

DecoderWeights::Place DecoderWeights::place_of(const std::string& name) {
  const int64_t hidden = config_.hidden;
  Place place;
  if (name == "norm.weight") return {nullptr, &norm_, 0, 0, hidden};
  if (name == "embed_tokens.weight") {
    PackedMatrix& matrix = config_.ties_embeddings ? head_ : embeddings_;
    return {&matrix, nullptr, 0, config_.vocab, hidden};
  }
  if (name == "lm_head.weight") {
    if (!config_.ties_embeddings) return {&head_, nullptr, 0, config_.vocab, hidden};
    refuse("the weight `lm_head.weight` is given, and `tie_embeddings` is true",
           "leave it out: the rows of `embed_tokens.weight` are used");
  }
  constexpr std::string_view kPrefix = "layers.";
  if (name.compare(0, kPrefix.size(), kPrefix) == 0) {
    size_t index = 0;
    const char* const begin = name.data() + kPrefix.size();
    const char* const end = name.data() + name.size();
    const auto [rest, error] = std::from_chars(begin, end, index);
    if (error == std::errc() && rest != end && *rest == '.' && index < layers_.size() &&
        find_in_layer(layers_[index], std::string(rest + 1, end), place)) {
      return place;
    }
  }
  refuse("this model has no weight " + backticked(name),
         "give the names of the model's file without the prefix `model.`, such as "
         "`layers.0.self_attn.q_proj.weight`");
}

void DecoderWeights::set(const std::string& name, const PlainRows& rows,
                         const std::vector<int64_t>& shape) {
  const Place place = place_of(name);
  const std::vector<int64_t> wanted = place.num_rows == 0
                                          ? std::vector{place.num_cols}
                                          : std::vector{place.num_rows, place.num_cols};
  if (shape != wanted) {
    refuse("the weight " + backticked(name) + " has the shape " + backticked(to_string(shape)) +
               ", and this model has " + backticked(to_string(wanted)),
           "compare the sizes that the decoder was made with to the model's configuration");
  }
  if (place.matrix != nullptr) {
    place.matrix->set_rows(static_cast<int>(place.first), rows, place.half);
  } else {
    read_row(rows, 0, place.vector->data() + place.first);
  }
  missing_.erase(name);
}

size_t DecoderWeights::size_bytes() const noexcept {
  size_t total = head_.size_bytes() + embeddings_.size_bytes();
  for (const LayerWeights& layer : layers_) {
    total += layer.qkv.size_bytes() + layer.o.size_bytes() + layer.gate_up.size_bytes() +
             layer.down.size_bytes();
  }
  return total;
}

}  // namespace hami::kernels

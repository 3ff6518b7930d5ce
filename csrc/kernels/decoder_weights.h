// `DecoderWeights`: the packed weights of all layers, filled one by one under the names that model
// files use, without their prefix `model.`.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "kernels/decoder_config.h"
#include "kernels/packed_matrix.h"

namespace hami::kernels {

struct LayerWeights {
  std::vector<float> input_norm, post_norm;
  std::vector<float> qkv_bias;        // padded to whole panels; empty without
  std::vector<float> q_norm, k_norm;  // empty without
  PackedMatrix qkv, o, gate_up, down;
};

class DecoderWeights {
 public:
  DecoderWeights(const DecoderConfig& config, const Kernels& kernels);

  // Throws a config error that names the weight: an unknown one, or one of another shape.
  void set(const std::string& name, const PlainRows& rows, const std::vector<int64_t>& shape);
  // Names that have not come yet, in order.
  const std::set<std::string>& missing() const noexcept { return missing_; }
  size_t size_bytes() const noexcept;

  const LayerWeights& layer(int64_t index) const { return layers_[static_cast<size_t>(index)]; }
  const std::vector<float>& norm() const noexcept { return norm_; }
  const PackedMatrix& head() const noexcept { return head_; }
  // The row of a token. Shared with the head when the two are tied.
  void embed(int32_t token, float* out) const {
    (config_.ties_embeddings ? head_ : embeddings_).read_row(token, out);
  }

 private:
  // Where a weight goes: rows of a matrix, or a vector of floats.
  struct Place {
    PackedMatrix* matrix = nullptr;
    std::vector<float>* vector = nullptr;
    int64_t first = 0;
    int64_t num_rows = 0;  // 0: a vector
    int64_t num_cols = 0;
    int half = 0;
  };
  void expect_all();
  Place place_of(const std::string& name);
  bool find_in_layer(LayerWeights& layer, const std::string& name, Place& place) const;

  const DecoderConfig config_;
  MemoryArena arena_;
  std::vector<LayerWeights> layers_;
  std::vector<float> norm_;
  PackedMatrix embeddings_;  // empty when tied
  PackedMatrix head_;
  std::set<std::string> missing_;
};

}  // namespace hami::kernels

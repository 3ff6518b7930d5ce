// Products of bfloat16 in the processor's own instruction, which takes both factors rounded and
// sums in float32. Included into the namespace of AVX512_BF16 alone.

inline void round_to_bf16(const float* row, int depth, void* out) {
  auto* bits = static_cast<uint16_t*>(out);
  for (int i = 0; i < depth; i += Vec::kWidth) {
    const __m256bh rounded = _mm512_cvtneps_pbh(Vec::load(row + i));
    std::memcpy(bits + i, &rounded, sizeof rounded);
  }
}

struct DotBfloat16Kernel {
  template <int kRows>
  HAMI_NOINLINE static Tile<kRows> tile(const std::byte* x, size_t x_stride, const std::byte* panel,
                                        int depth) {
    constexpr int kChains = kRows <= 2 ? 4 : kRows <= 4 ? 2 : 1;
    F sum[kChains][kRows][kVectors];
#pragma GCC unroll 4
    for (int c = 0; c < kChains; ++c) {
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) sum[c][r][v] = Vec::zero();
      }
    }
    constexpr int kPairs = 4;  // of the depth in one round
    for (int k = 0; k < depth; k += 2 * kPairs) {
#pragma GCC unroll 4
      for (int pair = 0; pair < kPairs; ++pair) {
        const std::byte* w = panel + pair * kPanel * 4;
        __m512bh b[kVectors];
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) {
          prefetch_weights(w + v * 64);
          std::memcpy(&b[v], w + v * 64, sizeof b[v]);
        }
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) {
          const __m512i words = Vec::set1_pair(x + r * x_stride + pair * 4);
          __m512bh a;
          std::memcpy(&a, &words, sizeof a);
#pragma GCC unroll 2
          for (int v = 0; v < kVectors; ++v) {
            F& s = sum[pair % kChains][r][v];
            s = _mm512_dpbf16_ps(s, a, b[v]);
          }
        }
      }
      x += 2 * kPairs * sizeof(uint16_t);
      panel += kPairs * kPanel * 4;
    }
    Tile<kRows> tile;
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        F total = sum[0][r][v];
        if constexpr (kChains > 1) total = Vec::add(total, sum[1][r][v]);
        if constexpr (kChains > 2) {
          total = Vec::add(total, Vec::add(sum[2][r][v], sum[3][r][v]));
        }
        tile.sum[r][v] = total;
      }
    }
    return tile;
  }
};

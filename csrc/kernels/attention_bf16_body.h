// A tile of pages of bfloat16 that stays so: queries and the weights of the values are rounded as
// well, and products are the processor's own. Included into the namespace of AVX512_BF16 alone.

// Exchanges rows and columns of 16 x 16 words: halves of every size, one after another.
HAMI_INLINE void transpose(__m512i (&rows)[16]) {
  const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
#pragma GCC unroll 4
  for (int half = 1; half < 16; half *= 2) {
    const __mmask16 is_upper = _mm512_test_epi32_mask(lane, _mm512_set1_epi32(half));
    // Lane l of the upper row of a pair, 16 + l - half, goes beside the lower row's own.
    const __m512i lower = _mm512_mask_add_epi32(lane, is_upper, lane, _mm512_set1_epi32(16 - half));
    const __m512i upper =
        _mm512_mask_mov_epi32(_mm512_add_epi32(lane, _mm512_set1_epi32(half)), is_upper,
                              _mm512_add_epi32(lane, _mm512_set1_epi32(16)));
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      if ((i & half) != 0) continue;
      const __m512i a = rows[i];
      const __m512i b = rows[i + half];
      rows[i] = _mm512_permutex2var_epi32(a, lower, b);
      rows[i + half] = _mm512_permutex2var_epi32(a, upper, b);
    }
  }
}

struct Bfloat16Tile {
  using Kernel = DotBfloat16Kernel;
  static constexpr size_t kBytes = sizeof(uint16_t);

  HAMI_INLINE static void round(float* row, int n) { round_to_bf16(row, n, row); }

  HAMI_NOINLINE static void lay_out(const AttentionArgs& args, int begin, int num_keys,
                                    const Scratch& scratch) {
    const TileOfPages<Bfloat16Page> tile(args, begin, num_keys);
    lay_out_keys(tile, args, num_keys, reinterpret_cast<uint32_t*>(scratch.keys));
    lay_out_values(tile, args, num_keys, scratch);
  }

 private:
  // Two numbers of a key are one word, as the kernel wants them: panels of [head_dim / 2][kPanel].
  HAMI_INLINE static void lay_out_keys(const TileOfPages<Bfloat16Page>& tile,
                                       const AttentionArgs& args, int num_keys, uint32_t* panels) {
    const auto* keys = static_cast<const uint16_t*>(args.keys);
    const int num_words = args.head_dim / 2;  // a multiple of 8
    for (int first = 0; first < num_keys; first += 16) {
      uint32_t* const to = panels + (first / kPanel) * kPanel * num_words + first % kPanel;
      for (int word = 0; word < num_words; word += 16) {
        const bool is_whole = word + 16 <= num_words;
        const __mmask16 mask = is_whole ? 0xFFFF : 0x00FF;
        __m512i rows[16];
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i) {
          const int key = first + i < num_keys ? first + i : num_keys - 1;
          rows[i] = _mm512_maskz_loadu_epi32(mask, keys + tile.place[key] + 2 * word);
        }
        transpose(rows);
        // Keys beyond the end are copies of the last: their scores are cut off.
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i) {
          if (i < 8 || is_whole) _mm512_storeu_si512(to + (word + i) * kPanel, rows[i]);
        }
      }
    }
  }

  // Numbers of two consecutive values side by side: panels of [kKeyTile / 2][kPanel] words.
  HAMI_INLINE static void lay_out_values(const TileOfPages<Bfloat16Page>& tile,
                                         const AttentionArgs& args, int num_keys,
                                         const Scratch& scratch) {
    const auto* values = static_cast<const uint16_t*>(args.values);
    auto* const panels = reinterpret_cast<uint32_t*>(scratch.values);
    for (int column = 0; column < args.head_dim; column += kPanel) {
      const __mmask16 mask = column + kPanel <= args.head_dim ? 0xFFFF : 0x00FF;
      uint32_t* to = panels + column / 2 * kKeyTile;
      for (int j = 0; j < kKeyTile; j += 2, to += kPanel) {
        const auto load = [&](int key) {
          return key < num_keys ? _mm512_maskz_loadu_epi32(mask, values + tile.place[key] + column)
                                : _mm512_setzero_si512();
        };
        const __m512i first = load(j);
        const __m512i second = load(j + 1);
        const auto pairs = [&](int half) {
          const __m512i low = _mm512_cvtepu16_epi32(half_of(first, half));
          const __m512i high = _mm512_cvtepu16_epi32(half_of(second, half));
          return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
        };
        _mm512_storeu_si512(to, pairs(0));
        _mm512_storeu_si512(to + Vec::kWidth, pairs(1));
      }
    }
  }

  HAMI_INLINE static __m256i half_of(__m512i numbers, int half) {
    return half == 0 ? _mm512_castsi512_si256(numbers) : _mm512_extracti64x4_epi64(numbers, 1);
  }
};

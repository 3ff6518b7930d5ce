// Products with weights in blocks of 32 (q8, q4), over `Vec`. Activations become integers of 16
// bits with one scale for each block, which loses less than bfloat16 does; products of a block are
// summed as integers. Included into a namespace of its own.
//
// A block of a panel: kPanel scales in float16 (q4: then kPanel minima), then
//   q8: for each pair of the depth, two signed bytes of each column;
//   q4: for each eight of the depth, four bytes of each column, of whose bits nibble i holds weight
//       2 * i (i < 4) or 2 * (i - 4) + 1.

using I = Vec::I;

constexpr int kBlock = kDepthStep;

struct Q8Block {
  static constexpr bool kHasMinima = false;
  static constexpr size_t kBytes = kPanel * (2 + kBlock);
  HAMI_INLINE static const std::byte* weights(const std::byte* block) {
    return block + kPanel * sizeof(uint16_t);
  }
  // Eight of the depth: four pairs.
  template <class Use>
  HAMI_INLINE static void unpack(const std::byte* weights, int eight, Use& use) {
    const auto* w = reinterpret_cast<const int8_t*>(weights) + eight * 8 * kPanel;
#pragma GCC unroll 4
    for (int pair = 0; pair < 4; ++pair) {
      use(pair, Vec::load_pairs(w + pair * 2 * kPanel),
          Vec::load_pairs(w + pair * 2 * kPanel + 2 * Vec::kWidth));
    }
  }
};

struct Q4Block {
  static constexpr bool kHasMinima = true;
  static constexpr size_t kBytes = kPanel * (4 + kBlock / 2);
  HAMI_INLINE static const std::byte* weights(const std::byte* block) {
    return block + 2 * kPanel * sizeof(uint16_t);
  }
  template <class Use>
  HAMI_INLINE static void unpack(const std::byte* weights, int eight, Use& use) {
    const auto* w = reinterpret_cast<const uint32_t*>(weights) + eight * kPanel;
    const I first = Vec::load_words(w);
    const I second = Vec::load_words(w + Vec::kWidth);
    use(0, Vec::template nibbles<0>(first), Vec::template nibbles<0>(second));
    use(1, Vec::template nibbles<1>(first), Vec::template nibbles<1>(second));
    use(2, Vec::template nibbles<2>(first), Vec::template nibbles<2>(second));
    use(3, Vec::template nibbles<3>(first), Vec::template nibbles<3>(second));
  }
};

// Where the parts of a row lie that `round_to_blocks` has written.
struct RoundedRow {
  HAMI_INLINE static const float* scales(const std::byte* row, int depth) {
    return reinterpret_cast<const float*>(row + depth * sizeof(int16_t));
  }
  HAMI_INLINE static const float* sums(const std::byte* row, int depth) {
    return scales(row, depth) + depth / kBlock;
  }
};

inline void round_to_blocks(const float* row, int depth, void* out) {
  auto* const integers = static_cast<int16_t*>(out);
  auto* const scales = reinterpret_cast<float*>(integers + depth);
  float* const sums = scales + depth / kBlock;
  for (int b = 0; b < depth / kBlock; ++b) {
    const float* x = row + b * kBlock;
    F high = Vec::zero();
    F total = Vec::zero();
    F size = Vec::zero();
    for (int i = 0; i < kBlock; i += Vec::kWidth) {
      const F a = Vec::load(x + i);
      const F magnitude = Vec::max(a, Vec::sub(Vec::zero(), a));
      high = Vec::max(magnitude, high);
      total = Vec::add(total, a);
      size = Vec::add(size, magnitude);
    }
    const float highest = Vec::highest(high);
    const float inverse = highest > 0 ? 32767.0F / highest : 0.0F;
    // What is not finite is to stay so.
    const float sum_of_sizes = Vec::sum(size);
    const bool is_finite = sum_of_sizes - sum_of_sizes == 0;
    scales[b] = is_finite ? highest / 32767.0F : std::numeric_limits<float>::quiet_NaN();
    sums[b] = Vec::sum(total);
    for (int i = 0; i < kBlock; i += Vec::kWidth) {
      const F scaled = Vec::mul(Vec::load(x + i), Vec::set1(is_finite ? inverse : 0.0F));
      Vec::store_int16(integers + b * kBlock + i, is_finite ? scaled : Vec::zero());
    }
  }
}

template <class Block>
struct BlockKernel {
  template <int kRows>
  struct Products {
    const std::byte* x;
    size_t x_stride;
    I dot[kRows][kVectors];
    HAMI_INLINE void operator()(int pair, I first, I second) {
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const I a = Vec::set1_pair(x + r * x_stride + pair * 2 * sizeof(int16_t));
        dot[r][0] = Vec::add_pairs(dot[r][0], a, first);
        dot[r][1] = Vec::add_pairs(dot[r][1], a, second);
      }
    }
  };

  template <int kRows>
  HAMI_NOINLINE static Tile<kRows> tile(const std::byte* x, size_t x_stride, const std::byte* panel,
                                        int depth) {
    Tile<kRows> tile;
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) tile.sum[r][v] = Vec::zero();
    }
    for (int b = 0; b < depth / kBlock; ++b) {
      const std::byte* block = panel + b * Block::kBytes;
      Products<kRows> products;
      products.x = x + b * kBlock * sizeof(int16_t);
      products.x_stride = x_stride;
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) products.dot[r][v] = Vec::no_pairs();
      }
      for (size_t line = 0; line < Block::kBytes; line += 64) {
        prefetch_weights(block + line);
      }
#pragma GCC unroll 4
      for (int eight = 0; eight < kBlock / 8; ++eight) {
        Block::unpack(Block::weights(block), eight, products);
        products.x += 8 * sizeof(int16_t);
      }
      const auto* scales = reinterpret_cast<const uint16_t*>(block);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        const F scale = Vec::load_fp16(scales + v * Vec::kWidth);
        const F minimum =
            Block::kHasMinima ? Vec::load_fp16(scales + kPanel + v * Vec::kWidth) : Vec::zero();
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) {
          const std::byte* row = x + r * x_stride;
          const F factor = Vec::mul(scale, Vec::set1(RoundedRow::scales(row, depth)[b]));
          F sum = Vec::fma(Vec::to_float(products.dot[r][v]), factor, tile.sum[r][v]);
          if (Block::kHasMinima) {
            sum = Vec::fma(minimum, Vec::set1(RoundedRow::sums(row, depth)[b]), sum);
          }
          tile.sum[r][v] = sum;
        }
      }
    }
    return tile;
  }
};

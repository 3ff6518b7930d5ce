// Products of activations and packed weights, over `Vec`. A panel holds kPanel columns, for each
// step of the depth next to each other; some rows of activations are kept against it in registers,
// so that each weight that is loaded serves all of them. Included into a namespace of its own.

constexpr int kVectors = 2;  // of a panel
constexpr int kPanel = kVectors * Vec::kWidth;
// How far ahead weights are asked for, and into which cache: the first one has room for too few
// lines under way to keep the memory busy.
constexpr size_t kPrefetchBytes = 4096;
HAMI_INLINE void prefetch_weights(const void* p) {
  __builtin_prefetch(static_cast<const char*>(p) + kPrefetchBytes, 0, 2);
}
using F = Vec::F;

// How weights lie in a panel: kStep consecutive ones of a column side by side.
struct Float32Weights {
  using T = float;
  static constexpr int kStep = 1;
  HAMI_INLINE static F at(const T* w, int, int vector) {
    return Vec::load(w + vector * Vec::kWidth);
  }
};

struct Float16Weights {
  using T = uint16_t;
  static constexpr int kStep = 1;
  HAMI_INLINE static F at(const T* w, int, int vector) {
    return Vec::load_fp16(w + vector * Vec::kWidth);
  }
};

struct Bfloat16Weights {
  using T = uint16_t;
  static constexpr int kStep = 2;
  HAMI_INLINE static F at(const T* w, int step, int vector) {
    const T* pairs = w + vector * Vec::kWidth * 2;
    return step == 0 ? Vec::first(pairs) : Vec::second(pairs);
  }
};

// The sums of one tile: kRows rows by one panel.
template <int kRows>
struct Tile {
  F sum[kRows][kVectors];
};

template <int kRows, class Weights>
HAMI_INLINE Tile<kRows> multiply(const float* x, size_t x_stride, const typename Weights::T* w,
                                 int depth) {
  // Few rows leave the adders waiting for each other unless there are several sums of each.
  constexpr int kChains = kRows == 1 ? 4 : kRows == 2 ? 2 : 1;
  constexpr int kUnroll = 4;
  F sum[kChains][kRows][kVectors];
#pragma GCC unroll 4
  for (int c = 0; c < kChains; ++c) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sum[c][r][v] = Vec::zero();
    }
  }
  constexpr int kGroups = (kRows + 2) / 3;  // of rows that one pointer reaches
  const float* base[kGroups];
#pragma GCC unroll 4
  for (int i = 0; i < kGroups; ++i) base[i] = x + 3 * i * x_stride;
  for (int k = 0; k < depth; k += kUnroll) {
    // Left alone, compilers keep an address for each row and step, and have no register for them.
#pragma GCC unroll 4
    for (int i = 0; i < kGroups; ++i) HAMI_OPAQUE(base[i]);
    // A processor's own prefetching stops at every page and has to find its pace again.
#pragma GCC unroll 4
    for (size_t line = 0; line < kUnroll * kPanel * sizeof(*w); line += 64) {
      prefetch_weights(reinterpret_cast<const char*>(w) + line);
    }
#pragma GCC unroll 4
    for (int u = 0; u < kUnroll; ++u) {
      const typename Weights::T* group = w + (u / Weights::kStep) * kPanel * Weights::kStep;
      F b[kVectors];
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) b[v] = Weights::at(group, u % Weights::kStep, v);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const F a = Vec::set1(base[r / 3][r % 3 * x_stride + u]);
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) {
          Vec::add_product(sum[u % kChains][r][v], a, b[v]);
        }
      }
    }
#pragma GCC unroll 4
    for (int i = 0; i < kGroups; ++i) base[i] += kUnroll;
    w += kUnroll * kPanel;
  }
  Tile<kRows> tile;
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      F total = sum[0][r][v];
      if constexpr (kChains == 2) total = Vec::add(total, sum[1][r][v]);
      if constexpr (kChains == 4) {
        total = Vec::add(Vec::add(total, sum[1][r][v]), Vec::add(sum[2][r][v], sum[3][r][v]));
      }
      tile.sum[r][v] = total;
    }
  }
  return tile;
}

HAMI_INLINE F exponential(F x);

HAMI_INLINE F silu(F x) {
  return Vec::div(x, Vec::add(Vec::set1(1), exponential(Vec::sub(Vec::zero(), x))));
}

// Not inlined, as the tiles are not: code of every kernel, number of rows and epilogue would be
// most of the library.
template <int kRows>
HAMI_NOINLINE void finish(const MatmulArgs& args, const Tile<kRows>& tile, int row, int column) {
  const bool is_whole = column + kPanel <= args.num_cols;
  for (int r = 0; r < kRows; ++r) {
    float* out = args.out + (row + r) * args.out_stride + column;
    float edge[kPanel];
    float* to = is_whole ? out : edge;
    if (!is_whole) {
      for (int c = 0; c < args.num_cols - column; ++c) edge[c] = out[c];
    }
    for (int v = 0; v < kVectors; ++v) {
      F sum = tile.sum[r][v];
      if (args.epilogue == Epilogue::kAdd) {
        sum = Vec::add(sum, Vec::load(to + v * Vec::kWidth));
      } else if (args.bias != nullptr) {
        sum = Vec::add(sum, Vec::load(args.bias + column + v * Vec::kWidth));
      }
      Vec::store(to + v * Vec::kWidth, sum);
    }
    if (!is_whole) {
      for (int c = 0; c < args.num_cols - column; ++c) out[c] = edge[c];
    }
  }
}

// A kernel says how to multiply kRows rows by one panel: `Kernel::template tile<kRows>(...)`.
template <class Weights>
struct DirectKernel {
  template <int kRows>
  HAMI_NOINLINE static Tile<kRows> tile(const std::byte* x, size_t x_stride, const std::byte* panel,
                                        int depth) {
    return multiply<kRows, Weights>(reinterpret_cast<const float*>(x), x_stride / sizeof(float),
                                    reinterpret_cast<const typename Weights::T*>(panel), depth);
  }
};

// The results of many rows are long out of the cache: asked for now, they are there at the end.
template <int kRows>
HAMI_INLINE void prefetch_results(const MatmulArgs& args, int row, int column) {
  const float* out = args.out + row * args.out_stride + column;
  for (int r = 0; r < kRows; ++r, out += args.out_stride) {
    for (int v = 0; v < kVectors; ++v) __builtin_prefetch(out + v * Vec::kWidth, 1);
  }
}

template <class Kernel, int kRows>
HAMI_NOINLINE void run_tile(const MatmulArgs& args, int row, int panel) {
  prefetch_results<kRows>(args, row, panel * kPanel);
  const auto* x = static_cast<const std::byte*>(args.x) + row * args.x_stride;
  if (args.epilogue != Epilogue::kSiluMul) {
    const std::byte* weights = args.panels + panel * args.panel_bytes;
    finish<kRows>(args, Kernel::template tile<kRows>(x, args.x_stride, weights, args.depth), row,
                  panel * kPanel);
    return;
  }
  const std::byte* weights = args.panels + 2 * panel * args.panel_bytes;
  const Tile<kRows> gate = Kernel::template tile<kRows>(x, args.x_stride, weights, args.depth);
  Tile<kRows> up =
      Kernel::template tile<kRows>(x, args.x_stride, weights + args.panel_bytes, args.depth);
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      up.sum[r][v] = Vec::mul(silu(gate.sum[r][v]), up.sum[r][v]);
    }
  }
  finish<kRows>(args, up, row, panel * kPanel);
}

template <class Kernel, int kRows = 1>
HAMI_INLINE void run_rows(const MatmulArgs& args, int num_rows, int row, int panel) {
  if constexpr (kRows <= Vec::kMaxRows) {
    if (num_rows == kRows) return run_tile<Kernel, kRows>(args, row, panel);
    run_rows<Kernel, kRows + 1>(args, num_rows, row, panel);
  }
}

template <class Kernel>
void matmul(const MatmulArgs& args) {
  // Equal parts: 8 rows as 4 + 4, not as 6 + 2, which would leave the adders waiting.
  const int num_parts = (args.num_rows + Vec::kMaxRows - 1) / Vec::kMaxRows;
  if (num_parts == 0) return;
  const int base = args.num_rows / num_parts;
  const int num_longer = args.num_rows % num_parts;
  for (int panel = args.first_panel; panel < args.first_panel + args.num_panels; ++panel) {
    int row = 0;
    for (int part = 0; part < num_parts; ++part) {
      const int num_rows = base + (part < num_longer ? 1 : 0);
      run_rows<Kernel>(args, num_rows, row, panel);
      row += num_rows;
    }
  }
}

// Attention of many queries over pages: keys and values of a tile are laid out once, as panels, and
// all queries of the block go through the same product of matrices as the weights do. Included into
// a namespace of its own.

// Places in the scratch, in floats. Rows of queries and results are as long as whole panels. What a
// product takes may be rounded, and then fills the front of its place.
struct Scratch {
  HAMI_INLINE Scratch(float* base, int head_dim)
      : row((head_dim + kPanel - 1) / kPanel * kPanel),
        queries(base),
        results(queries + kMaxQueries * row),
        scores(results + kMaxQueries * row),
        keys(scores + kMaxQueries * kKeyTile),
        values(keys + kKeyTile * row) {}
  int row;
  float* queries;
  float* results;
  float* scores;
  float* keys;    // [kKeyTile / kPanel], panels of `head_dim`
  float* values;  // [row / kPanel], panels of kKeyTile
};

// rows of x [num_rows, depth] times panels: out = or += the product.
template <class Kernel>
HAMI_INLINE void multiply_panels(const float* x, size_t x_stride, int num_rows, const float* panels,
                                 int num_panels, size_t panel_bytes, int depth, float* out,
                                 size_t out_stride, Epilogue epilogue) {
  MatmulArgs args;
  args.x = x;
  args.x_stride = x_stride * sizeof(float);
  args.num_rows = num_rows;
  args.panels = reinterpret_cast<const std::byte*>(panels);
  args.panel_bytes = panel_bytes;
  args.num_panels = num_panels;
  args.depth = depth;
  args.out = out;
  args.out_stride = out_stride;
  args.num_cols = num_panels * kPanel;
  args.epilogue = epilogue;
  matmul<Kernel>(args);
}

// How a tile of pages is multiplied: in float32, whatever the pages hold.
template <class Page>
struct UnpackedTile {
  using Kernel = DirectKernel<Float32Weights>;
  static constexpr size_t kBytes = sizeof(float);  // of a number of a panel

  HAMI_INLINE static void round(float*, int) {}

  HAMI_NOINLINE static void lay_out(const AttentionArgs& args, int begin, int num_keys,
                                    const Scratch& scratch) {
    const auto* keys = static_cast<const typename Page::T*>(args.keys);
    const auto* values = static_cast<const typename Page::T*>(args.values);
    const int head_dim = args.head_dim;
    const TileOfPages<Page> tile(args, begin, num_keys);
    alignas(64) float key[kMaxHeadDim];
    for (int j = 0; j < num_keys; ++j) {
      const typename Page::T* from = keys + tile.place[j];
      for (int d = 0; d < head_dim; d += Vec::kWidth) Vec::store(key + d, Page::load(from + d));
      float* to = scratch.keys + (j / kPanel) * kPanel * head_dim + j % kPanel;
      for (int d = 0; d < head_dim; ++d) to[d * kPanel] = key[d];
      from = values + tile.place[j];
      for (int d = 0; d < head_dim; d += Vec::kWidth) {
        Vec::store(value_at(scratch, d, j), Page::load(from + d));
      }
    }
    for (int j = num_keys; j < kKeyTile; ++j) {
      float* to = scratch.keys + (j / kPanel) * kPanel * head_dim + j % kPanel;
      for (int d = 0; d < head_dim; ++d) to[d * kPanel] = 0;
    }
    // Old numbers beyond the end would be multiplied by zero, which does not undo a NaN.
    for (int d = 0; d < scratch.row; d += Vec::kWidth) {
      for (int j = d < head_dim ? num_keys : 0; j < kKeyTile; ++j) {
        Vec::store(value_at(scratch, d, j), Vec::zero());
      }
    }
  }

  HAMI_INLINE static float* value_at(const Scratch& scratch, int d, int j) {
    return scratch.values + (d / kPanel) * kPanel * kKeyTile + j * kPanel + d % kPanel;
  }
};

// REQUIRES: num_tokens * group <= kMaxQueries.
template <class Tile>
void attend_many(const AttentionArgs& args) {
  using Kernel = typename Tile::Kernel;
  const int head_dim = args.head_dim;
  const int num_queries = args.num_tokens * args.group;
  const Scratch scratch(args.scratch, head_dim);
  float highest[kMaxQueries];
  float total[kMaxQueries];
  const F scale = Vec::set1(args.scale);
  for (int i = 0; i < num_queries; ++i) {
    const float* q =
        args.q + (i / args.group) * args.q_stride + (i % args.group) * size_t(head_dim);
    float* const query = scratch.queries + i * scratch.row;
    for (int d = 0; d < head_dim; d += Vec::kWidth) {
      Vec::store(query + d, Vec::mul(Vec::load(q + d), scale));
    }
    Tile::round(query, head_dim);
    for (int d = 0; d < scratch.row; d += Vec::kWidth) {
      Vec::store(scratch.results + i * scratch.row + d, Vec::zero());
    }
    highest[i] = kNoScore;
    total[i] = 0;
  }
  const int last = args.first_position + args.num_tokens;
  const int end = args.end < last ? args.end : last;
  for (int begin = args.begin; begin < end; begin += kKeyTile) {
    const int num_keys = end - begin < kKeyTile ? end - begin : kKeyTile;
    Tile::lay_out(args, begin, num_keys, scratch);
    // The first tokens may stand before the whole tile.
    const int first_token = begin > args.first_position ? begin - args.first_position : 0;
    const int first = first_token * args.group;
    multiply_panels<Kernel>(scratch.queries + first * scratch.row, scratch.row, num_queries - first,
                            scratch.keys, (num_keys + kPanel - 1) / kPanel,
                            kPanel * Tile::kBytes * head_dim, head_dim,
                            scratch.scores + first * kKeyTile, kKeyTile, Epilogue::kStore);
    const int depth = (num_keys + 7) / 8 * 8;
    for (int i = first; i < num_queries; ++i) {
      float* scores = scratch.scores + i * kKeyTile;
      const int seen = args.first_position + i / args.group + 1 - begin;
      const int valid = seen < num_keys ? seen : num_keys;
      const float factor = soften(scores, valid, highest[i], total[i]);
      for (int j = (valid + Vec::kWidth - 1) / Vec::kWidth * Vec::kWidth; j < depth; ++j) {
        scores[j] = 0;
      }
      Tile::round(scores, kKeyTile);
      if (factor != 1) scale_row(scratch.results + i * scratch.row, scratch.row, factor);
    }
    multiply_panels<Kernel>(scratch.scores + first * kKeyTile, kKeyTile, num_queries - first,
                            scratch.values, scratch.row / kPanel, kPanel * Tile::kBytes * kKeyTile,
                            depth, scratch.results + first * scratch.row, scratch.row,
                            Epilogue::kAdd);
  }
  for (int i = 0; i < num_queries; ++i) {
    float* out =
        args.out + (i / args.group) * args.out_stride + (i % args.group) * size_t(head_dim);
    const F factor = Vec::set1(1 / total[i]);
    for (int d = 0; d < head_dim; d += Vec::kWidth) {
      Vec::store(out + d, Vec::mul(Vec::load(scratch.results + i * scratch.row + d), factor));
    }
  }
}

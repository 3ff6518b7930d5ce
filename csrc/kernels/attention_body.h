// Attention over pages, over `Vec`, with the softmax taken along the way: keys come in tiles, and
// what earlier tiles gave is scaled down when a higher score turns up. Included into a namespace of
// its own.

constexpr float kNoScore = -std::numeric_limits<float>::infinity();

// Where the keys or values of a tile are.
template <class Page>
struct TileOfPages {
  using T = typename Page::T;
  HAMI_INLINE TileOfPages(const AttentionArgs& args, int begin, int num_keys) {
    int page = begin / args.page_size;
    int offset = begin % args.page_size;
    for (int j = 0; j < num_keys; ++j) {
      place[j] = args.pages[page] * args.page_stride + static_cast<size_t>(offset) * args.head_dim;
      if (++offset == args.page_size) {
        offset = 0;
        ++page;
      }
    }
  }
  size_t place[kKeyTile];
};

// Scores of kQueries queries against four keys, written to scores[query * kKeyTile + key].
template <class Page, int kQueries>
HAMI_INLINE void score_four(const float* q, int head_dim, const typename Page::T* const keys[4],
                            float scale, float* scores) {
  F sum[kQueries][4];
#pragma GCC unroll 4
  for (int g = 0; g < kQueries; ++g) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) sum[g][j] = Vec::zero();
  }
  for (int d = 0; d < head_dim; d += Vec::kWidth) {
    F key[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) key[j] = Page::load(keys[j] + d);
#pragma GCC unroll 4
    for (int g = 0; g < kQueries; ++g) {
      const F a = Vec::load(q + g * head_dim + d);
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) sum[g][j] = Vec::fma(a, key[j], sum[g][j]);
    }
  }
  for (int g = 0; g < kQueries; ++g) {
    for (int j = 0; j < 4; ++j) scores[g * kKeyTile + j] = Vec::sum(sum[g][j]) * scale;
  }
}

// out[d] += sum over keys of weights[key] * value[key][d], for kQueries queries.
template <class Page, int kQueries, int kBlock>
HAMI_INLINE void add_values(const float* weights, int num_keys, const TileOfPages<Page>& tile,
                            const typename Page::T* values, int head_dim, float* out) {
  F sum[kQueries][kBlock];
#pragma GCC unroll 4
  for (int g = 0; g < kQueries; ++g) {
#pragma GCC unroll 4
    for (int b = 0; b < kBlock; ++b) sum[g][b] = Vec::load(out + g * head_dim + b * Vec::kWidth);
  }
  for (int j = 0; j < num_keys; ++j) {
    const typename Page::T* value = values + tile.place[j];
    F v[kBlock];
#pragma GCC unroll 4
    for (int b = 0; b < kBlock; ++b) v[b] = Page::load(value + b * Vec::kWidth);
#pragma GCC unroll 4
    for (int g = 0; g < kQueries; ++g) {
      const F w = Vec::set1(weights[g * kKeyTile + j]);
#pragma GCC unroll 4
      for (int b = 0; b < kBlock; ++b) sum[g][b] = Vec::fma(w, v[b], sum[g][b]);
    }
  }
#pragma GCC unroll 4
  for (int g = 0; g < kQueries; ++g) {
#pragma GCC unroll 4
    for (int b = 0; b < kBlock; ++b) Vec::store(out + g * head_dim + b * Vec::kWidth, sum[g][b]);
  }
}

HAMI_INLINE void scale_row(float* row, int n, float factor) {
  const F f = Vec::set1(factor);
  for (int i = 0; i < n; i += Vec::kWidth) Vec::store(row + i, Vec::mul(Vec::load(row + i), f));
}

// Turns a row of scores into weights relative to the highest score so far. Returns by how much
// what came before is to be scaled. REQUIRES: the row has room for kKeyTile.
HAMI_INLINE float soften(float* scores, int num_keys, float& highest, float& total) {
  for (int j = num_keys; j % Vec::kWidth != 0; ++j) scores[j] = kNoScore;
  F high = Vec::set1(highest);
  for (int j = 0; j < num_keys; j += Vec::kWidth) high = Vec::max(Vec::load(scores + j), high);
  const float now = Vec::highest(high);
  if (now == kNoScore) {  // all are masked, as is all that came before
    for (int j = 0; j < num_keys; j += Vec::kWidth) Vec::store(scores + j, Vec::zero());
    return 1;
  }
  const F shift = Vec::set1(now);
  F sum = Vec::zero();
  for (int j = 0; j < num_keys; j += Vec::kWidth) {
    const F e = exponential(Vec::sub(Vec::load(scores + j), shift));
    Vec::store(scores + j, e);
    sum = Vec::add(sum, e);
  }
  if (now == highest) {
    total += Vec::sum(sum);
    return 1;
  }
  const float factor = highest == kNoScore ? 0.0F : std::exp(highest - now);
  total = total * factor + Vec::sum(sum);
  highest = now;
  return factor;
}

template <class Page, int kQueries>
HAMI_NOINLINE void attend_queries(const AttentionArgs& args, const float* q, float* out,
                                  float* sums) {
  const auto* keys = static_cast<const typename Page::T*>(args.keys);
  const auto* values = static_cast<const typename Page::T*>(args.values);
  const int head_dim = args.head_dim;
  float highest[kQueries];
  float total[kQueries];
  float scores[kQueries * kKeyTile];
  for (int g = 0; g < kQueries; ++g) {
    highest[g] = kNoScore;
    total[g] = 0;
    std::memset(out + g * head_dim, 0, sizeof(float) * head_dim);
  }
  for (int begin = args.begin; begin < args.end; begin += kKeyTile) {
    const int num_keys = args.end - begin < kKeyTile ? args.end - begin : kKeyTile;
    const TileOfPages<Page> tile(args, begin, num_keys);
    for (int j = 0; j < num_keys; j += 4) {
      const typename Page::T* four[4];
      for (int i = 0; i < 4; ++i) {  // beyond the end the last one again: soften cuts it off
        four[i] = keys + tile.place[j + i < num_keys ? j + i : num_keys - 1];
      }
      score_four<Page, kQueries>(q, head_dim, four, args.scale, scores + j);
    }
    for (int g = 0; g < kQueries; ++g) {
      const float factor = soften(scores + g * kKeyTile, num_keys, highest[g], total[g]);
      if (factor != 1) scale_row(out + g * head_dim, head_dim, factor);
    }
    int d = 0;
    for (; d + 4 * Vec::kWidth <= head_dim; d += 4 * Vec::kWidth) {
      add_values<Page, kQueries, 4>(scores, num_keys, tile, values + d, head_dim, out + d);
    }
    for (; d < head_dim; d += Vec::kWidth) {
      add_values<Page, kQueries, 1>(scores, num_keys, tile, values + d, head_dim, out + d);
    }
  }
  for (int g = 0; g < kQueries; ++g) {
    if (sums != nullptr) {
      sums[2 * g] = highest[g];
      sums[2 * g + 1] = total[g];
    } else {
      scale_row(out + g * head_dim, head_dim, 1 / total[g]);
    }
  }
}

// Each token by itself, which looks at its own position and those before.
template <class Page>
void attend_few(const AttentionArgs& given) {
  for (int t = 0; t < given.num_tokens; ++t) {
    AttentionArgs args = given;
    const int last = given.first_position + t + 1;
    if (args.end > last) args.end = last;
    const float* q = args.q + t * args.q_stride;
    float* out = args.out + t * args.out_stride;
    float* sums = args.sums == nullptr ? nullptr : args.sums + 2 * t * args.group;
    for (int g = 0; g < args.group;) {
      const int left = args.group - g;
      float* const own_sums = sums == nullptr ? nullptr : sums + 2 * g;
      const float* const own_q = q + g * args.head_dim;
      float* const own_out = out + g * args.head_dim;
      if (left >= 3 && left != 4) {
        attend_queries<Page, 3>(args, own_q, own_out, own_sums);
        g += 3;
      } else if (left >= 2) {
        attend_queries<Page, 2>(args, own_q, own_out, own_sums);
        g += 2;
      } else {
        attend_queries<Page, 1>(args, own_q, own_out, own_sums);
        g += 1;
      }
    }
  }
}

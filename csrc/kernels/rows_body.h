// Functions of single rows over `Vec`: the exponential, norms, rotation, conversion. Included into
// a namespace of its own.

// e^x to about one unit in the last place; 0 below -87.3, where the result would be denormal. What
// is not a number stays so: `max` and `min` return their second argument then.
HAMI_INLINE F exponential(F x) {
  const F low = Vec::set1(-87.33654F);
  const F y = Vec::min(Vec::set1(88.37626F), Vec::max(low, x));
  const F n = Vec::round(Vec::mul(y, Vec::set1(1.44269504088896341F)));
  // ln 2 in two parts, so that the rest is exact.
  F r = Vec::fma(n, Vec::set1(-0.693359375F), y);
  r = Vec::fma(n, Vec::set1(2.12194440e-4F), r);
  // The series of e^r to r^7 / 7!, good to 1e-8 for |r| <= 0.35.
  F p = Vec::set1(1.0F / 5040);
  p = Vec::fma(p, r, Vec::set1(1.0F / 720));
  p = Vec::fma(p, r, Vec::set1(1.0F / 120));
  p = Vec::fma(p, r, Vec::set1(1.0F / 24));
  p = Vec::fma(p, r, Vec::set1(1.0F / 6));
  p = Vec::fma(p, r, Vec::set1(0.5F));
  p = Vec::add(Vec::fma(p, Vec::mul(r, r), r), Vec::set1(1));
  return Vec::zero_below(x, low, Vec::mul(p, Vec::pow2(n)));
}

inline void rms_norm(const float* x, const float* weight, int n, float eps, float* out) {
  F squares = Vec::zero();
  int i = 0;
  for (; i + Vec::kWidth <= n; i += Vec::kWidth) {
    const F a = Vec::load(x + i);
    squares = Vec::fma(a, a, squares);
  }
  float total = Vec::sum(squares);
  for (; i < n; ++i) total += x[i] * x[i];
  const float scale = 1.0F / std::sqrt(total / static_cast<float>(n) + eps);
  for (i = 0; i + Vec::kWidth <= n; i += Vec::kWidth) {
    Vec::store(out + i,
               Vec::mul(Vec::mul(Vec::load(x + i), Vec::set1(scale)), Vec::load(weight + i)));
  }
  for (; i < n; ++i) out[i] = x[i] * scale * weight[i];
}

inline void rotate(float* head, const float* cos, const float* sin, int head_dim) {
  const int half = head_dim / 2;
  int i = 0;
  for (; i + Vec::kWidth <= half; i += Vec::kWidth) {
    const F a = Vec::load(head + i);
    const F b = Vec::load(head + half + i);
    const F c = Vec::load(cos + i);
    const F s = Vec::load(sin + i);
    Vec::store(head + i, Vec::sub(Vec::mul(a, c), Vec::mul(b, s)));
    Vec::store(head + half + i, Vec::fma(b, c, Vec::mul(a, s)));
  }
  for (; i < half; ++i) {
    const float a = head[i];
    const float b = head[half + i];
    head[i] = a * cos[i] - b * sin[i];
    head[half + i] = b * cos[i] + a * sin[i];
  }
}

// How keys and values lie on pages.
struct Float32Page {
  using T = float;
  HAMI_INLINE static F load(const T* p) { return Vec::load(p); }
  HAMI_INLINE static void store(T* p, F a) { Vec::store(p, a); }
};
struct Bfloat16Page {
  using T = uint16_t;
  HAMI_INLINE static F load(const T* p) { return Vec::load_bf16(p); }
  HAMI_INLINE static void store(T* p, F a) { Vec::store_bf16(p, a); }
};
struct Float16Page {
  using T = uint16_t;
  HAMI_INLINE static F load(const T* p) { return Vec::load_fp16(p); }
  HAMI_INLINE static void store(T* p, F a) { Vec::store_fp16(p, a); }
};

// REQUIRES: n is a multiple of 16, as the sizes of heads are.
template <class Page>
void store_row(const float* from, int n, void* to) {
  auto* out = static_cast<typename Page::T*>(to);
  for (int i = 0; i < n; i += Vec::kWidth) Page::store(out + i, Vec::load(from + i));
}

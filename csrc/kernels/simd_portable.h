// A vector of four floats in the compiler's own words: what runs on every processor, and what the
// other instruction sets are tested against. Included into a namespace of its own.

struct Vec {
  static constexpr int kWidth = 4;
  static constexpr int kMaxRows = 4;
  static constexpr Isa kIsa = Isa::kPortable;
  typedef float F __attribute__((vector_size(16)));
  typedef int32_t I __attribute__((vector_size(16)));
  typedef uint32_t U __attribute__((vector_size(16)));

  HAMI_INLINE static F zero() { return F{}; }
  HAMI_INLINE static F set1(float a) { return F{a, a, a, a}; }
  HAMI_INLINE static F load(const float* p) {
    F a;
    std::memcpy(&a, p, sizeof a);
    return a;
  }
  HAMI_INLINE static void store(float* p, F a) { std::memcpy(p, &a, sizeof a); }
  HAMI_INLINE static F fma(F a, F b, F c) { return a * b + c; }
  HAMI_INLINE static void add_product(F& sum, F a, F b) { sum = fma(a, b, sum); }
  HAMI_INLINE static F add(F a, F b) { return a + b; }
  HAMI_INLINE static F sub(F a, F b) { return a - b; }
  HAMI_INLINE static F mul(F a, F b) { return a * b; }
  HAMI_INLINE static F div(F a, F b) { return a / b; }
  HAMI_INLINE static F max(F a, F b) { return a > b ? a : b; }
  HAMI_INLINE static F min(F a, F b) { return a < b ? a : b; }
  // 0 where a < limit, else b.
  HAMI_INLINE static F zero_below(F a, F limit, F b) { return a < limit ? F{} : b; }
  // The nearest whole number, for numbers that are far from the limits of int32.
  HAMI_INLINE static F round(F a) {
    const F magic = set1(12582912.0F);  // 1.5 * 2^23: the sum has no fraction
    return (a + magic) - magic;
  }
  // 2^n for whole n.
  HAMI_INLINE static F pow2(F n) {
    const I bits = (__builtin_convertvector(n, I) + 127) << 23;
    return reinterpret_cast<F>(bits);
  }
  HAMI_INLINE static float sum(F a) { return (a[0] + a[2]) + (a[1] + a[3]); }
  HAMI_INLINE static float highest(F a) {
    const float x = a[0] > a[1] ? a[0] : a[1];
    const float y = a[2] > a[3] ? a[2] : a[3];
    return x > y ? x : y;
  }

  // Pairs of bfloat16 along the depth: the first and the second of each pair.
  HAMI_INLINE static F first(const uint16_t* p) {
    U a;
    std::memcpy(&a, p, sizeof a);
    return reinterpret_cast<F>(a << 16);
  }
  HAMI_INLINE static F second(const uint16_t* p) {
    U a;
    std::memcpy(&a, p, sizeof a);
    return reinterpret_cast<F>(a & 0xFFFF0000U);
  }
  HAMI_INLINE static F load_bf16(const uint16_t* p) {
    const U a{p[0], p[1], p[2], p[3]};
    return reinterpret_cast<F>(a << 16);
  }
  HAMI_INLINE static F load_fp16(const uint16_t* p) {
    return F{half(p[0]), half(p[1]), half(p[2]), half(p[3])};
  }
  HAMI_INLINE static void store_bf16(uint16_t* p, F a) {
    for (int i = 0; i < 4; ++i) p[i] = bits_of(Bfloat16(a[i]));
  }
  HAMI_INLINE static void store_fp16(uint16_t* p, F a) {
    for (int i = 0; i < 4; ++i) p[i] = bits_of(Float16(a[i]));
  }
  HAMI_INLINE static float half(uint16_t bits) {
    return static_cast<float>(bits_to<Float16>(bits));
  }

  // Pairs of integers of 16 bits, one in each half of 32 bits.
  HAMI_INLINE static I no_pairs() { return I{}; }
  HAMI_INLINE static I set1_pair(const void* p) {
    int32_t a;
    std::memcpy(&a, p, sizeof a);
    return I{a, a, a, a};
  }
  HAMI_INLINE static I load_pairs(const int8_t* p) {
    return I{pair(p[0], p[1]), pair(p[2], p[3]), pair(p[4], p[5]), pair(p[6], p[7])};
  }
  HAMI_INLINE static I load_words(const uint32_t* p) {
    I a;
    std::memcpy(&a, p, sizeof a);
    return a;
  }
  template <int kStep>
  HAMI_INLINE static I nibbles(I words) {
    return reinterpret_cast<I>(reinterpret_cast<U>(words) >> (4 * kStep) & 0x000F000FU);
  }
  // sum + the products of both halves.
  HAMI_INLINE static I add_pairs(I sum, I a, I b) {
    return sum + low(a) * low(b) + (a >> 16) * (b >> 16);
  }
  HAMI_INLINE static F to_float(I a) { return __builtin_convertvector(a, F); }
  HAMI_INLINE static void store_int16(int16_t* p, F a) {
    const F whole = round(a);
    for (int i = 0; i < 4; ++i) p[i] = static_cast<int16_t>(whole[i]);
  }

 private:
  HAMI_INLINE static int32_t pair(int8_t first, int8_t second) {
    return static_cast<int32_t>(static_cast<uint32_t>(static_cast<uint16_t>(second)) << 16 |
                                static_cast<uint16_t>(first));
  }
  HAMI_INLINE static I low(I a) { return reinterpret_cast<I>(reinterpret_cast<U>(a) << 16) >> 16; }
};

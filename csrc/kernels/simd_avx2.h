// Eight floats in AVX2 with FMA and F16C. Included into a namespace of its own.

struct Vec {
  static constexpr int kWidth = 8;
  static constexpr int kMaxRows = 6;
  static constexpr Isa kIsa = Isa::kAvx2;
  using F = __m256;
  using I = __m256i;

  HAMI_INLINE static F zero() { return _mm256_setzero_ps(); }
  HAMI_INLINE static F set1(float a) { return _mm256_set1_ps(a); }
  HAMI_INLINE static F load(const float* p) { return _mm256_loadu_ps(p); }
  HAMI_INLINE static void store(float* p, F a) { _mm256_storeu_ps(p, a); }
  HAMI_INLINE static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  // sum += a * b, where the sum stays in its register. Compilers like to put it into that of a
  // factor, and run out of registers when twelve sums are on their way.
  HAMI_INLINE static void add_product(F& sum, F a, F b) {
    asm("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b));
  }
  HAMI_INLINE static F add(F a, F b) { return _mm256_add_ps(a, b); }
  HAMI_INLINE static F sub(F a, F b) { return _mm256_sub_ps(a, b); }
  HAMI_INLINE static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  HAMI_INLINE static F div(F a, F b) { return _mm256_div_ps(a, b); }
  HAMI_INLINE static F max(F a, F b) { return _mm256_max_ps(a, b); }
  HAMI_INLINE static F min(F a, F b) { return _mm256_min_ps(a, b); }
  HAMI_INLINE static F zero_below(F a, F limit, F b) {
    return _mm256_andnot_ps(_mm256_cmp_ps(a, limit, _CMP_LT_OQ), b);
  }
  HAMI_INLINE static F round(F a) {
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  HAMI_INLINE static F pow2(F n) {
    const __m256i bits = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(bits, 23));
  }
  HAMI_INLINE static float sum(F a) {
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
  }
  HAMI_INLINE static float highest(F a) {
    __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
  }

  HAMI_INLINE static __m256i raw(const uint16_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  HAMI_INLINE static F first(const uint16_t* p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(raw(p), 16));
  }
  HAMI_INLINE static F second(const uint16_t* p) {
    return _mm256_castsi256_ps(
        _mm256_and_si256(raw(p), _mm256_set1_epi32(static_cast<int>(0xFFFF0000U))));
  }
  HAMI_INLINE static __m128i half_of(const uint16_t* p) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  }
  HAMI_INLINE static F load_bf16(const uint16_t* p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half_of(p)), 16));
  }
  HAMI_INLINE static F load_fp16(const uint16_t* p) { return _mm256_cvtph_ps(half_of(p)); }
  // To nearest, ties to even; what is not a number stays so.
  HAMI_INLINE static void store_bf16(uint16_t* p, F a) {
    const __m256i bits = _mm256_castps_si256(a);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i sum = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
    const __m256i nan = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256 is_nan = _mm256_cmp_ps(a, a, _CMP_UNORD_Q);
    const __m256i rounded = _mm256_castps_si256(
        _mm256_blendv_ps(_mm256_castsi256_ps(sum), _mm256_castsi256_ps(nan), is_nan));
    const __m256i upper = _mm256_srli_epi32(rounded, 16);
    const __m128i packed =
        _mm_packus_epi32(_mm256_castsi256_si128(upper), _mm256_extracti128_si256(upper, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), packed);
  }
  HAMI_INLINE static void store_fp16(uint16_t* p, F a) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
  }

  // Pairs of integers of 16 bits, one in each half of 32 bits.
  HAMI_INLINE static I no_pairs() { return _mm256_setzero_si256(); }
  HAMI_INLINE static I set1_pair(const void* p) {
    int32_t a;
    std::memcpy(&a, p, sizeof a);
    return _mm256_set1_epi32(a);
  }
  HAMI_INLINE static I load_pairs(const int8_t* p) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  HAMI_INLINE static I load_words(const uint32_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  template <int kStep>
  HAMI_INLINE static I nibbles(I words) {
    return _mm256_and_si256(_mm256_srli_epi32(words, 4 * kStep), _mm256_set1_epi32(0x000F000F));
  }
  HAMI_INLINE static I add_pairs(I sum, I a, I b) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
  }
  HAMI_INLINE static F to_float(I a) { return _mm256_cvtepi32_ps(a); }
  HAMI_INLINE static void store_int16(int16_t* p, F a) {
    const __m256i whole = _mm256_cvtps_epi32(a);
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(p),
        _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1)));
  }
};

// Sixteen floats in AVX-512 (F, BW, VL, DQ). Included into a namespace of its own.

struct Vec {
  static constexpr int kWidth = 16;
  static constexpr int kMaxRows = 12;
  static constexpr Isa kIsa = HAMI_ISA;
  using F = __m512;
  using I = __m512i;

  HAMI_INLINE static F zero() { return _mm512_setzero_ps(); }
  HAMI_INLINE static F set1(float a) { return _mm512_set1_ps(a); }
  HAMI_INLINE static F load(const float* p) { return _mm512_loadu_ps(p); }
  HAMI_INLINE static void store(float* p, F a) { _mm512_storeu_ps(p, a); }
  HAMI_INLINE static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  HAMI_INLINE static void add_product(F& sum, F a, F b) { sum = fma(a, b, sum); }
  HAMI_INLINE static F add(F a, F b) { return _mm512_add_ps(a, b); }
  HAMI_INLINE static F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  HAMI_INLINE static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  HAMI_INLINE static F div(F a, F b) { return _mm512_div_ps(a, b); }
  HAMI_INLINE static F max(F a, F b) { return _mm512_max_ps(a, b); }
  HAMI_INLINE static F min(F a, F b) { return _mm512_min_ps(a, b); }
  HAMI_INLINE static F zero_below(F a, F limit, F b) {
    return _mm512_mask_mov_ps(b, _mm512_cmp_ps_mask(a, limit, _CMP_LT_OQ), _mm512_setzero_ps());
  }
  HAMI_INLINE static F round(F a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  HAMI_INLINE static F pow2(F n) {
    const __m512i bits = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
    return _mm512_castsi512_ps(_mm512_slli_epi32(bits, 23));
  }
  HAMI_INLINE static float sum(F a) { return _mm512_reduce_add_ps(a); }
  HAMI_INLINE static float highest(F a) { return _mm512_reduce_max_ps(a); }

  HAMI_INLINE static __m512i raw(const void* p) { return _mm512_loadu_si512(p); }
  HAMI_INLINE static F first(const uint16_t* p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(raw(p), 16));
  }
  HAMI_INLINE static F second(const uint16_t* p) {
    return _mm512_castsi512_ps(
        _mm512_and_si512(raw(p), _mm512_set1_epi32(static_cast<int>(0xFFFF0000U))));
  }
  HAMI_INLINE static __m256i half_of(const uint16_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  HAMI_INLINE static F load_bf16(const uint16_t* p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half_of(p)), 16));
  }
  HAMI_INLINE static F load_fp16(const uint16_t* p) { return _mm512_cvtph_ps(half_of(p)); }
  HAMI_INLINE static void store_bf16(uint16_t* p, F a) {
    const __m512i bits = _mm512_castps_si512(a);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i sum = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
    const __m512i nan = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
    const __mmask16 is_nan = _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
    const __m512i rounded = _mm512_mask_blend_epi32(is_nan, sum, nan);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
  }
  HAMI_INLINE static void store_fp16(uint16_t* p, F a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
  }

  // Pairs of integers of 16 bits, one in each half of 32 bits.
  HAMI_INLINE static I no_pairs() { return _mm512_setzero_si512(); }
  HAMI_INLINE static I set1_pair(const void* p) {
    int32_t a;
    std::memcpy(&a, p, sizeof a);
    return _mm512_set1_epi32(a);
  }
  HAMI_INLINE static I load_pairs(const int8_t* p) {
    return _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  HAMI_INLINE static I load_words(const uint32_t* p) { return raw(p); }
  template <int kStep>
  HAMI_INLINE static I nibbles(I words) {
    return _mm512_and_si512(_mm512_srli_epi32(words, 4 * kStep), _mm512_set1_epi32(0x000F000F));
  }
  HAMI_INLINE static I add_pairs(I sum, I a, I b) {
#if HAMI_HAS_VNNI
    return _mm512_dpwssd_epi32(sum, a, b);
#else
    return _mm512_add_epi32(sum, _mm512_madd_epi16(a, b));
#endif
  }
  HAMI_INLINE static F to_float(I a) { return _mm512_cvtepi32_ps(a); }
  HAMI_INLINE static void store_int16(int16_t* p, F a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(a)));
  }
};

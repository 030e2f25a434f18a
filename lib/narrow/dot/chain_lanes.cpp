// Chains whose every operation is rounded: in float as the machine does, or to nearest even in a narrow format, carried in
// floats. Sixteen columns at once, and rows side by side, because each operation waits for the one before it.
#include "narrow/dot/kernels.hpp"
#include "narrow/simd/width_lanes.hpp"

namespace narrow::detail {

inline namespace NARROW_LANES {

namespace {

// Sixteen columns of a type: its lanes, and how many of them.
template <class Real>
struct Columns;
template <>
struct Columns<float> {
  using Lanes = FloatLanes;
};
template <>
struct Columns<double> {
  using Lanes = DoubleLanes;
};
template <class Real>
inline constexpr size_t vectors_of = lane_columns * sizeof(Real) / lane_bytes;

constexpr int vectors = static_cast<int>(vectors_of<float>);
constexpr size_t rows_at_once = static_cast<size_t>(8 / vectors);

// Anchor: x + c - c with c = 1.5 * 2^(e + cut), e the exponent of x. The last bit of c is the format's quantum there, so the
// addition rounds to nearest even at that bit (1.5 * 2^23 is even), and the subtraction is exact. The sign of a zero is lost.
//   max(e, emin) keeps the quantum of the subnormals.
// Word: half a quantum less one, and one more where the last bit kept is odd, is added before the rest is cleared.
template <RoundedLanes::Way W>
inline FloatLanes round_lanes(FloatLanes x, const RoundedLanes& r) {
  const auto cut = static_cast<uint32_t>(r.cut);
  const WordLanes word = as_words(x);
  if constexpr (W == RoundedLanes::Way::half) return as_float(from_half(to_half(word)));
  if constexpr (W == RoundedLanes::Way::word)  // the words of Inf and NaN wrap around, and what comes of them is not used
    return as_float((word + ((word >> cut) & 1u) + ((1u << (cut - 1)) - 1u)) & (0u - (1u << cut)));
  const WordLanes exponent = larger(word & 0x7F800000u, splat(static_cast<uint32_t>(r.min_exponent_bits)));
  const FloatLanes anchor = as_float(exponent + ((cut << 23) | 0x00400000u));
  return (x + anchor) - anchor;
}

template <RoundedLanes::Way W, size_t Rows>
void rounded_rows(const RoundedLanes& r, const float* a, size_t pitch, const float* b, size_t products,
                  float (*accumulators)[lane_columns], int32_t (*beyond)[lane_columns]) {
  constexpr bool tracks = W != RoundedLanes::Way::half;  // an Inf stays to the end
  FloatLanes acc[Rows][vectors];
  WordLanes seen[Rows][vectors] = {};
  __builtin_memcpy(acc, accumulators, sizeof acc);
  for (size_t k = 0; k < products; ++k, b += lane_columns)
    for (int v = 0; v < vectors; ++v) {
      const FloatLanes y = load_as<FloatLanes>(b + v * lane_count);
      for (size_t row = 0; row < Rows; ++row) {
        const FloatLanes product = a[row * pitch + k] * y;
        const FloatLanes sum = acc[row][v] + round_lanes<W>(product, r);
        if constexpr (tracks)
          seen[row][v] = larger(seen[row][v], larger(magnitude(as_words(product)), magnitude(as_words(sum))));
        acc[row][v] = round_lanes<W>(sum, r);
      }
    }
  if constexpr (!tracks)
    for (size_t row = 0; row < Rows; ++row)
      for (int v = 0; v < vectors; ++v) seen[row][v] = magnitude(as_words(acc[row][v]));
  __builtin_memcpy(accumulators, acc, sizeof acc);
  __builtin_memcpy(beyond, seen, sizeof seen);
}

template <RoundedLanes::Way W>
void rounded_way(const RoundedLanes& r, const float* a, size_t pitch, size_t rows, const float* b, size_t products,
                 float (*accumulators)[lane_columns], int32_t (*beyond)[lane_columns]) {
  size_t row = 0;
  for (; row + rows_at_once <= rows; row += rows_at_once)
    rounded_rows<W, rows_at_once>(r, a + row * pitch, pitch, b, products, accumulators + row, beyond + row);
  for (; row < rows; ++row) rounded_rows<W, 1>(r, a + row * pitch, pitch, b, products, accumulators + row, beyond + row);
}

template <RoundedLanes::Way W>
bool rounded_shared_way(const RoundedLanes& r, const float* a, const float* b, size_t products, float (&sums)[lane_columns]) {
  FloatLanes acc[vectors];
  WordLanes seen = {};
  __builtin_memcpy(acc, sums, sizeof acc);
  for (size_t k = 0; k < products; ++k) {
    const FloatLanes product = splat_float(a[k] * b[k]), rounded = round_lanes<W>(product, r);
    seen = larger(seen, magnitude(as_words(product)));
    for (FloatLanes& lanes : acc) {
      const FloatLanes sum = lanes + rounded;
      seen = larger(seen, magnitude(as_words(sum)));
      lanes = round_lanes<W>(sum, r);
    }
  }
  __builtin_memcpy(sums, acc, sizeof acc);
  return !any_above(seen, static_cast<uint32_t>(r.largest_word));
}

template <bool Fused, size_t Rows, class Real>
void chain_rows(const Real* a, size_t pitch, const Real* b, size_t products, Real (*accumulators)[lane_columns]) {
  using Lanes = typename Columns<Real>::Lanes;
  Lanes acc[Rows][vectors_of<Real>];
  __builtin_memcpy(acc, accumulators, sizeof acc);
  for (size_t k = 0; k < products; ++k, b += lane_columns)
    for (size_t v = 0; v < vectors_of<Real>; ++v) {
      const Lanes y = load_as<Lanes>(b + v * (lane_bytes / sizeof(Real)));
      for (size_t row = 0; row < Rows; ++row) {
        const Real x = a[row * pitch + k];
        if constexpr (Fused) acc[row][v] = fused(acc[row][v], x - Lanes{}, y);  // as splat_float()
        else acc[row][v] += x * y;
      }
    }
  __builtin_memcpy(accumulators, acc, sizeof acc);
}

template <bool Fused, class Real>
void chain_any(const Real* a, size_t pitch, size_t rows, const Real* b, size_t products, Real (*accumulators)[lane_columns]) {
  constexpr size_t together = 16 / vectors_of<Real>;
  size_t row = 0;
  for (; row + together <= rows; row += together) chain_rows<Fused, together>(a + row * pitch, pitch, b, products, accumulators + row);
  for (; row < rows; ++row) chain_rows<Fused, 1>(a + row * pitch, pitch, b, products, accumulators + row);
}

template <class Real>
void fused_shared(const Real* a, const Real* b, size_t products, Real (&sums)[lane_columns]) {
  using Lanes = typename Columns<Real>::Lanes;
  Lanes acc[vectors_of<Real>];
  __builtin_memcpy(acc, sums, sizeof acc);
  for (size_t k = 0; k < products; ++k)
    for (Lanes& lanes : acc) lanes = fused(lanes, a[k] - Lanes{}, b[k] - Lanes{});
  __builtin_memcpy(sums, acc, sizeof acc);
}

}  // namespace

void fma_chain(const float* a, size_t pitch, size_t rows, const float* b, size_t products, float (*accumulators)[lane_columns]) {
  chain_any<true>(a, pitch, rows, b, products, accumulators);
}
void multiply_add_chain(const float* a, size_t pitch, size_t rows, const float* b, size_t products,
                        float (*accumulators)[lane_columns]) {
  chain_any<false>(a, pitch, rows, b, products, accumulators);
}
void fma_chain_wide(const double* a, size_t pitch, size_t rows, const double* b, size_t products,
                    double (*accumulators)[lane_columns]) {
  chain_any<true>(a, pitch, rows, b, products, accumulators);
}
void multiply_add_chain_wide(const double* a, size_t pitch, size_t rows, const double* b, size_t products,
                             double (*accumulators)[lane_columns]) {
  chain_any<false>(a, pitch, rows, b, products, accumulators);
}
void fma_shared(const float* a, const float* b, size_t products, float (&sums)[lane_columns]) {
  fused_shared(a, b, products, sums);
}
void fma_shared_wide(const double* a, const double* b, size_t products, double (&sums)[lane_columns]) {
  fused_shared(a, b, products, sums);
}

void rounded_chain(const RoundedLanes& r, const float* a, size_t pitch, size_t rows, const float* b, size_t products,
                   float (*accumulators)[lane_columns], int32_t (*beyond)[lane_columns]) {
  using enum RoundedLanes::Way;
  switch (r.way) {
    case anchor: return rounded_way<anchor>(r, a, pitch, rows, b, products, accumulators, beyond);
    case word: return rounded_way<word>(r, a, pitch, rows, b, products, accumulators, beyond);
    case half: return rounded_way<half>(r, a, pitch, rows, b, products, accumulators, beyond);
  }
}
bool rounded_shared(const RoundedLanes& r, const float* a, const float* b, size_t products, float (&sums)[lane_columns]) {
  using enum RoundedLanes::Way;
  switch (r.way) {
    case anchor: return rounded_shared_way<anchor>(r, a, b, products, sums);
    case word: return rounded_shared_way<word>(r, a, b, products, sums);
    case half: return rounded_shared_way<half>(r, a, b, products, sums);
  }
  return false;
}

// From fused_lanes.cpp.
void fused_bytes(const DotModel& m, const LaneConstants& c, const LaneOperands<float, int8_t>& x, size_t products, size_t rows,
                 float (*accumulators)[lane_columns], bool* unsure);
void fused_words(const DotModel& m, const LaneConstants& c, const LaneOperands<float, int16_t>& x, size_t products, size_t rows,
                 float (*accumulators)[lane_columns], bool* unsure);
void fused_bytes_wide(const DotModel& m, const LaneConstants& c, const LaneOperands<double, int8_t>& x, size_t products,
                      size_t rows, float (*accumulators)[lane_columns], bool* unsure);
void fused_words_wide(const DotModel& m, const LaneConstants& c, const LaneOperands<double, int16_t>& x, size_t products,
                      size_t rows, float (*accumulators)[lane_columns], bool* unsure);
bool shared_chain(const DotModel& m, const LaneConstants& c, const SharedProducts<float>& x, size_t products,
                  float (&accumulators)[lane_columns]);
bool shared_chain_wide(const DotModel& m, const LaneConstants& c, const SharedProducts<double>& x, size_t products,
                       float (&accumulators)[lane_columns]);

extern const DotKernels dot_kernels;
constexpr DotKernels dot_kernels{has_half_lanes, fused_bytes, fused_words, fused_bytes_wide, fused_words_wide, shared_chain,
                                 shared_chain_wide, fma_chain, multiply_add_chain, fma_chain_wide, multiply_add_chain_wide,
                                 rounded_chain, rounded_shared, fma_shared, fma_shared_wide};

}  // namespace NARROW_LANES

}  // namespace narrow::detail

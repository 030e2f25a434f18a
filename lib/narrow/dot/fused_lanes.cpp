// The fused step for sixteen columns at once, the same bits as fused_step for finite operands.
#include <type_traits>

#include "narrow/dot/kernels.hpp"
#include "narrow/simd/lanes.hpp"

namespace narrow::detail::inline NARROW_LANES {

namespace {

constexpr int columns = static_cast<int>(lane_columns);
constexpr int vectors = columns / lane_count;

// A step waits for the one before it, so that short vectors of a row alone would leave the machine idle: rows side by side.
constexpr int rows_at_once = lane_count == 16 ? 4 : lane_count == 8 ? 2 : 1;

// Exponents of sixteen columns as words.
inline void widen_exponents(const int8_t (&narrow)[columns], IntLanes (&out)[vectors]) { widen_bytes(narrow, out); }
inline void widen_exponents(const int16_t (&narrow)[columns], IntLanes (&out)[vectors]) {
  using Part = Lanes<int16_t, lane_count>;
  for (int v = 0; v < vectors; ++v) out[v] = __builtin_convertvector(load_as<Part>(narrow + v * lane_count), IntLanes);
}

// What the lanes multiply, as the steps ask for it.
template <class R, class E>
struct Operands {
  using Real = R;
  using Exponent = E;
  LaneOperands<R, E> at;

  void advance(size_t products) {
    at.a += products, at.a_exponent += products;
    at.b += products * lane_columns, at.b_exponent += products * lane_columns;
  }
  // The largest exponents of a step's products, column by column; below no_product where all are zero products.
  void largest(int row, size_t products, IntLanes (&out)[vectors]) const {
    const E* a = at.a_exponent + static_cast<size_t>(row) * at.pitch;
    if constexpr (has_group_lanes) {
      constexpr int group = group_of<E>, width = lane_bytes / static_cast<int>(sizeof(E));
      if (products % group == 0) {
        GroupRow<E> best[group_rows];
        for (GroupRow<E>& most : best) most = GroupRow<E>{} + static_cast<E>(2 * zero_exponent<E>);
        for (size_t k = 0; k < products; k += group)
          for (int r = 0; r < group_rows; ++r) {
            const auto e = spread_group(a + k, r) + load_as<GroupRow<E>>(at.b_exponent + k * lane_columns + static_cast<size_t>(r * width));
            best[r] = e > best[r] ? e : best[r];
          }
        return largest_of_groups<E>(best, out);
      }
    }
    using Exponents = Lanes<E, 16 / sizeof(E)>;
    constexpr int width = 16 / sizeof(E), parts = columns / width;
    Exponents best[parts];
    for (int v = 0; v < parts; ++v) best[v] = Exponents{} + static_cast<E>(2 * zero_exponent<E>);
    for (size_t k = 0; k < products; ++k)
      for (int v = 0; v < parts; ++v) {
        const Exponents e = load_as<Exponents>(at.b_exponent + k * lane_columns + static_cast<size_t>(v * width)) + a[k];
        best[v] = e > best[v] ? e : best[v];
      }
    E flat[columns];
    __builtin_memcpy(flat, best, sizeof flat);
    widen_exponents(flat, out);
  }
  template <class Vector>
  Vector product(int row, size_t k, int v) const {
    return load_as<Vector>(at.b + k * lane_columns + sizeof(Vector) / sizeof(R) * static_cast<size_t>(v)) *
           at.a[static_cast<size_t>(row) * at.pitch + k];
  }
};

template <class R>
struct Shared {
  using Real = R;
  using Exponent = int16_t;
  SharedProducts<R> at;

  void advance(size_t products) { at.products += products, ++at.exponents; }
  void largest(int, size_t, IntLanes (&out)[vectors]) const {
    for (IntLanes& exponent : out) exponent = IntLanes{} + static_cast<int32_t>(*at.exponents);
  }
  template <class Vector>
  Vector product(int, size_t k, int) const {
    return Vector{} + at.products[k];
  }
};

// sum * 2^lowest rounded to nearest even in fp16, as floats. In doubles: the anchor 1.5 * 2^(e + 42) has its last bit at
// the quantum 2^(e - 10) of a value of exponent e, so adding it rounds there and taking it away is exact; what is below
// 2^-14 has the quantum of 2^-14. A zero comes out as +0, also of a negative sum.
inline FloatLanes round_to_half(IntLanes sum, IntLanes lowest) {
  IntPart quanta[2], place[2];
  FloatPart out[2];
  __builtin_memcpy(quanta, &sum, sizeof sum);
  __builtin_memcpy(place, &lowest, sizeof lowest);
  for (int part = 0; part < 2; ++part) {
    const QuantaLanes exponent = __builtin_convertvector(place[part], QuantaLanes);
    const DoubleLanes x = __builtin_convertvector(quanta[part], DoubleLanes) * as<DoubleLanes>((exponent + 1023) << 52);
    const QuantaLanes least = QuantaLanes{} + ((1023LL - 14) << 52), own = as<QuantaLanes>(x) & 0x7FF0000000000000LL;
    const QuantaLanes e = own > least ? own : least;
    const auto anchor = as<DoubleLanes>(e + ((42LL << 52) + 0x0008000000000000LL));
    out[part] = __builtin_convertvector((x + anchor) - anchor, FloatPart);
  }
  return load_as<FloatLanes>(out);
}

inline IntLanes larger(IntLanes a, IntLanes b) { return a > b ? a : b; }

// Steps of Rows rows side by side, of Products products where their number is known when this is compiled (0: it is not).
template <int Rows, int Products>
struct FusedLanes {
  FloatLanes acc[Rows][vectors];
  IntLanes lowest[Rows][vectors];  // 2^lowest is the quantum of a step: the largest exponent of products, addend and floor, less F

  static size_t step_products(const LaneConstants& c) { return static_cast<size_t>(Products != 0 ? Products : c.products_per_step); }

  template <class Factors>
  void find_lowest(const LaneConstants& c, const Factors& x) {
    const IntLanes floor = IntLanes{} + c.exponent_floor, least = IntLanes{} + c.accumulator_min_exponent;
    for (int r = 0; r < Rows; ++r) {
      IntLanes largest[vectors];
      x.largest(r, step_products(c), largest);
      for (int v = 0; v < vectors; ++v) {
        const IntLanes magnitude = as<IntLanes>(acc[r][v]) & 0x7FFFFFFF, exponent = (magnitude >> 23) - 127;
        const IntLanes own = magnitude == 0 ? floor : larger(exponent, least);
        const IntLanes product = largest[v] < no_product<typename Factors::Exponent> ? floor : largest[v];
        lowest[r][v] = larger(larger(product, floor), own) - c.fraction_bits;
      }
    }
  }

  // Sums of products [begin, end) in quanta, cut term by term: a conversion to an integer cuts the magnitude, which is
  // what the hardware does. a * b and the multiplication by a power of two are exact.
  template <class Factors>
  static void sum_quanta(const Factors& x, size_t begin, size_t end, const FloatLanes (&per_quantum)[Rows][vectors],
                         IntLanes (&sums)[Rows][vectors]) {
    for (size_t k = begin; k < end; ++k)
      for (int r = 0; r < Rows; ++r)
        for (int v = 0; v < vectors; ++v)
          sums[r][v] += __builtin_convertvector(x.template product<FloatLanes>(r, k, v) * per_quantum[r][v], IntLanes);
  }

  // One step in floats and 32-bit sums. |term| < 4 * 2^F, so 2^(29 - F) terms fit a sum; Halves: there are twice as many.
  // Returns the rows (bits) in which an accumulator became infinite.
  template <bool Halves, class Factors>
    requires std::is_same_v<typename Factors::Real, float>
  unsigned step(const DotModel& m, const LaneConstants& c, const Factors& x) {
    const size_t products = step_products(c);
    find_lowest(c, x);
    IntLanes sums[Rows][vectors] = {}, more[Rows][vectors] = {}, slow[Rows] = {};
    FloatLanes per_quantum[Rows][vectors], quantum[Rows][vectors];
    for (int r = 0; r < Rows; ++r)
      for (int v = 0; v < vectors; ++v) {
        slow[r] |= lowest[r][v] < -126;
        const IntLanes within = larger(lowest[r][v], IntLanes{} - 126);  // of which 2^n and 2^-n are floats
        per_quantum[r][v] = as<FloatLanes>((127 - within) << 23), quantum[r][v] = as<FloatLanes>((127 + within) << 23);
      }
    sum_quanta(x, 0, Halves ? products / 2 : products, per_quantum, sums);
    if constexpr (Halves) sum_quanta(x, products / 2, products, per_quantum, more);
    FloatLanes results[Rows][vectors];
    for (int r = 0; r < Rows; ++r)
      for (int v = 0; v < vectors; ++v) {
        constexpr int32_t safe = 1 << 29;  // two such sums and the addend (below 2^27) stay within 32 bits
        slow[r] |= (sums[r][v] > safe) | (sums[r][v] < -safe);
        if constexpr (Halves) slow[r] |= (more[r][v] > safe) | (more[r][v] < -safe);
        // As words: a sum that leaves 32 bits is not used.
        const IntLanes addend = __builtin_convertvector(acc[r][v] * per_quantum[r][v], IntLanes);
        const auto sum = as<IntLanes>(as<WordLanes>(sums[r][v]) + as<WordLanes>(more[r][v]) + as<WordLanes>(addend));
        if (c.rounds_to_nearest) {
          results[r][v] = round_to_half(sum, lowest[r][v]);
          slow[r] |= (as<IntLanes>(results[r][v]) & 0x7FFFFFFF) > 0x477FE000;  // 65504
          continue;
        }
        results[r][v] = as<FloatLanes>(as<IntLanes>(cut_to_float(sum)) & c.kept_mask) * quantum[r][v];
        // Subnormal or infinite: not what a multiplication of floats decides.
        const IntLanes magnitude = as<IntLanes>(results[r][v]) & 0x7FFFFFFF;
        slow[r] |= ((magnitude < 0x00800000) & (sum != 0)) | (magnitude >= 0x7F800000);
      }
    unsigned infinite = 0;
    for (int r = 0; r < Rows; ++r) {
      if (!any(as<WordLanes>(slow[r]))) [[likely]] {
        for (int v = 0; v < vectors; ++v) acc[r][v] = results[r][v];
        continue;
      }
      int64_t quanta[columns];
      for (int j = 0; j < columns; ++j)
        quanta[j] = int64_t{sums[r][j / lane_count][j % lane_count]} + more[r][j / lane_count][j % lane_count];
      if (round_each(m, r, quanta)) infinite |= 1u << r;
    }
    return infinite;
  }

  // The same for any range of exponents: products and quanta in doubles, sums in 64 bits.
  template <bool Halves, class Factors>
    requires std::is_same_v<typename Factors::Real, double>
  unsigned step(const DotModel& m, const LaneConstants& c, const Factors& x) {
    find_lowest(c, x);
    unsigned infinite = 0;
    for (int r = 0; r < Rows; ++r) {
      DoubleLanes per_quantum[2 * vectors];
      for (int v = 0; v < vectors; ++v) {
        IntPart parts[2];
        __builtin_memcpy(parts, &lowest[r][v], sizeof parts);
        for (int part = 0; part < 2; ++part)
          per_quantum[2 * v + part] = as<DoubleLanes>((1023 - __builtin_convertvector(parts[part], QuantaLanes)) << 52);
      }
      QuantaLanes quanta[2 * vectors] = {};
      for (size_t k = 0; k < step_products(c); ++k)
        for (int v = 0; v < 2 * vectors; ++v)
          quanta[v] += __builtin_convertvector(x.template product<DoubleLanes>(r, k, v) * per_quantum[v], QuantaLanes);
      int64_t sums[columns];
      __builtin_memcpy(sums, quanta, sizeof sums);
      if (round_each(m, r, sums)) infinite |= 1u << r;
    }
    return infinite;
  }

  [[gnu::noinline, gnu::cold]] bool round_each(const DotModel& m, int r, const int64_t (&quanta)[columns]) {
    bool infinite = false;
    for (int j = 0; j < columns; ++j) {
      FloatLanes& lanes = acc[r][j / lane_count];
      const float result = round_lane(m, quanta[j], lanes[j % lane_count], lowest[r][j / lane_count][j % lane_count]);
      lanes[j % lane_count] = result;
      infinite = infinite || !__builtin_isfinite(result);
    }
    if (infinite)  // other rows go on, and this one with numbers that harm nobody
      for (FloatLanes& lanes : acc[r]) lanes = FloatLanes{};
    return infinite;
  }

  // Returns the rows (bits) of which nothing is known.
  template <bool Halves, class Factors>
  static unsigned chain(const DotModel& m, const LaneConstants& c, Factors x, size_t products, float* accumulators) {
    const size_t of_step = step_products(c);
    const size_t instruction = c.steps_per_instruction == 0 ? products : of_step * static_cast<size_t>(c.steps_per_instruction);
    FusedLanes lanes;
    unsigned lost = 0;
    __builtin_memcpy(lanes.acc, accumulators, sizeof lanes.acc);
    for (size_t k = 0; k < products; k += instruction) {
      float entered[Rows * columns] = {};
      if (c.steps_per_instruction != 0) {
        __builtin_memcpy(entered, lanes.acc, sizeof entered);
        __builtin_memset(lanes.acc, 0, sizeof lanes.acc);
      }
      for (size_t i = 0; i < instruction; i += of_step, x.advance(of_step)) {
        lost |= lanes.template step<Halves>(m, c, x);
        if (lost == (1u << Rows) - 1) return lost;
      }
      if (c.steps_per_instruction == 0) continue;
      float sums[Rows * columns];
      __builtin_memcpy(sums, lanes.acc, sizeof sums);
      for (int j = 0; j < Rows * columns; ++j) {
        sums[j] += entered[j];
        // Rounding twice is innocuous: 24 bits are at least twice 11 and two.
        if (m.accumulator.format.mantissa_bits != 23) sums[j] = round_addition(m, sums[j]);
        if (!__builtin_isfinite(sums[j])) lost |= 1u << (j / columns);
      }
      __builtin_memcpy(lanes.acc, sums, sizeof sums);
    }
    __builtin_memcpy(accumulators, lanes.acc, sizeof lanes.acc);
    return lost;
  }
};

template <int Rows, class Factors>
unsigned chain(const DotModel& m, const LaneConstants& c, const Factors& x, size_t products, float* accumulators) {
  if (c.in_halves) return FusedLanes<Rows, 0>::template chain<true>(m, c, x, products, accumulators);
  if constexpr (Rows > 1 && std::is_same_v<typename Factors::Real, float>) {
    if (c.products_per_step == 8) return FusedLanes<Rows, 8>::template chain<false>(m, c, x, products, accumulators);
    if (c.products_per_step == 16) return FusedLanes<Rows, 16>::template chain<false>(m, c, x, products, accumulators);
  }
  return FusedLanes<Rows, 0>::template chain<false>(m, c, x, products, accumulators);
}

template <class R, class E>
void fused_rows(const DotModel& m, const LaneConstants& c, const LaneOperands<R, E>& x, size_t products, size_t rows,
                float (*accumulators)[lane_columns], bool* unsure) {
  const auto operands = [&](size_t row) {
    return Operands<R, E>{{x.a + row * x.pitch, x.a_exponent + row * x.pitch, x.pitch, x.b, x.b_exponent}};
  };
  for (size_t row = 0; row < rows;) {
    if constexpr (rows_at_once > 1) {
      bool whole = row + rows_at_once <= rows;
      for (size_t r = 0; whole && r < rows_at_once; ++r) whole = !unsure[row + r];
      if (whole) {
        const unsigned lost = chain<rows_at_once>(m, c, operands(row), products, accumulators[row]);
        for (size_t r = 0; r < rows_at_once; ++r) unsure[row + r] = (lost >> r & 1) != 0;
        row += rows_at_once;
        continue;
      }
    }
    if (!unsure[row]) unsure[row] = chain<1>(m, c, operands(row), products, accumulators[row]) != 0;
    ++row;
  }
}

}  // namespace

void fused_bytes(const DotModel& m, const LaneConstants& c, const LaneOperands<float, int8_t>& x, size_t products, size_t rows,
                 float (*accumulators)[lane_columns], bool* unsure) {
  fused_rows(m, c, x, products, rows, accumulators, unsure);
}
void fused_words(const DotModel& m, const LaneConstants& c, const LaneOperands<float, int16_t>& x, size_t products, size_t rows,
                 float (*accumulators)[lane_columns], bool* unsure) {
  fused_rows(m, c, x, products, rows, accumulators, unsure);
}
void fused_bytes_wide(const DotModel& m, const LaneConstants& c, const LaneOperands<double, int8_t>& x, size_t products,
                      size_t rows, float (*accumulators)[lane_columns], bool* unsure) {
  fused_rows(m, c, x, products, rows, accumulators, unsure);
}
void fused_words_wide(const DotModel& m, const LaneConstants& c, const LaneOperands<double, int16_t>& x, size_t products,
                      size_t rows, float (*accumulators)[lane_columns], bool* unsure) {
  fused_rows(m, c, x, products, rows, accumulators, unsure);
}
bool shared_chain(const DotModel& m, const LaneConstants& c, const SharedProducts<float>& x, size_t products,
                  float (&accumulators)[lane_columns]) {
  return chain<1>(m, c, Shared<float>{x}, products, accumulators) == 0;
}
bool shared_chain_wide(const DotModel& m, const LaneConstants& c, const SharedProducts<double>& x, size_t products,
                       float (&accumulators)[lane_columns]) {
  return chain<1>(m, c, Shared<double>{x}, products, accumulators) == 0;
}

}  // namespace narrow::detail::inline NARROW_LANES

// What happens after the chains: their results joined, scaled, added to C, rounded to the output.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "narrow/arith/arith.hpp"
#include "narrow/dot/gemm.hpp"
#include "narrow/round/round_to.hpp"

namespace narrow::detail {

// A request with its defaults filled in.
struct Product {
  const DotModel& model;
  const Plan& plan;
  const CodeMatrix &a, &b, &c;
  const GemmOptions& options;
  Format output, c_format;
  std::size_t rows, cols, k;

  bool has_c() const { return c.data != nullptr && options.beta != 0; }
  bool scales_over_k() const { return options.scale_a.inner != 0 || options.scale_b.inner != 0; }
  bool has_scales() const { return !options.scale_a.values.empty() || !options.scale_b.values.empty(); }
  // C is the first value of the accumulator, not a term of the epilogue. A bias (one row for all) never is.
  bool c_starts() const {
    return has_c() && plan.order == SumOrder::chain && plan.c == PlaceOfC::usual && c.pitch != 0 &&
           options.alpha == 1 && options.beta == 1 && !has_scales();
  }
  // C is a term of the first part: the epilogue has nothing to add.
  bool c_joins_first() const { return has_c() && plan.c == PlaceOfC::first; }
  // The result of the one chain is the output, bit for bit: no cast has a say.
  bool is_plain() const {
    return plan.order == SumOrder::chain && options.alpha == 1 && !has_scales() && (!has_c() || c_starts()) &&
           options.function.of == nullptr && output == model.accumulator.format;
  }
  Cast final_cast() const { return is_plain() ? Cast{} : options.output_cast; }
  float scale(const OperandScales& s, std::size_t outer, std::size_t at) const {
    if (s.values.empty()) return 1;
    const std::size_t across = s.inner == 0 ? 1 : (k + s.inner - 1) / s.inner;
    const std::size_t line = s.outer == 0 ? 0 : outer / s.outer, column = s.inner == 0 ? 0 : at / s.inner;
    return s.values[line * across + column];
  }
  float scale_of(std::size_t i, std::size_t j, std::size_t at) const {
    return scale(options.scale_a, i, at) * scale(options.scale_b, j, at);
  }
};

inline float to_sum(Code code, const Format& f, float) { return static_cast<float>(decode(code, f)); }
inline double to_sum(Code code, const Format& f, double) { return decode(code, f); }
inline std::int32_t to_sum(Code code, const Format&, std::int32_t) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(code));
}

inline Code to_code(float x, const Format& f, const Cast& cast) {
  if (f == "fp32"_fmt && std::isfinite(x)) return std::bit_cast<std::uint32_t>(x);
  return encode(x, f, cast);
}
inline Code to_code(double x, const Format& f, const Cast& cast) { return encode(x, f, cast); }
inline Code to_code(std::int32_t x, const Format& f, const Cast& cast) {
  if (f.is_integer() && f.width() == 32) return static_cast<std::uint32_t>(x);
  return encode(static_cast<double>(x), f, cast);
}

inline float add_sums(float x, float y) { return x + y; }
inline double add_sums(double x, double y) { return x + y; }
inline std::int32_t add_sums(std::int32_t x, std::int32_t y) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(x) + static_cast<std::uint32_t>(y));
}

// parts[0], parts[stride], ...: the results of the chains, in the order of the schedule; add(x, y): their sum.
template <class Sum, class Add>
Sum join_pairwise(const Sum* parts, std::size_t stride, std::size_t count, const Add& add) {
  if (count == 1) return parts[0];
  const std::size_t half = std::bit_ceil(count) / 2;
  return add(join_pairwise(parts, stride, half, add), join_pairwise(parts + half * stride, stride, count - half, add));
}

// The parts at even places and those at odd places, each alike: the last exchange is between neighbours.
template <class Sum, class Add>
Sum join_halving(const Sum* parts, std::size_t stride, std::size_t count, const Add& add) {
  if (count == 1) return parts[0];
  return add(join_halving(parts, 2 * stride, (count + 1) / 2, add),
             join_halving(parts + stride, 2 * stride, count / 2, add));
}

template <class Sum, class Add>
Sum join_by(Join join, const Sum* parts, std::size_t stride, std::size_t count, const Add& add) {
  if (join == Join::pairwise) return join_pairwise(parts, stride, count, add);
  if (join == Join::halving) return join_halving(parts, stride, count, add);
  const bool reversed = join == Join::reversed;
  Sum sum = parts[reversed ? (count - 1) * stride : 0];
  for (std::size_t s = 1; s < count; ++s) sum = add(sum, parts[(reversed ? count - 1 - s : s) * stride]);
  return sum;
}

// Blocks of `length` parts, each joined by halving; their sums go to four sums in turn.
template <class Sum, class Add>
Sum join_blocks(const Sum* parts, std::size_t stride, std::size_t count, std::size_t length, const Add& add) {
  constexpr std::size_t sums = 4;
  Sum sum[sums] = {};
  for (std::size_t block = 0; block * length < count; ++block) {
    const std::size_t first = block * length;
    const Sum part = join_halving(parts + first * stride, stride, std::min(length, count - first), add);
    sum[block % sums] = block < sums ? part : add(sum[block % sums], part);
  }
  return join_by(Join::in_order, sum, 1, std::min(sums, (count + length - 1) / length), add);
}

// A sum as the output's format holds it.
template <class Sum>
Sum in_output(const Product& p, Sum sum) {
  return to_sum(to_code(sum, p.output, p.options.output_cast), p.output, Sum{});
}

// count parts; first_k(s): where part s begins, which tells its scales.
template <class Sum, class FirstK>
Sum join_parts(const Product& p, std::size_t count, const FirstK& first_k, const Sum* parts, std::size_t stride,
               std::size_t i, std::size_t j) {
  if (p.scales_over_k()) {
    if constexpr (!std::is_integral_v<Sum>) {
      Sum sum = 0;
      for (std::size_t s = 0; s < count; ++s)
        sum = std::fma(static_cast<Sum>(p.scale_of(i, j, first_k(s))), parts[s * stride], sum);
      return sum;
    }
  }
  if (p.plan.order == SumOrder::chain) return parts[0];
  const auto wide = [](Sum x, Sum y) { return add_sums(x, y); };
  if (p.plan.order == SumOrder::blocks)
    return join_blocks(parts, stride, count, static_cast<std::size_t>(p.plan.length), wide);
  const bool c_first = p.c_joins_first();
  if (p.plan.partials == Partials::wide && !c_first) {
    if (p.plan.order != SumOrder::promote) return join_by(p.plan.join, parts, stride, count, wide);
    Sum sum = add_sums(Sum{0}, parts[0]);
    for (std::size_t s = 1; s < count; ++s) sum = add_sums(sum, parts[s * stride]);
    return sum;
  }
  const bool rounds_parts = p.plan.partials == Partials::output || p.plan.partials == Partials::stored;
  std::vector<Sum> terms(count);
  for (std::size_t s = 0; s < count; ++s) terms[s] = rounds_parts ? in_output(p, parts[s * stride]) : parts[s * stride];
  if (c_first) terms[0] = add_sums(terms[0], to_sum(p.c(i, j), p.c_format, Sum{}));
  if (p.plan.partials == Partials::output || p.plan.partials == Partials::serial) {
    const std::size_t first = p.plan.join == Join::reversed ? count - 1 : 0;
    if (p.plan.partials == Partials::serial || c_first) terms[first] = in_output(p, terms[first]);
    // Sums in the output's format by its own arithmetic: an overflow there is the output's.
    const auto narrow = [&](Sum x, Sum y) {
      if (p.plan.partials == Partials::serial) return in_output(p, add_sums(x, y));
      const Cast& cast = p.options.output_cast;
      return to_sum(add(to_code(x, p.output, cast), to_code(y, p.output, cast), p.output, cast), p.output, Sum{});
    };
    return join_by(p.plan.join, terms.data(), 1, count, narrow);
  }
  return join_by(p.plan.join, terms.data(), 1, count, wide);
}

template <class Sum>
Sum join_parts(const Product& p, const Schedule& schedule, const Sum* parts, std::size_t stride, std::size_t i, std::size_t j) {
  const auto first_k = [&](std::size_t s) {
    return schedule.order.empty() ? std::size_t{0} : static_cast<std::size_t>(schedule.order[schedule.segments[s].begin]);
  };
  return join_parts(p, schedule.segments.size(), first_k, parts, stride, i, j);
}

// The whole sum as an output.
template <class Sum>
Code store(const Product& p, Sum sum) {
  if (p.options.function.of == nullptr) return to_code(sum, p.output, p.final_cast());
  if constexpr (std::is_integral_v<Sum>) return store(p, static_cast<float>(sum));
  else {
    const auto x = static_cast<float>(p.options.rounds_before ? in_output(p, sum) : sum);
    return to_code(p.options.function.of(x), p.output, p.final_cast());
  }
}

// alpha * sum + beta * C: beta * C rounded, then one FMA.
template <class Sum>
Code finish(const Product& p, Sum sum, std::size_t i, std::size_t j) {
  const bool adds_c = p.has_c() && !p.c_starts() && !p.c_joins_first();
  if constexpr (std::is_integral_v<Sum>) {
    if (p.options.alpha == 1 && !p.has_scales() && (!adds_c || (p.options.beta == 1 && p.c_format.is_integer()))) {
      if (adds_c) sum = add_sums(sum, to_sum(p.c(i, j), p.c_format, Sum{}));
      return store(p, sum);
    }
    return finish(p, static_cast<float>(sum), i, j);
  } else {
    Sum factor = p.options.alpha;
    if (!p.scales_over_k() && p.has_scales()) factor *= static_cast<Sum>(p.scale_of(i, j, 0));
    if (adds_c && p.plan.c == PlaceOfC::after) {
      if (factor != 1) sum *= factor;
      sum = in_output(p, sum) + static_cast<Sum>(p.options.beta) * to_sum(p.c(i, j), p.c_format, Sum{});
    } else if (adds_c)
      sum = std::fma(factor, sum, static_cast<Sum>(p.options.beta) * to_sum(p.c(i, j), p.c_format, Sum{}));
    else if (factor != 1) sum *= factor;
    return store(p, sum);
  }
}

}  // namespace narrow::detail

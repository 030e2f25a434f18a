// What happens after the chains: their results joined, scaled, added to C, rounded to the output.
#pragma once

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
    return has_c() && plan.order == SumOrder::chain && !plan.c_last && c.pitch != 0 && options.alpha == 1 &&
           options.beta == 1 && !has_scales();
  }
  // The result of the one chain is the output, bit for bit: no cast has a say.
  bool is_plain() const {
    return plan.order == SumOrder::chain && options.alpha == 1 && !has_scales() && (!has_c() || c_starts()) &&
           output == model.accumulator.format;
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

// parts[0], parts[stride], ...: the results of the chains, in the order of the schedule.
template <class Sum>
Sum join_pairwise(const Sum* parts, std::size_t stride, std::size_t count) {
  if (count == 1) return parts[0];
  const std::size_t half = std::bit_ceil(count) / 2;
  return add_sums(join_pairwise(parts, stride, half), join_pairwise(parts + half * stride, stride, count - half));
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
  if (p.plan.join_in_output) {
    const auto code_of = [&](std::size_t s) { return to_code(parts[s * stride], p.output, p.options.output_cast); };
    Code sum = code_of(p.plan.join == Join::reversed ? count - 1 : 0);
    if (p.plan.join == Join::pairwise) {
      std::vector<Code> level(count);
      for (std::size_t s = 0; s < count; ++s) level[s] = code_of(s);
      // The tree of join_pairwise from its leaves: the first half is a whole power of two.
      const auto tree = [&](const auto& self, std::size_t first, std::size_t n) -> Code {
        if (n == 1) return level[first];
        const std::size_t half = std::bit_ceil(n) / 2;
        return add(self(self, first, half), self(self, first + half, n - half), p.output, p.options.output_cast);
      };
      sum = tree(tree, 0, count);
    } else {
      for (std::size_t s = 1; s < count; ++s)
        sum = add(sum, code_of(p.plan.join == Join::reversed ? count - 1 - s : s), p.output, p.options.output_cast);
    }
    return to_sum(sum, p.output, Sum{});
  }
  if (p.plan.join == Join::pairwise) return join_pairwise(parts, stride, count);
  const bool reversed = p.plan.join == Join::reversed;
  Sum sum = parts[reversed ? (count - 1) * stride : 0];
  if (p.plan.order == SumOrder::promote) sum = add_sums(Sum{0}, sum);
  for (std::size_t s = 1; s < count; ++s) sum = add_sums(sum, parts[(reversed ? count - 1 - s : s) * stride]);
  return sum;
}

template <class Sum>
Sum join_parts(const Product& p, const Schedule& schedule, const Sum* parts, std::size_t stride, std::size_t i, std::size_t j) {
  const auto first_k = [&](std::size_t s) {
    return schedule.order.empty() ? std::size_t{0} : static_cast<std::size_t>(schedule.order[schedule.segments[s].begin]);
  };
  return join_parts(p, schedule.segments.size(), first_k, parts, stride, i, j);
}

// alpha * sum + beta * C: beta * C rounded, then one FMA.
template <class Sum>
Code finish(const Product& p, Sum sum, std::size_t i, std::size_t j) {
  const bool adds_c = p.has_c() && !p.c_starts();
  if constexpr (std::is_integral_v<Sum>) {
    if (p.options.alpha == 1 && !p.has_scales() && (!adds_c || (p.options.beta == 1 && p.c_format.is_integer()))) {
      if (adds_c) sum = add_sums(sum, to_sum(p.c(i, j), p.c_format, Sum{}));
      return to_code(sum, p.output, p.final_cast());
    }
    return finish(p, static_cast<float>(sum), i, j);
  } else {
    Sum factor = p.options.alpha;
    if (!p.scales_over_k() && p.has_scales()) factor *= static_cast<Sum>(p.scale_of(i, j, 0));
    if (adds_c) sum = std::fma(factor, sum, static_cast<Sum>(p.options.beta) * to_sum(p.c(i, j), p.c_format, Sum{}));
    else if (factor != 1) sum *= factor;
    return to_code(sum, p.output, p.final_cast());
  }
}

}  // namespace narrow::detail

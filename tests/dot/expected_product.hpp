// What gemm() must give, output by output: chains by dot(), everything after them in plain float, double or integers.
#pragma once

#include <bit>
#include <cmath>

#include "dot/matrices.hpp"
#include "narrow/base/error.hpp"
#include "support/dot_oracle/ieee.hpp"

namespace test {

using narrow::Plan;
using narrow::SumOrder;

// The k of each chain, from the words of the plan (stream-K has tests of its own).
inline std::vector<std::vector<std::size_t>> chains_of(const Plan& plan, const DotModel& m, std::size_t k) {
  std::vector<std::vector<std::size_t>> chains(1);
  const auto length = static_cast<std::size_t>(plan.length);
  const auto run = static_cast<std::size_t>(plan.run != 0 ? plan.run : std::max(m.instruction_k, 1));
  if (plan.order == SumOrder::even) {  // deal the runs out one by one, first to those that are joined first
    const std::size_t runs = std::max<std::size_t>((k + run - 1) / run, 1), parts = std::min(length, runs);
    std::vector<std::size_t> share(parts);
    for (std::size_t i = 0; i < runs; ++i) ++share[plan.join == narrow::Join::reversed ? parts - 1 - i % parts : i % parts];
    chains.resize(parts);
    std::size_t x = 0;
    for (std::size_t part = 0; part < parts; ++part)
      for (std::size_t end = std::min(k, x + share[part] * run); x < end; ++x) chains[part].push_back(x);
    return chains;
  }
  for (std::size_t x = 0; x < k; ++x) {
    const std::size_t chain = plan.order == SumOrder::chain   ? 0
                              : plan.order == SumOrder::slice ? x / run % length
                                                              : x / length;
    if (chain >= chains.size()) chains.resize(chain + 1);
    chains[chain].push_back(x);
  }
  return chains;
}

// A value on its way to D: float, double or int32_t.
inline float value_in(Code code, const Format& f, float) {
  const oracle::Value v = oracle::value_of(code, f);
  const float sign = v.negative ? -1.0f : 1.0f;
  if (v.kind == oracle::Kind::nan) return std::numeric_limits<float>::quiet_NaN();
  if (v.kind == oracle::Kind::inf) return sign * std::numeric_limits<float>::infinity();
  return sign * static_cast<float>(to_double(v.magnitude));
}
inline double value_in(Code code, const Format&, double) { return std::bit_cast<double>(code); }
inline std::int32_t value_in(Code code, const Format&, std::int32_t) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(code));
}

inline Code code_in(float x, const Format& f, const narrow::Cast& cast) { return oracle::round(x, f, cast); }
inline Code code_in(double x, const Format& f, const narrow::Cast& cast) { return oracle::round(x, f, cast); }
inline Code code_in(std::int32_t x, const Format& f, const narrow::Cast& cast) {
  if (f.twos_complement && f.mantissa_bits == 31) return static_cast<std::uint32_t>(x);
  return oracle::round(static_cast<double>(x), f, cast);
}
template <class T>
T sum_of(T x, T y) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::uint32_t>(x) + static_cast<std::uint32_t>(y));
  else return x + y;
}

template <class T, class Add>
T joined(std::vector<T> parts, narrow::Join join, const Add& add) {
  if (join == narrow::Join::reversed) std::reverse(parts.begin(), parts.end());
  if (join == narrow::Join::halving) {
    // Thread i takes the sum of thread i + 2^n, for every n downwards; there are no threads beyond the last part.
    std::size_t offset = 1;
    while (offset < parts.size()) offset *= 2;
    for (offset /= 2; offset > 0; offset /= 2)
      for (std::size_t i = 0; i < offset; ++i)
        if (i + offset < parts.size()) parts[i] = add(parts[i], parts[i + offset]);
    return parts[0];
  }
  if (join != narrow::Join::pairwise) {
    T sum = parts[0];
    for (std::size_t i = 1; i < parts.size(); ++i) sum = add(sum, parts[i]);
    return sum;
  }
  while (parts.size() > 1) {
    std::vector<T> next;
    for (std::size_t i = 0; i < parts.size(); i += 2)
      next.push_back(i + 1 < parts.size() ? add(parts[i], parts[i + 1]) : parts[i]);
    parts = next;
  }
  return parts[0];
}

inline float scale_at(const narrow::OperandScales& s, std::size_t line, std::size_t k, std::size_t all_k) {
  if (s.values.empty()) return 1;
  const std::size_t across = s.inner == 0 ? 1 : (all_k + s.inner - 1) / s.inner;
  return s.values[(s.outer == 0 ? 0 : line / s.outer) * across + (s.inner == 0 ? 0 : k / s.inner)];
}

template <class T>
Code expected_output(const DotModel& m, const Plan& plan, const Problem& p, bool with_c, const narrow::GemmOptions& o,
                     std::size_t i, std::size_t j) {
  const Format &acc = m.accumulator.format, out = o.output.value_or(acc);
  const bool scaled = !o.scale_a.values.empty() || !o.scale_b.values.empty(),
             over_k = o.scale_a.inner + o.scale_b.inner != 0;
  const bool has_c = with_c && o.beta != 0;
  const bool c_starts = has_c && plan.order == SumOrder::chain && plan.c == narrow::PlaceOfC::usual && o.alpha == 1 &&
                        o.beta == 1 && !scaled;
  const Code c = p.c[i * p.cols + j];
  std::vector<T> parts;
  std::vector<std::size_t> first;
  for (const auto& chain : chains_of(plan, m, p.k)) {
    std::vector<Code> a, b, sa, sb;
    for (std::size_t n = 0; n < chain.size(); ++n) {
      a.push_back(p.row(i)[chain[n]]), b.push_back(p.col(j)[chain[n]]);
      if (!m.is_block_scaled() || n % static_cast<std::size_t>(m.scale_block) != 0) continue;
      sa.push_back(p.row_scales(m, i)[chain[n] / static_cast<std::size_t>(m.scale_block)]);
      sb.push_back(p.col_scales(m, j)[chain[n] / static_cast<std::size_t>(m.scale_block)]);
    }
    const Code start = c_starts ? c : 0;
    const Code sum = m.is_block_scaled() ? narrow::dot_scaled(m, a, b, sa, sb, start) : narrow::dot(m, a, b, start);
    parts.push_back(value_in(sum, acc, T{}));
    first.push_back(chain.empty() ? 0 : chain[0]);
    if (plan.order == SumOrder::chain && !scaled && o.alpha == 1 && (c_starts || !has_c) && out == acc) return sum;
  }
  T sum{};
  if constexpr (!std::is_integral_v<T>) {
    if (over_k)
      for (std::size_t s = 0; s < parts.size(); ++s)
        sum = std::fma(static_cast<T>(scale_at(o.scale_a, i, first[s], p.k) * scale_at(o.scale_b, j, first[s], p.k)),
                       parts[s], sum);
  }
  const bool c_first = has_c && plan.c == narrow::PlaceOfC::first;
  if (c_first) parts[0] = sum_of(parts[0], value_in(c, acc, T{}));
  const auto through = [&](T x) { return value_in(code_in(x, out, o.output_cast), out, T{}); };
  if (!over_k && plan.partials == narrow::Partials::stored) {
    for (T& part : parts) part = through(part);
    sum = joined(parts, plan.join, sum_of<T>);
  } else if (!over_k && plan.partials == narrow::Partials::serial) {
    // A block finds the rounded sum of those before it in D.
    if (plan.join == narrow::Join::reversed) std::reverse(parts.begin(), parts.end());
    sum = through(parts[0]);
    for (std::size_t n = 1; n < parts.size(); ++n) sum = through(sum_of(sum, parts[n]));
  } else if (!over_k && plan.partials != narrow::Partials::wide) {
    std::vector<Code> codes;
    for (const T part : parts) codes.push_back(code_in(part, out, o.output_cast));
    sum = value_in(joined(codes, plan.join, [&](Code x, Code y) { return oracle::ieee_add(x, y, out, o.output_cast); }),
                   out, T{});
  } else if (!over_k) {
    sum = joined(parts, plan.join, sum_of<T>);
    if (plan.order == SumOrder::promote) sum = sum_of(T{0}, sum);
  }
  const auto finish = [&](auto value) {
    using V = decltype(value);
    V factor = static_cast<V>(o.alpha);
    if (scaled && !over_k) factor *= static_cast<V>(scale_at(o.scale_a, i, 0, p.k) * scale_at(o.scale_b, j, 0, p.k));
    if (has_c && !c_starts && !c_first) {
      V addend{};
      if constexpr (std::is_integral_v<T>) addend = static_cast<V>(value_in(c, acc, T{}));
      else addend = value_in(c, acc, V{});
      if (plan.c == narrow::PlaceOfC::after) {
        const V rounded = value_in(code_in(factor == 1 ? value : value * factor, out, o.output_cast), out, V{});
        return code_in(rounded + static_cast<V>(o.beta) * addend, out, o.output_cast);
      }
      return code_in(std::fma(factor, value, static_cast<V>(o.beta) * addend), out, o.output_cast);
    }
    return code_in(factor == 1 ? value : value * factor, out, o.output_cast);
  };
  if constexpr (std::is_integral_v<T>) {
    if (o.alpha == 1 && o.beta == 1 && !scaled)
      return code_in(has_c && !c_starts ? sum_of(sum, value_in(c, acc, T{})) : sum, out, o.output_cast);
    return finish(static_cast<float>(sum));
  } else {
    return finish(sum);
  }
}

inline Code expected_output(const DotModel& m, const Plan& plan, const Problem& p, bool with_c,
                            const narrow::GemmOptions& o, std::size_t i, std::size_t j) {
  if (m.is_integer()) return expected_output<std::int32_t>(m, plan, p, with_c, o, i, j);
  if (m.accumulator.format.mantissa_bits == 52) return expected_output<double>(m, plan, p, with_c, o, i, j);
  return expected_output<float>(m, plan, p, with_c, o, i, j);
}

}  // namespace test

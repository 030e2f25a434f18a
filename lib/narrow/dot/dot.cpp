#include "narrow/dot/dot.hpp"

#include <algorithm>

#include "narrow/base/error.hpp"
#include "narrow/dot/block_step.hpp"
#include "narrow/dot/cdna_step.hpp"
#include "narrow/dot/software_sum.hpp"
#include "narrow/dot/step.hpp"

namespace narrow {

namespace {

using Codes = std::span<const Code>;

// One instruction of Hopper's FP8 mma.sync: two HMMAs on the widened operands (the step widens), then an addition of c.
// Missing products are zero products: they fill no place of a half.
Code fused_pair_then_add(const DotModel& m, Codes a, Codes b, Code c) {
  Code sum = 0;
  for (const std::size_t half : {std::size_t{0}, std::size_t{2}}) {
    std::array<Code, 16> x{}, y{};
    std::size_t n = 0;
    for (std::size_t k = 0; k < a.size(); ++k)
      if ((k & 2) == half) x[n] = a[k], y[n++] = b[k];
    sum = fused_step(m, Codes(x.data(), n), Codes(y.data(), n), sum);
  }
  return add(sum, c, m.accumulator.format);
}

std::int64_t integer_of(Code code, const Format& f) {
  const Unpacked u = unpack(code, f);
  return u.negative ? -static_cast<std::int64_t>(u.significand) : static_cast<std::int64_t>(u.significand);
}

Code integer_step(const DotModel& m, Codes a, Codes b, Code c) {
  std::int64_t sum = integer_of(c, m.accumulator.format);
  for (std::size_t i = 0; i < a.size(); ++i) sum += integer_of(a[i], m.a.format) * integer_of(b[i], m.b.format);
  if (m.rule == DotRule::integer_saturating) sum = std::clamp<std::int64_t>(sum, INT32_MIN, INT32_MAX);
  return static_cast<Code>(sum) & m.accumulator.format.code_mask();
}

// The order of additions that software chooses, over all products at once.
Code software_dot(const DotModel& m, Codes a, Codes b, Code c) {
  const Format& f = m.accumulator.format;
  if (m.rule == DotRule::pairwise) {
    std::vector<Code> products(a.size());
    for (std::size_t i = 0; i < a.size(); ++i) products[i] = detail::product_in(a[i], m.a.format, b[i], m.b.format, f);
    return products.empty() ? c : add(detail::pairwise_sum(products, f), c, f);
  }
  detail::KahanSum kahan{c, f.zero_code()};
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (m.rule == DotRule::fma_chain) {
      kahan.sum = detail::fma_in(a[i], m.a.format, b[i], m.b.format, kahan.sum, f);
      continue;
    }
    const Code p = detail::product_in(a[i], m.a.format, b[i], m.b.format, f);
    if (m.rule == DotRule::kahan) kahan.add_product(p, f);
    else kahan.sum = add(kahan.sum, p, f);
  }
  return kahan.sum;
}

Code one_step(const DotModel& m, Codes a, Codes b, Code c) {
  switch (m.rule) {
    case DotRule::fused: return fused_step(m, a, b, c);
    case DotRule::fused_pair_then_add: return fused_pair_then_add(m, a, b, c);
    case DotRule::integer:
    case DotRule::integer_saturating: return integer_step(m, a, b, c);
    case DotRule::exact: return exact_step(m, a, b, c);
    case DotRule::flushed_pairs: return flushed_pairs_step(m, a, b, c);
    case DotRule::two_stage:
    case DotRule::two_stage_halves: return two_stage_step(m, a, b, c);
    default: return software_dot(m, a, b, c);
  }
}

}  // namespace

std::size_t step_length(const DotModel& m, std::size_t k) {
  switch (m.rule) {
    case DotRule::fma_chain:
    case DotRule::multiply_add:
    case DotRule::pairwise:
    case DotRule::kahan: return std::max<std::size_t>(k, 1);
    case DotRule::fused_pair_then_add:
    case DotRule::integer_saturating: return static_cast<std::size_t>(m.instruction_k);
    default: return static_cast<std::size_t>(m.products_per_step);
  }
}

Code dot(const DotModel& m, Codes a, Codes b, Code c) {
  if (a.size() != b.size())
    throw Error("dot: a has " + std::to_string(a.size()) + " elements and b has " + std::to_string(b.size()));
  if (m.is_block_scaled()) {
    const std::size_t blocks = (a.size() + static_cast<std::size_t>(m.scale_block) - 1) / static_cast<std::size_t>(m.scale_block);
    const std::vector<Code> ones(blocks, detail::scale_one(m.scale));
    return dot_scaled(m, a, b, ones, ones, c);
  }
  const std::size_t length = step_length(m, a.size());
  if (a.empty()) return one_step(m, a, b, c);
  for (std::size_t k = 0; k < a.size(); k += length) {
    const std::size_t n = std::min(length, a.size() - k);
    c = one_step(m, a.subspan(k, n), b.subspan(k, n), c);
  }
  return c;
}

Code dot_scaled(const DotModel& m, Codes a, Codes b, Codes scale_a, Codes scale_b, Code c) {
  if (!m.is_block_scaled()) throw Error("dot: " + std::string(m.name.view()) + " takes no block scales");
  const auto block = static_cast<std::size_t>(m.scale_block);
  const std::size_t blocks = (a.size() + block - 1) / block;
  if (a.size() != b.size() || scale_a.size() != blocks || scale_b.size() != blocks)
    throw Error("dot: " + std::to_string(a.size()) + " products need " + std::to_string(blocks) + " scales of each operand");
  const auto length = static_cast<std::size_t>(m.products_per_step);
  for (std::size_t k = 0; k < std::max<std::size_t>(a.size(), 1); k += length) {
    const std::size_t n = std::min(length, a.size() - k), first = k / block, count = (n + block - 1) / block;
    c = block_step(m, a.subspan(k, n), b.subspan(k, n), scale_a.subspan(first, count), scale_b.subspan(first, count), c);
  }
  return c;
}

Code exact_dot(Codes a, const Format& fa, Codes b, const Format& fb, Code c, const Format& out, const Cast& cast) {
  if (a.size() != b.size())
    throw Error("dot: a has " + std::to_string(a.size()) + " elements and b has " + std::to_string(b.size()));
  detail::DotSpecials specials;
  const Unpacked addend = unpack(c, out);
  specials.addend(addend);
  WideSum sum;
  sum.add(addend.negative, addend.significand, addend.exponent);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Unpacked x = unpack(a[i], fa), y = unpack(b[i], fb);
    specials.product(x, y);
    sum.add(x.negative != y.negative, U128{x.significand} * y.significand, x.exponent + y.exponent);
  }
  if (specials.nan || (specials.plus && specials.minus)) return detail::invalid(out, cast);
  if (specials.any()) return detail::infinity_to(specials.minus, out, cast);
  return round_exact(sum.exact(), out, cast);
}

}  // namespace narrow

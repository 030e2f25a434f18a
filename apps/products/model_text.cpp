#include "products/model_text.hpp"

#include <algorithm>

#include "cli/explanation.hpp"
#include "cli/terminal.hpp"
#include "narrow/dot/block_step.hpp"
#include "narrow/round/round_to.hpp"
#include "narrow/text/binary_text.hpp"
#include "narrow/text/text.hpp"
#include "options/model_choice.hpp"
#include "products/step_picture.hpp"

namespace app {
namespace {

using narrow::Code;
using narrow::DotModel;
using narrow::DotRule;

std::string products(int n) { return std::to_string(n) + (n == 1 ? " product" : " products"); }

std::string line(const std::string& name, const std::string& text, bool colour) {
  std::string padded = name;
  padded.resize(std::max<std::size_t>(padded.size(), 13), ' ');
  return "  " + paint(padded, Colour::dim, colour) + wrapped(text, 15) + "\n";
}

std::string instruction_text(const DotModel& m) {
  if (m.generation == narrow::Generation::software) return "any K, one operation after the other";
  const int steps = m.rule == DotRule::fused_pair_then_add || m.rule == DotRule::integer ||
                            m.rule == DotRule::integer_saturating || m.rule == DotRule::fma_chain
                        ? 1
                        : m.instruction_k / m.products_per_step;
  std::string text = "K = " + std::to_string(m.instruction_k);
  if (m.rule == DotRule::fma_chain) return text + ", one product after the other";
  if (steps > 1) text += ": " + std::to_string(steps) + " chained steps of " + products(m.products_per_step);
  return text + "; a longer dot product chains instructions, ascending k";
}

// Codes of values near 1: every format that a model takes holds 1.5, 1 and 0.5 and some powers of two.
Code code_of(double x, const narrow::Format& f) { return narrow::encode(x, f); }

std::string same_bits(const DotModel& m) {
  std::string list;
  int more = 0;
  for (const DotModel& other : narrow::dot_models()) {
    if (other.name.view() == m.name.view() || !narrow::same_arithmetic(m, other)) continue;
    if (list.size() < 90) list += (list.empty() ? "" : ", ") + std::string(other.name.view());
    else ++more;
  }
  return list + (more > 0 ? " and " + std::to_string(more) + " more" : "");
}

}  // namespace

std::string result_text(const DotModel& m) {
  if (m.rule == DotRule::integer) return "mod 2^32";
  if (m.rule == DotRule::integer_saturating) return "clamped";
  const bool cut = m.rounding == narrow::Rounding::toward_zero;
  std::string text = (cut ? "RZ " : "RNE ") + format_name(m.accumulator);
  if (m.result.mantissa_bits != m.accumulator.format.mantissa_bits)
    text += ", " + std::to_string(m.result.mantissa_bits) + " bits";
  return text;
}

std::string rule_sentence(const DotModel& m) {
  const std::string acc = format_name(m.accumulator), F = std::to_string(m.fraction_bits);
  const std::string fused =
      products(m.products_per_step) + " and c fused, " + F + " fraction bits below the largest exponent, ";
  const bool fewer = m.result.mantissa_bits != m.accumulator.format.mantissa_bits;
  const std::string rounded = std::string("rounded ") + std::string(rounding_text(m.rounding)) + " to " + acc +
                              (fewer ? " with " + std::to_string(m.result.mantissa_bits) + " fraction bits" : "");
  switch (m.rule) {
    case DotRule::fused: return fused + rounded;
    case DotRule::fused_pair_then_add:
      return "two fused steps of " + std::to_string(m.products_per_step) + " products (k mod 4 = 0, 1, then 2, 3), " +
             F + " fraction bits; then c is added in " + acc;
    case DotRule::block_fused: return fused + "the scales in the exponents, " + rounded;
    case DotRule::block_groups:
      return "groups of 16 products summed exactly, times their scales; groups and c fused, " + F + " fraction bits, " +
             rounded;
    case DotRule::integer: return "the exact integer sum, modulo 2^32";
    case DotRule::integer_saturating: return "the exact integer sum, clamped to 32 bits after each instruction";
    case DotRule::exact: return "the exact sum of " + products(m.products_per_step) + " and c, " + rounded;
    case DotRule::flushed_pairs:
      return products(m.products_per_step) + " and their pairwise sum, each rounded to " + acc +
             ", subnormals flushed; then c";
    case DotRule::two_stage:
      return products(m.products_per_step) + " fused without c, " + F +
             " fraction bits; then aligned with c, floored, " + rounded;
    case DotRule::two_stage_halves:
      return "even and odd k of " + products(m.products_per_step) + " fused apart, " + F +
             " fraction bits; joined, then c, " + rounded;
    case DotRule::fma_chain: return "acc = fma(a, b, acc), one rounding to " + acc + " for each product";
    case DotRule::multiply_add: return "acc = acc + a * b, product and sum rounded to " + acc;
    case DotRule::pairwise: return "products rounded to " + acc + ", added as a balanced tree, c last";
    case DotRule::kahan: return "acc + a * b with Kahan's compensation, every operation rounded to " + acc;
  }
  return {};
}

// c = 1.25 * 2^E is the largest term, so that the quantum is 2^(E - F). The product 1.5 * 1.5 * 2^s = 2.25 * 2^s has
// its last bit at 2^(s - 2): with s = E - F + 1 that is half a quantum, and is cut. Where the operands are too coarse
// for such a small product, or the rule is another one, E is the last place that the accumulator resolves beside 1.
narrow::DotOperands example_operands(const DotModel& m) {
  narrow::DotOperands in;
  const narrow::Format &fa = m.a.format, &fb = m.b.format, &fc = m.accumulator.format;
  if (m.is_integer()) {
    in.a = {code_of(100, fa), code_of(120, fa), code_of(3, fa)};
    in.b = {code_of(100, fb), code_of(111, fb), code_of(7, fb)};
    in.c = code_of(2147470000.0, fc);
    return in;
  }
  const bool aligned = m.fraction_bits > 0;
  const int top = aligned ? std::min(m.fraction_bits - 1, fc.max_exponent() - 1)
                          : std::min(fc.mantissa_bits, fc.max_exponent() - 1);
  const int small = aligned ? top - m.fraction_bits + 1 : 0;
  const auto at_least = [](int e, const narrow::Format& f) { return std::max(e, f.min_exponent()); };
  const int ea = at_least(small / 2, fa), eb = at_least(small - ea, fb);
  in.a = {code_of(1.5 * narrow::compose(false, 1, ea), fa), code_of(0.5, fa), code_of(-1, fa)};
  in.b = {code_of(1.5 * narrow::compose(false, 1, eb), fb), code_of(1, fb), code_of(1, fb)};
  in.c = code_of(1.25 * narrow::compose(false, 1, top), fc);
  if (m.is_block_scaled()) {
    const Code one = narrow::detail::scale_one(m.scale);
    in.scale_a = {one + (Code{1} << m.scale.mantissa_bits)};  // 2
    in.scale_b = {one};
  }
  return in;
}

std::string model_explained(const DotModel& m, bool colour) {
  std::string text = paint(std::string(m.name.view()), Colour::bold, colour) + "\n\n";
  text += line("operands",
               "a " + format_name(m.a) + ", b " + format_name(m.b) + "; c and d " + format_name(m.accumulator), colour);
  text += line("instruction", instruction_text(m), colour);
  text += line("arithmetic", rule_sentence(m), colour);
  if (m.is_block_scaled())
    text += line("scales",
                 "one for each " + std::to_string(m.scale_block) + " of K, " +
                     (m.scale.mantissa_bits == 0 ? "e8m0: powers of two" : "e4m3 without sign"),
                 colour);
  const bool fused = m.fraction_bits > 0 && m.rule != DotRule::two_stage && m.rule != DotRule::two_stage_halves;
  if (fused) {
    text += line("floor", "the largest exponent counts as at least " + std::to_string(m.exponent_floor), colour);
    text += line("lost bits", "cut from the magnitude of each term before the sum: no rounding, no sticky bit", colour);
    text += line("zeros", "zero products and a zero c do not count for the largest exponent; a zero sum is +0", colour);
    text += line("NaN", "always " + narrow::to_hex_code(m.accumulator.format.nan_code(), m.accumulator.format), colour);
  }
  text += line("evidence", narrow::evidence_text(m), colour);
  text += line("source", std::string(m.source), colour);
  const std::string same = same_bits(m);
  if (!same.empty()) text += line("same bits", same, colour);

  const narrow::DotOperands in = example_operands(m);
  const narrow::DotTrace trace = narrow::trace_dot(m, in);
  text += "\n" + paint("An example", Colour::bold, colour) + "\n";
  for (const narrow::DotStage& stage : trace.stages) text += "\n" + stage_text(m, in, stage, colour);
  const narrow::Format f = m.accumulator.format;
  text += "\n  " + paint("d         " + code_and_value(trace.result, f), Colour::bold, colour) + "\n";
  return text + "  exact     " + narrow::binary_text(trace.exact, 24) + "\n";
}

}  // namespace app

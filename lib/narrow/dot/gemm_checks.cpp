#include "narrow/dot/gemm_checks.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "narrow/array/parts.hpp"
#include "narrow/base/error.hpp"

namespace narrow::detail {

namespace {

std::string shape_text(const CodeMatrix& m) { return std::to_string(m.rows) + "x" + std::to_string(m.cols); }

void check_scales(const char* name, const OperandScales& s, std::size_t outer, std::size_t k) {
  if (s.values.empty()) {
    if (s.inner != 0 || s.outer != 0) throw Error(std::string("gemm: the scales of ") + name + " are missing");
    return;
  }
  const std::size_t lines = s.outer == 0 ? 1 : (outer + s.outer - 1) / s.outer;
  const std::size_t across = s.inner == 0 ? 1 : (k + s.inner - 1) / s.inner;
  if (s.values.size() != lines * across)
    throw Error(std::string("gemm: ") + name + " needs " + std::to_string(lines * across) + " scales, there are " +
                std::to_string(s.values.size()));
}

bool fits_float(const Format& f) {
  return f.mantissa_bits <= 23 && f.max_exponent() <= 127 && f.min_quantum_exponent() >= -149;
}

}  // namespace

void check_codes(const char* name, const CodeMatrix& m, const Format& f, bool is_word, bool may_repeat) {
  const std::size_t inner = m.layout == Layout::row_major ? m.cols : m.rows;
  if (m.pitch < inner && !(may_repeat && m.pitch == 0 && m.layout == Layout::row_major))
    throw Error(std::string("gemm: the stride of ") + name + " is shorter than its rows");
  if (m.data == nullptr && m.rows * m.cols != 0) throw Error(std::string("gemm: ") + name + " has no data");
  const int width = is_word ? 32 : f.width();
  if (8 * m.code_bytes < width)
    throw Error(std::string("gemm: ") + name + " has codes of " + std::to_string(8 * m.code_bytes) +
                " bits, its format has " + std::to_string(width));
}

void check_scales(const GemmOptions& options, std::size_t rows, std::size_t cols, std::size_t k) {
  check_scales("A", options.scale_a, rows, k);
  check_scales("B", options.scale_b, cols, k);
}

void check_blocks(const DotModel& m, const GemmOptions& options, std::size_t rows, std::size_t cols, std::size_t k) {
  if (options.block_a.empty() && options.block_b.empty()) return;
  if (!m.is_block_scaled()) throw Error("gemm: " + std::string(m.name.view()) + " takes no block scales");
  const auto length = static_cast<std::size_t>(m.scale_block);
  const std::size_t blocks = (k + length - 1) / length;
  if ((!options.block_a.empty() && options.block_a.size() != rows * blocks) ||
      (!options.block_b.empty() && options.block_b.size() != cols * blocks))
    throw Error("gemm: each row of A and column of B needs " + std::to_string(blocks) + " block scales");
}

std::string plan_problem(const DotModel& m, const Plan& plan, const GemmOptions& options) {
  if (options.function.of != nullptr && m.accumulator.format == "fp64"_fmt)
    return "of " + std::string(m.name.view()) + " has sums in FP64, and an epilogue computes in FP32";
  if (plan.order != SumOrder::chain && plan.length <= 0) return "needs a length of at least 1";
  for (const OperandScales* s : {&options.scale_a, &options.scale_b}) {
    if (s->inner == 0) continue;
    const bool cut = plan.order == SumOrder::promote || plan.order == SumOrder::split;
    if (!cut || s->inner % static_cast<std::size_t>(plan.length) != 0)
      return "does not cut K where the scales change; promote:" + std::to_string(s->inner) + " does";
    if (m.is_integer()) return "has scales over K, which need a floating accumulator";
  }
  const bool scaled = !options.scale_a.values.empty() || !options.scale_b.values.empty();
  if (plan.c == PlaceOfC::first && (plan.join != Join::in_order || options.alpha != 1 || options.beta != 1 || scaled))
    return "adds C to the first part, which needs parts joined in order, alpha and beta 1 and no scales";
  if (plan.partials == Partials::serial && plan.join != Join::in_order && plan.join != Join::reversed)
    return "keeps one sum in D, to which parts are added in order or reversed";
  if (plan.c == PlaceOfC::first && plan.order != SumOrder::split)
    return "adds C to the first part, which split alone has";
  if (plan.order == SumOrder::blocks && (plan.partials != Partials::wide || plan.join != Join::in_order))
    return "has blocks, whose sums are joined in one way, in FP32";
  if (m.is_integer() && (plan.c == PlaceOfC::after || plan.c == PlaceOfC::first || plan.partials != Partials::wide))
    return "rounds between sums, which integers do not";
  // Every part is filled up to whole tiles, so short parts of long tiles would take many times the memory of K. Recorded kernels
  // have tiles of up to 128, and parts of 4 in tiles of 32.
  constexpr int longest_tile = 256, tile_of_part = 16;
  if (plan.residue > longest_tile) return "has a residue of a tile of more than " + std::to_string(longest_tile);
  if (plan.order == SumOrder::split && plan.residue > tile_of_part * std::min(plan.length, longest_tile))
    return "fills parts of " + std::to_string(plan.length) + " up to tiles of " + std::to_string(plan.residue) + ", more than " +
           std::to_string(tile_of_part) + " times as long";
  if (plan.operands != Operands::cut && m.a.format != "tf32"_fmt) return "rounds operands, which only tf32 models do";
  const bool has_runs = plan.order == SumOrder::slice || plan.order == SumOrder::even || plan.order == SumOrder::blocks;
  const int unit = has_runs                           ? (plan.run != 0 ? plan.run : m.instruction_k)
                   : plan.order == SumOrder::stream_k ? plan.tile_k
                                                      : plan.length;
  if (m.is_block_scaled() && plan.order != SumOrder::chain && unit % m.scale_block != 0)
    return "cuts blocks of " + std::to_string(m.scale_block) + " that share a scale";
  return "";
}

EngineKind engine_of(const DotModel& m) {
  const Format &a = m.a.format, &b = m.b.format, &sum = m.accumulator.format;
  switch (m.rule) {
    case DotRule::fused:
    case DotRule::fused_pair_then_add:
      return a.exponent_bits <= 5 && b.exponent_bits <= 5 ? EngineKind::fused_bytes : EngineKind::fused_words;
    case DotRule::integer: return EngineKind::integer;
    case DotRule::fma_chain:
    case DotRule::multiply_add:
    case DotRule::pairwise:
    case DotRule::kahan: break;
    default: return EngineKind::none;
  }
  if (sum == "fp64"_fmt) return EngineKind::native_double;
  if (!fits_float(a) || !fits_float(b) || !fits_float(sum)) return EngineKind::none;
  if (sum == "fp32"_fmt) return EngineKind::native_float;
  // Rounding a float's sum again is innocuous up to 11 bits; products of two factors must fit 24.
  const bool rounds_twice = sum.mantissa_bits <= 10 && sum.has_zero && a.significand_bits() + b.significand_bits() <= 24;
  return m.rule == DotRule::multiply_add && rounds_twice ? EngineKind::rounded : EngineKind::none;
}

namespace {

// C may be D, element for element; otherwise what is written must not be what is read.
void check_apart(const Product& p, const CodeMatrix& d) {
  const auto bytes = [](const CodeMatrix& m) {
    const bool by_rows = m.layout == Layout::row_major;
    const std::size_t lines = by_rows ? m.rows : m.cols, inner = by_rows ? m.cols : m.rows;
    const std::size_t count = lines == 0 || inner == 0 ? 0 : (lines - 1) * m.pitch + inner;
    return std::span(static_cast<const std::byte*>(m.data), count * static_cast<std::size_t>(m.code_bytes));
  };
  const bool same =
      p.c.data == d.data && p.c.code_bytes == d.code_bytes && p.c.pitch == d.pitch && p.c.layout == d.layout;
  if (!lie_apart(bytes(p.a), bytes(d)) || !lie_apart(bytes(p.b), bytes(d)) ||
      (p.c.data != nullptr && !same && !lie_apart(bytes(p.c), bytes(d))))
    throw Error("gemm: D overlaps A, B or C; only C may be D itself");
}

}  // namespace

void check_product(const Product& p, const CodeMatrix& d) {
  if (p.a.cols != p.b.rows)
    throw Error("gemm: A is " + shape_text(p.a) + " and B is " + shape_text(p.b) + ": A must have as many columns as B has rows");
  if (d.rows != p.rows || d.cols != p.cols)
    throw Error("gemm: A B is " + std::to_string(p.rows) + "x" + std::to_string(p.cols) + " and D is " + shape_text(d));
  if (p.c.data != nullptr && (p.c.rows != p.rows || p.c.cols != p.cols))
    throw Error("gemm: A B is " + std::to_string(p.rows) + "x" + std::to_string(p.cols) + " and C is " + shape_text(p.c));
  check_codes("A", p.a, p.model.a.format, p.model.a.format == "tf32"_fmt);
  check_codes("B", p.b, p.model.b.format, p.model.b.format == "tf32"_fmt);
  check_codes("D", d, p.output, false);
  if (p.c.data != nullptr) check_codes("C", p.c, p.c_format, false, true);
  if (!std::isfinite(p.options.alpha) || !std::isfinite(p.options.beta)) throw Error("gemm: alpha and beta must be finite");
  check_apart(p, d);
  check_scales(p.options, p.rows, p.cols, p.k);
  if (const std::string problem = plan_problem(p.model, p.plan, p.options); !problem.empty())
    throw Error("gemm: plan " + plan_text(p.plan) + " " + problem);
  check_blocks(p.model, p.options, p.rows, p.cols, p.k);
}

}  // namespace narrow::detail

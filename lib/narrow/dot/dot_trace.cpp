#include "narrow/dot/dot_trace.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "narrow/dot/block_step.hpp"
#include "narrow/dot/cdna_step.hpp"
#include "narrow/dot/software_sum.hpp"
#include "narrow/dot/step.hpp"
#include "narrow/text/binary_text.hpp"
#include "narrow/text/exact_number.hpp"
#include "narrow/text/exact_sum.hpp"

namespace narrow {
namespace {

using Codes = std::span<const Code>;

// Looks over the shoulder of a fused step.
struct StepWatch : NoWatch {
  struct Seen {
    std::size_t index;
    DotTerm term;
    std::uint64_t kept;
  };
  bool came = false;
  int exponent = 0;
  std::array<Seen, 65> terms{};
  std::size_t count = 0;
  std::int64_t quanta = 0;

  void largest(int e) noexcept { came = true, exponent = e; }
  void term(std::size_t index, const DotTerm& t, std::uint64_t kept) noexcept { terms[count++] = {index, t, kept}; }
  void sum(std::int64_t q, Code) noexcept { quanta = q; }
};

std::string range_text(std::size_t first, std::size_t count) {
  if (count <= 1) return "k " + std::to_string(first);
  return "k " + std::to_string(first) + ".." + std::to_string(first + count - 1);
}

ExactNumber not_a_number() {
  ExactNumber x;
  x.kind = NumberKind::nan;
  return x;
}

class Tracer {
 public:
  Tracer(const DotModel& model, const DotOperands& operands)
      : m_(model),
        in_(operands),
        fa_(model.a.format),
        fb_(model.b.format),
        fc_(model.accumulator.format),
        acc_(operands.c) {}

  DotTrace trace() {
    // Software takes all products at once; the title then is a title of the whole.
    const std::size_t n = in_.a.size(), length = step_length(m_, n);
    const std::size_t steps = n == 0 ? 1 : (n + length - 1) / length;
    for (std::size_t step = 0; step < steps; ++step) {
      first_ = step * length;
      count_ = std::min(length, n - std::min(n, first_));
      title_ = steps == 1 ? "one step" : "step " + std::to_string(step + 1) + " of " + std::to_string(steps);
      if (count_ > 0) title_ += ", " + range_text(first_, count_);
      one_step();
    }
    out_.result = acc_;
    check();
    sum_exactly();
    return std::move(out_);
  }

 private:
  void one_step() {
    switch (m_.rule) {
      case DotRule::fused: return fused(all_ks(), title_, "c", acc_);
      case DotRule::block_fused:
      case DotRule::block_groups: return block();
      case DotRule::fused_pair_then_add: return fused_pair_then_add();
      case DotRule::integer:
      case DotRule::integer_saturating: return integers();
      case DotRule::exact: return exact();
      case DotRule::flushed_pairs: return flushed_pairs();
      case DotRule::two_stage:
      case DotRule::two_stage_halves: return two_stage();
      case DotRule::fma_chain: return fma_chain();
      case DotRule::multiply_add:
      case DotRule::kahan: return multiply_add();
      case DotRule::pairwise: return pairwise();
    }
  }

  Codes a() const { return Codes(in_.a).subspan(std::min(first_, in_.a.size()), count_); }
  Codes b() const { return Codes(in_.b).subspan(std::min(first_, in_.b.size()), count_); }

  std::vector<std::size_t> all_ks() const {
    std::vector<std::size_t> ks;
    for (std::size_t i = 0; i < count_; ++i) ks.push_back(first_ + i);
    return ks;
  }

  void take(FusedStage& stage, const StepWatch& watch, std::size_t group) {
    stage.special = !watch.came;
    stage.largest = watch.exponent;
    stage.lowest = watch.exponent - m_.fraction_bits;
    stage.sum = watch.quanta;
    const std::size_t products = (stage.ks.size() + group - 1) / group;
    for (std::size_t i = 0; i < watch.count; ++i) {
      const StepWatch::Seen& seen = watch.terms[i];
      const std::size_t at = seen.index * group;
      const std::string label =
          seen.index >= products ? stage.addend : range_text(stage.ks[at], std::min(group, stage.ks.size() - at));
      stage.terms.push_back({label, seen.term, seen.kept});
    }
  }

  void fused(std::vector<std::size_t> ks, std::string title, std::string addend, Code c) {
    std::vector<Code> x, y;
    for (const std::size_t k : ks) x.push_back(in_.a[k]), y.push_back(in_.b[k]);
    FusedStage stage{std::move(title), std::move(ks), std::move(addend), c, false, 0, 0, {}, 0, {}};
    StepWatch watch;
    acc_ = fused_step(m_, x, y, c, watch);
    take(stage, watch, 1);
    stage.result = acc_;
    out_.stages.emplace_back(std::move(stage));
  }

  void block() {
    FusedStage stage{title_, all_ks(), "c", acc_, false, 0, 0, {}, 0, {}};
    const auto width = static_cast<std::size_t>(m_.scale_block);
    const std::size_t at = first_ / width, blocks = (count_ + width - 1) / width;
    StepWatch watch;
    acc_ = block_step(m_, a(), b(), Codes(in_.scale_a).subspan(at, blocks), Codes(in_.scale_b).subspan(at, blocks),
                      acc_, watch);
    take(stage, watch, m_.rule == DotRule::block_groups ? 16 : 1);
    stage.result = acc_;
    out_.stages.emplace_back(std::move(stage));
  }

  void fused_pair_then_add() {
    const Code c = acc_;
    for (const std::size_t half : {std::size_t{0}, std::size_t{2}}) {
      std::vector<std::size_t> ks;
      for (std::size_t i = 0; i < count_; ++i)
        if ((i & 2) == half) ks.push_back(first_ + i);
      fused(std::move(ks), title_ + (half == 0 ? ": first half, k mod 4 = 0 or 1" : ": second half, k mod 4 = 2 or 3"),
            half == 0 ? "" : "first", half == 0 ? 0 : acc_);
    }
    OperationStage stage{title_ + ": an IEEE addition of c", {}};
    acc_ = sum_of(stage, "sum", acc_, "c", c);
    out_.stages.emplace_back(std::move(stage));
  }

  std::string text(Code code) const { return binary_text(code, fc_); }
  std::string product_text(std::size_t i) const { return binary_text(a()[i], fa_) + " * " + binary_text(b()[i], fb_); }
  std::string label(std::size_t i) const { return "k " + std::to_string(first_ + i); }

  bool product_is_finite(std::size_t i) const {
    return unpack(a()[i], fa_).is_finite() && unpack(b()[i], fb_).is_finite();
  }
  bool is_finite(Code code) const { return unpack(code, fc_).is_finite(); }

  ExactNumber exact_product(std::size_t i) const {
    if (!product_is_finite(i)) return not_a_number();
    ExactSum sum;
    sum.add_product(a()[i], fa_, b()[i], fb_);
    return sum.value();
  }
  ExactNumber exact_fma(std::size_t i, Code c) const {
    if (!product_is_finite(i) || !is_finite(c)) return not_a_number();
    ExactSum sum;
    sum.add_product(a()[i], fa_, b()[i], fb_);
    sum.add(c, fc_);
    return sum.value();
  }
  ExactNumber exact_pair(Code x, Code y, bool minus = false) const {
    if (!is_finite(x) || !is_finite(y)) return not_a_number();
    ExactSum sum;
    sum.add(x, fc_);
    sum.add(exact_number(y, fc_), minus);
    return sum.value();
  }

  // x + y, or x - y, rounded to nearest even in the accumulator's format.
  Code sum_of(OperationStage& stage, const std::string& x_name, Code x, const std::string& y_name, Code y,
              const std::string& name = "", const Cast& cast = {}, bool minus = false) {
    const Code result = minus ? sub(x, y, fc_, cast) : add(x, y, fc_, cast);
    const std::string sign = minus ? " - " : " + ";
    stage.operations.push_back(
        {name.empty() ? x_name + sign + y_name : name, text(x) + sign + text(y), exact_pair(x, y, minus), result});
    return result;
  }

  void integers() {
    OperationStage stage{title_, {}};
    ExactSum sum;
    sum.add(acc_, fc_);
    for (std::size_t i = 0; i < count_; ++i) {
      stage.operations.push_back({label(i), product_text(i), exact_product(i), {}});
      sum.add_product(a()[i], fa_, b()[i], fb_);
    }
    const std::string c = text(acc_);
    acc_ = dot(m_, a(), b(), acc_);
    stage.operations.push_back({"sum", "all products + " + c, sum.value(), acc_});
    out_.stages.emplace_back(std::move(stage));
  }

  void exact() {
    OperationStage stage{title_, {}};
    ExactSum sum;
    bool finite = is_finite(acc_);
    if (finite) sum.add(acc_, fc_);
    for (std::size_t i = 0; i < count_; ++i) {
      stage.operations.push_back({label(i), product_text(i), exact_product(i), {}});
      finite = finite && product_is_finite(i);
      if (finite) sum.add_product(a()[i], fa_, b()[i], fb_);
    }
    const std::string c = text(acc_);
    acc_ = exact_step(m_, a(), b(), acc_);
    stage.operations.push_back({"sum", "all products + " + c, finite ? sum.value() : not_a_number(), acc_});
    out_.stages.emplace_back(std::move(stage));
  }

  void flushed_pairs() {
    OperationStage stage{title_ + ", subnormals flushed", {}};
    constexpr Cast flush{.subnormals = Subnormals::flush_results};
    const auto widened = [&](Code code, const Format& from) {
      return classify(code, from) == ValueClass::subnormal ? Code{0} : convert(code, from, fc_);
    };
    std::array<Code, 4> p{};
    for (std::size_t i = 0; i < count_; ++i) {
      p[i] = mul(widened(a()[i], fa_), widened(b()[i], fb_), fc_, flush);
      stage.operations.push_back({"p" + std::to_string(i), product_text(i), exact_product(i), p[i]});
    }
    Code sum = p[0];
    if (m_.products_per_step > 1) sum = sum_of(stage, "p0", p[0], "p1", p[1], "s = p0 + p1", flush);
    if (m_.products_per_step > 2) {
      const Code high = sum_of(stage, "p2", p[2], "p3", p[3], "t = p2 + p3", flush);
      sum = sum_of(stage, "s", sum, "t", high, "s + t", flush);
    }
    acc_ = sum_of(stage, "c", widened(acc_, fc_), "sum", sum, "c + sum", flush);
    out_.stages.emplace_back(std::move(stage));
  }

  // Products of one stride aligned among themselves.
  detail::AlignedSum aligned(std::size_t first, std::size_t stride, const std::string& what) {
    const detail::AlignedSum sum = detail::aligned_sum(m_, a(), b(), first, stride);
    FusedStage stage{title_ + what, {}, "", 0, false, 0, 0, {}, 0, {}};
    stage.largest = sum.largest, stage.lowest = sum.largest - m_.fraction_bits, stage.sum = sum.quanta;
    for (std::size_t i = first; i < count_; i += stride) {
      stage.ks.push_back(first_ + i);
      const DotTerm t = detail::product_of(unpack(a()[i], fa_), fa_, unpack(b()[i], fb_), fb_);
      if (t.significand != 0) stage.terms.push_back({label(i), t, detail::cut_term(t, stage.lowest)});
    }
    out_.stages.emplace_back(std::move(stage));
    return sum;
  }

  void two_stage() {
    const Code c = acc_;
    acc_ = two_stage_step(m_, a(), b(), c);
    if (!is_finite(acc_)) {
      OperationStage stage{title_, {{"", "NaN, Inf or a product of 2^128 or more decides", not_a_number(), acc_}}};
      out_.stages.emplace_back(std::move(stage));
      return;
    }
    const bool halves = m_.rule == DotRule::two_stage_halves;
    detail::AlignedSum s = aligned(0, halves ? 2 : 1, halves ? ": products with even k" : ": the products");
    OperationStage stage{title_ + ": the sum and c, cut toward minus infinity", {}};
    const int f = m_.fraction_bits;
    if (halves) {
      const detail::AlignedSum odd = aligned(1, 2, ": products with odd k");
      const int largest = std::max(s.largest, odd.largest);
      s = {detail::floor_shift(s.quanta, largest - s.largest) + detail::floor_shift(odd.quanta, largest - odd.largest),
           largest};
      stage.operations.push_back({"even + odd",
                                  "floors to multiples of " + binade_text(largest - f),
                                  exact_quanta(s.quanta, largest - f),
                                  {}});
    }
    DotTerm t = detail::term_of(unpack(c, fc_), fc_);
    if (t.significand == 0) t.exponent = fc_.min_exponent();
    if (halves && t.exponent < s.largest - 25) t.significand = 0;
    const int largest = std::max(s.largest, t.exponent);
    const std::int64_t sum = detail::floor_shift(s.quanta, largest - 31 - (s.largest - f));
    const auto signed_c = static_cast<std::int64_t>(t.significand) * (t.negative ? -1 : 1);
    const std::int64_t cut = detail::floor_shift(signed_c, largest - f - (t.exponent - t.fraction));
    stage.operations.push_back(
        {"sum", "floor to a multiple of " + binade_text(largest - 31), exact_quanta(sum, largest - 31), {}});
    stage.operations.push_back(
        {"c", text(c) + ", floor to a multiple of " + binade_text(largest - f), exact_quanta(cut, largest - f), {}});
    ExactSum total;
    total.add(exact_quanta(sum, largest - 31));
    total.add(exact_quanta(cut, largest - f));
    stage.operations.push_back({"d", "sum + c", total.value(), acc_});
    out_.stages.emplace_back(std::move(stage));
  }

  void fma_chain() {
    OperationStage stage{"one fused multiply-add after the other", {}};
    for (std::size_t i = 0; i < count_; ++i) {
      const Code before = acc_;
      acc_ = detail::fma_in(a()[i], fa_, b()[i], fb_, acc_, fc_);
      stage.operations.push_back({label(i), product_text(i) + " + " + text(before), exact_fma(i, before), acc_});
    }
    out_.stages.emplace_back(std::move(stage));
  }

  Code product(OperationStage& stage, std::size_t i) {
    const Code p = detail::product_in(a()[i], fa_, b()[i], fb_, fc_);
    stage.operations.push_back({label(i), product_text(i), exact_product(i), p});
    return p;
  }

  void multiply_add() {
    const bool kahan = m_.rule == DotRule::kahan;
    OperationStage stage{kahan ? "product p, then y = p - lost; t = acc + y; lost = (t - acc) - y; acc = t"
                               : "a product, then a sum, both rounded",
                         {}};
    Code lost = fc_.zero_code();
    for (std::size_t i = 0; i < count_; ++i) {
      const Code p = product(stage, i);
      if (!kahan) {
        acc_ = sum_of(stage, "acc", acc_, "p", p);
        continue;
      }
      const Code y = sum_of(stage, "p", p, "lost", lost, "  y", {}, true),
                 t = sum_of(stage, "acc", acc_, "y", y, "  t");
      const Code grown = sum_of(stage, "t", t, "acc", acc_, "  t - acc", {}, true);
      lost = sum_of(stage, "t - acc", grown, "y", y, "  lost", {}, true);
      acc_ = t;
    }
    out_.stages.emplace_back(std::move(stage));
  }

  // The tree of detail::pairwise_sum, each sum shown.
  Code tree(OperationStage& stage, std::span<const Code> terms, std::size_t first) {
    if (terms.size() <= 1) return terms.empty() ? fc_.zero_code() : terms[0];
    const std::size_t half = std::bit_ceil(terms.size()) / 2;
    const Code low = tree(stage, terms.first(half), first), high = tree(stage, terms.subspan(half), first + half);
    return sum_of(stage, "", low, "", high, range_text(first, terms.size()));
  }

  void pairwise() {
    OperationStage stage{"products, then sums as a balanced tree, c last", {}};
    std::vector<Code> products;
    for (std::size_t i = 0; i < count_; ++i) products.push_back(product(stage, i));
    if (count_ > 0) acc_ = sum_of(stage, "tree", tree(stage, products, 0), "c", acc_);
    out_.stages.emplace_back(std::move(stage));
  }

  // What is shown must be what is computed.
  void check() const {
    const Code expected = m_.is_block_scaled() ? dot_scaled(m_, in_.a, in_.b, in_.scale_a, in_.scale_b, in_.c)
                                               : dot(m_, in_.a, in_.b, in_.c);
    if (expected != out_.result) throw std::logic_error("dot: the steps shown do not give the result of dot");
  }

  void sum_exactly() {
    detail::DotSpecials specials;
    specials.addend(unpack(in_.c, fc_));
    ExactSum sum;
    for (std::size_t k = 0; k < in_.a.size(); ++k) {
      const Unpacked x = unpack(in_.a[k], fa_), y = unpack(in_.b[k], fb_);
      specials.product(x, y);
      U128 significand = U128{x.significand} * y.significand;
      int exponent = x.exponent + y.exponent;
      if (m_.is_block_scaled()) {
        const std::size_t block = k / static_cast<std::size_t>(m_.scale_block);
        for (const Code code : {in_.scale_a[block], in_.scale_b[block]}) {
          const Unpacked scale = detail::scale_of(code, m_.scale);
          specials.nan = specials.nan || scale.is_nan();
          significand *= scale.significand;
          exponent += scale.exponent;
        }
      }
      sum.add(x.negative != y.negative, significand, exponent);
    }
    if (specials.any()) {
      const bool nan = specials.nan || (specials.plus && specials.minus);
      out_.exact.kind = nan ? NumberKind::nan : NumberKind::inf;
      out_.exact.negative = !nan && specials.minus;
    } else {
      sum.add(in_.c, fc_);
      out_.exact = sum.value();
    }
    out_.exact_rounded = round_number(out_.exact, fc_);
  }

  const DotModel& m_;
  const DotOperands& in_;
  const Format fa_, fb_, fc_;
  Code acc_;
  std::size_t first_ = 0, count_ = 0;
  std::string title_;
  DotTrace out_;
};

}  // namespace

DotTrace trace_dot(const DotModel& model, const DotOperands& operands) { return Tracer(model, operands).trace(); }

}  // namespace narrow

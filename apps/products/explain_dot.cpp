#include "products/explain_dot.hpp"

#include "cli/explanation.hpp"
#include "cli/number_text.hpp"
#include "cli/terminal.hpp"
#include "narrow/text/binary_text.hpp"
#include "narrow/text/exact_number.hpp"
#include "narrow/text/exact_sum.hpp"
#include "options/model_choice.hpp"
#include "products/step_picture.hpp"

namespace app {
namespace {

using narrow::DotModel;
using narrow::ExactNumber;

constexpr std::size_t most_stages = 8;  // told one by one
constexpr std::size_t most_terms = 6;   // written out in one sentence

ExactNumber difference(const ExactNumber& a, const ExactNumber& b) {
  narrow::ExactSum sum;
  sum.add(a);
  sum.add(b, true);
  return sum.value();
}

ExactNumber value_of(const narrow::TracedTerm& t) {
  narrow::ExactSum sum;
  sum.add(t.term.negative, t.term.significand, t.term.exponent - t.term.fraction);
  return sum.value();
}
ExactNumber kept_of(const narrow::TracedTerm& t, int lowest) {
  narrow::ExactSum sum;
  sum.add(t.term.negative, t.kept, lowest);
  return sum.value();
}

std::string quanta_text(std::uint64_t count) { return std::to_string(count) + (count == 1 ? " quantum" : " quanta"); }

// What the sum of all errors is made of; known while every stage only aligns and adds.
struct Losses {
  narrow::ExactSum cut, rounded;  // result - exact, by cause
  bool known = true;
};

void note_losses(Losses& losses, const DotModel& m, const narrow::FusedStage& stage) {
  if (stage.special || (stage.result && !narrow::unpack(*stage.result, m.accumulator.format).is_finite())) {
    losses.known = false;
    return;
  }
  for (const narrow::TracedTerm& t : stage.terms) losses.cut.add(difference(kept_of(t, stage.lowest), value_of(t)));
  if (stage.result)
    losses.rounded.add(difference(narrow::exact_number(*stage.result, m.accumulator.format),
                                  narrow::exact_quanta(stage.sum, stage.lowest)));
}

void note_losses(Losses& losses, const DotModel& m, const narrow::OperationStage& stage) {
  for (const narrow::TracedOperation& op : stage.operations) {
    if (!op.result) continue;
    const ExactNumber result = narrow::exact_number(*op.result, m.accumulator.format);
    if (op.exact.kind != narrow::NumberKind::finite || result.kind != narrow::NumberKind::finite) losses.known = false;
    else losses.rounded.add(difference(result, op.exact));
  }
}

std::string align_sentence(const DotModel& m, const narrow::FusedStage& stage) {
  std::string holder = "the floor of this unit";
  for (const narrow::TracedTerm& t : stage.terms)
    if (t.term.exponent == stage.largest) {
      holder = t.label;
      break;
    }
  return std::to_string(stage.terms.size()) + (stage.terms.size() == 1 ? " term is" : " terms are") +
         " not zero. The largest exponent is " + std::to_string(stage.largest) + " (" + holder + "). The unit keeps " +
         std::to_string(m.fraction_bits) + " bits below it, so one quantum is 2^(" + std::to_string(stage.largest) +
         " - " + std::to_string(m.fraction_bits) + ") = " + narrow::binade_text(stage.lowest) +
         ", and every term becomes a whole number of quanta.";
}

std::string cut_sentence(const narrow::FusedStage& stage) {
  std::string text;
  std::size_t told = 0, losers = 0;
  for (const narrow::TracedTerm& t : stage.terms) {
    const ExactNumber value = value_of(t), kept = kept_of(t, stage.lowest);
    if (narrow::compare(value, kept) == 0) continue;
    ++losers;
    if (told == most_terms) continue;
    ++told;
    text += (text.empty() ? "" : "; ") + t.label + " = " + narrow::binary_text(value) + " keeps " +
            quanta_text(t.kept) + " and loses " + narrow::binary_text(difference(value, kept));
  }
  if (losers == 0) return "nothing is cut: every term is a whole number of quanta already.";
  if (losers > told) text += "; and " + std::to_string(losers - told) + " more";
  return text + ". Bits below the quantum are cut, not rounded.";
}

std::string add_sentence(const narrow::FusedStage& stage) {
  std::string text;
  if (stage.terms.size() <= most_terms) {
    for (const narrow::TracedTerm& t : stage.terms)
      text += (text.empty() ? (t.term.negative ? "-" : "") : t.term.negative ? " - " : " + ") + std::to_string(t.kept);
    text += " = ";
  }
  text += (stage.sum < 0 ? "-" : "") + quanta_text(magnitude_of(stage.sum)) + " = " +
          narrow::binary_text(narrow::exact_quanta(stage.sum, stage.lowest), 24) +
          ". Integers add exactly, in any order.";
  narrow::ExactSum lost;
  for (const narrow::TracedTerm& t : stage.terms) lost.add(difference(value_of(t), kept_of(t, stage.lowest)));
  const int top = stage.sum == 0 ? stage.lowest : stage.lowest + narrow::bit_length(magnitude_of(stage.sum)) - 1;
  if (!lost.value().is_zero() && top < stage.largest - 1)
    text += " The largest terms cancel, but the quantum was chosen before that: what was cut does not come back.";
  return text;
}

std::string round_sentence(const DotModel& m, const narrow::FusedStage& stage) {
  const narrow::Format& f = m.accumulator.format;
  const std::string rule = std::string(rounding_text(m.rounding)) + " to " + std::to_string(m.result.mantissa_bits) +
                           " fraction bits of " + format_name(m.accumulator) + ": ";
  const std::string result = narrow::binary_text(*stage.result, f);
  if (!narrow::unpack(*stage.result, f).is_finite())
    return rule + "the sum is beyond the largest value: " + result + ".";
  const ExactNumber lost =
      difference(narrow::exact_quanta(stage.sum, stage.lowest), narrow::exact_number(*stage.result, f));
  return rule + (lost.is_zero() ? "the sum fits as it is, " + result + "."
                                : result + ", and " + narrow::binary_text(lost) + " is lost.");
}

void explain(Explanation& e, const DotModel& m, const narrow::FusedStage& stage) {
  e.say("step", stage.title);
  if (stage.special) return e.say("special", "Inf or NaN decides; nothing is aligned or added.");
  if (stage.terms.empty()) return e.say("sum", "every term is zero, so the sum is +0.");
  e.say("align", align_sentence(m, stage));
  e.say("cut", cut_sentence(stage));
  e.say("add", add_sentence(stage));
  if (stage.result) e.say("round", round_sentence(m, stage));
}

void explain(Explanation& e, const DotModel& m, const narrow::OperationStage& stage) {
  e.say("step", stage.title);
  std::size_t told = 0, exact = 0, rounded = 0;
  for (const narrow::TracedOperation& op : stage.operations) {
    if (!op.result || op.exact.kind != narrow::NumberKind::finite) continue;
    const ExactNumber result = narrow::exact_number(*op.result, m.accumulator.format);
    if (result.kind == narrow::NumberKind::finite && narrow::compare(result, op.exact) == 0) {
      ++exact;
      continue;
    }
    ++rounded;
    if (told++ < most_terms)
      e.say("round", op.label + ": " + op.formula + " is " + narrow::binary_text(op.exact) + ", which " +
                         format_name(m.accumulator) + " rounds to " +
                         narrow::binary_text(*op.result, m.accumulator.format) + ".");
  }
  e.say("in all", std::to_string(exact + rounded) + " operations with a result: " + std::to_string(exact) + " exact, " +
                      std::to_string(rounded) + " rounded.");
}

// A product of two significands of p and q bits has at most p + q bits: the unit has room for all of them.
std::string product_sentence(const DotModel& m) {
  const int p = m.a.format.significand_bits(), q = m.b.format.significand_bits();
  return format_name(m.a) + " has " + std::to_string(p) + " significand bits and " + format_name(m.b) + " has " +
         std::to_string(q) + ": a product has at most " + std::to_string(p) + " + " + std::to_string(q) + " = " +
         std::to_string(p + q) + " bits.";
}

void conclude(Explanation& e, const DotModel& m, const narrow::DotTrace& trace, Losses& losses) {
  const narrow::Format& f = m.accumulator.format;
  const ExactNumber result = narrow::exact_number(trace.result, f);
  if (trace.exact.kind != narrow::NumberKind::finite || result.kind != narrow::NumberKind::finite)
    return e.say("answer", narrow::binary_text(trace.result, f) + "; the exact sum is " +
                               narrow::binary_text(trace.exact, 24) + ".");
  const ExactNumber error = difference(result, trace.exact);
  if (error.is_zero()) return e.say("answer", narrow::binary_text(trace.result, f) + ", which is the exact sum.");
  e.say("answer", "the unit gives " + narrow::binary_text(trace.result, f) + "; the exact sum is " +
                      narrow::binary_text(trace.exact, 24) + ", which rounded once would be " +
                      narrow::binary_text(trace.exact_rounded, f) + ". The error is " +
                      digits_text(narrow::ulp_error(trace.exact, trace.result, f), 4) + " ulp.");
  // Only where the parts add up to the whole error, to the last bit.
  narrow::ExactSum parts;
  parts.add(losses.cut.value());
  parts.add(losses.rounded.value());
  if (losses.known && narrow::compare(parts.value(), error) == 0)
    e.say("causes", narrow::binary_text(losses.cut.value()) + " by cutting terms and " +
                        narrow::binary_text(losses.rounded.value()) + " by rounding results: together " +
                        narrow::binary_text(error) + ", the whole error.");
}

}  // namespace

std::string explain_dot(const DotModel& model, const narrow::DotTrace& trace, bool colour) {
  Explanation e;
  e.say("products", product_sentence(model));
  Losses losses;
  for (std::size_t i = 0; i < trace.stages.size(); ++i)
    std::visit(
        [&](const auto& stage) {
          note_losses(losses, model, stage);
          if (i < most_stages) explain(e, model, stage);
        },
        trace.stages[i]);
  if (trace.stages.size() > most_stages)
    e.say("...", std::to_string(trace.stages.size() - most_stages) + " more stages of the same kind.");
  conclude(e, model, trace, losses);
  return paint("  In words", Colour::bold, colour) + "\n\n" + e.text(colour);
}

}  // namespace app

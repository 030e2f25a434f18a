#include "products/step_picture.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "cli/number_text.hpp"
#include "cli/terminal.hpp"
#include "narrow/dot/block_step.hpp"
#include "narrow/dot/step.hpp"
#include "narrow/text/binary_text.hpp"
#include "narrow/text/exact_number.hpp"
#include "narrow/text/exact_sum.hpp"
#include "narrow/text/text.hpp"
#include "options/model_choice.hpp"

namespace app {
namespace {

using narrow::Code;
using narrow::DotModel;
using narrow::DotTerm;
using narrow::ExactNumber;

constexpr int most_cut_columns = 26;  // of what is cut; the value stands beside it in any case
constexpr std::size_t margin = 4;

ExactNumber exact_term(bool negative, std::uint64_t significand, int exponent) {
  narrow::ExactSum sum;
  sum.add(negative, significand, exponent);
  return sum.value();
}

// What a term loses: its bits below the quantum.
ExactNumber cut_part(const narrow::TracedTerm& t, int lowest) {
  const int bottom = t.term.exponent - t.term.fraction, lost = lowest - bottom;
  if (lost <= 0) return {};
  return exact_term(t.term.negative, lost >= 64 ? t.term.significand : t.term.significand & narrow::low_mask(lost),
                    bottom);
}

// The operands of a stage; zero products stay out of the sum and of the race for the largest exponent.
std::string operand_table(const DotModel& m, const narrow::DotOperands& in, const narrow::FusedStage& stage,
                          bool colour) {
  const bool scaled = m.is_block_scaled(), groups = m.rule == narrow::DotRule::block_groups;
  TextTable table{{"", "a", "code", "b", "code", "product", "exponent"},
              {Align::left, Align::right, Align::left, Align::right, Align::left, Align::right, Align::left},
              {}};
  for (const std::size_t k : stage.ks) {
    const narrow::Unpacked x = narrow::unpack(in.a[k], m.a.format), y = narrow::unpack(in.b[k], m.b.format);
    const DotTerm t = narrow::detail::product_of(x, m.a.format, y, m.b.format);
    std::string product = "-", exponent = x.is_finite() && y.is_finite() ? "zero: does not count" : "special";
    if (x.is_finite() && y.is_finite())
      product = narrow::binary_text(exact_term(t.negative, t.significand, t.exponent - t.fraction));
    if (t.significand != 0 && groups) {
      exponent = "counts with its group";
    } else if (t.significand != 0) {
      const int ea = x.exponent + m.a.format.mantissa_bits, eb = y.exponent + m.b.format.mantissa_bits;
      int sum = ea + eb;
      exponent = std::to_string(ea) + (eb < 0 ? " - " : " + ") + std::to_string(std::abs(eb));
      if (scaled) {
        const std::size_t block = k / static_cast<std::size_t>(m.scale_block);
        const int scales = narrow::detail::scale_of(in.scale_a[block], m.scale).exponent +
                           narrow::detail::scale_of(in.scale_b[block], m.scale).exponent + 2 * m.scale.mantissa_bits;
        sum += scales;
        exponent += (scales < 0 ? " - " : " + ") + std::to_string(std::abs(scales)) + " (scales)";
      }
      exponent += " = " + std::to_string(sum);
    }
    table.rows.push_back({"k " + std::to_string(k), narrow::binary_text(in.a[k], m.a.format),
                          narrow::to_hex_code(in.a[k], m.a.format), narrow::binary_text(in.b[k], m.b.format),
                          narrow::to_hex_code(in.b[k], m.b.format), product, exponent});
  }
  if (!stage.addend.empty()) {
    const narrow::Format& f = m.accumulator.format;
    const narrow::Unpacked c = narrow::unpack(stage.c, f);
    const std::string exponent = !c.is_finite() ? "special"
                                 : c.is_zero()  ? "zero: does not count"
                                                : std::to_string(c.exponent + f.mantissa_bits);
    table.rows.push_back(
        {stage.addend, "", "", "", narrow::to_hex_code(stage.c, f), narrow::binary_text(stage.c, f), exponent});
  }
  return table.to_text(colour, margin);
}

// Columns of bits from 2^top down to 2^lowest, then the cut.
struct BitColumns {
  int top = 0, lowest = 0;
  std::size_t label_width = 3, cut_width = 0;

  // kept: in quanta 2^lowest. Dots stand for the zeros in front.
  std::string row(const std::string& label, bool negative, std::uint64_t kept, const std::string& cut,
                  const std::string& note, bool colour) const {
    std::string front, bits;
    for (int e = top; e >= lowest; --e) {
      const int place = e - lowest;
      const bool one = place < 64 && (kept >> place & 1) != 0;
      if (bits.empty() && !one) front += '.';
      else bits += one ? '1' : '0';
    }
    std::string line(margin, ' ');
    line += label + std::string(label_width - label.size(), ' ') + "  " + (negative ? "-" : "+") + "  ";
    line += paint(front, Colour::dim, colour) + paint(bits, Colour::green, colour) + paint("|", Colour::yellow, colour);
    const std::size_t pad = note.empty() ? 0 : cut_width - std::min(cut_width, cut.size()) + 2;
    line += paint(cut, Colour::red, colour) + std::string(pad, ' ') + paint(note, Colour::dim, colour);
    return line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
};

// The bits of a term below the quantum, from 2^(lowest - 1) down to its last one.
std::string cut_bits(const narrow::TracedTerm& t, int lowest) {
  const int bottom = t.term.exponent - t.term.fraction;
  const std::uint64_t significand = t.term.significand;
  int last = bottom;
  while ((significand >> (last - bottom) & 1) == 0) ++last;
  std::string bits;
  bool seen = t.kept != 0;
  for (int e = lowest - 1; e >= last; --e) {
    if (lowest - e > most_cut_columns) return bits.substr(0, most_cut_columns - 3) + "...";
    const int place = e - bottom;
    const bool one = place < 64 && (significand >> place & 1) != 0;
    seen = seen || one;
    bits += one ? '1' : seen ? '0' : '.';
  }
  return bits;
}

std::string ruler(const BitColumns& columns, int largest, bool colour) {
  const std::size_t start = margin + columns.label_width + 5;
  const auto unit = start + static_cast<std::size_t>(columns.top - largest);
  const auto last = start + static_cast<std::size_t>(columns.top - columns.lowest);
  std::string names(unit, ' '), marks(unit, ' ');
  names += narrow::binade_text(largest);
  marks += "v";
  if (names.size() + 1 < last) {
    names.resize(last, ' ');
    marks.resize(last, ' ');
    names += narrow::binade_text(columns.lowest);
    marks += "v  what is below is cut";
  }
  return paint(names, Colour::dim, colour) + "\n" + paint(marks, Colour::dim, colour) + "\n";
}

// What rounding made of the sum, in words.
std::string rounding_outcome(const DotModel& m, const narrow::FusedStage& stage) {
  const narrow::Format& f = m.accumulator.format;
  const narrow::Unpacked r = narrow::unpack(*stage.result, f);
  if (r.is_inf()) return "beyond the largest value: Inf";
  if (r.is_zero()) return "underflow to +0";
  narrow::ExactSum difference;
  difference.add(narrow::exact_quanta(stage.sum, stage.lowest));
  difference.add(narrow::exact_number(*stage.result, f), true);
  const ExactNumber lost = difference.value();
  if (lost.is_zero()) return "exact";
  return (lost.negative == (stage.sum < 0) ? "down, " : "up, ") + narrow::binary_text(lost) + " is lost";
}

// The sum in its own binade, cut where the result's last bit is.
//   1.01010101010101010101010|11
std::string rounding_lines(const DotModel& m, const narrow::FusedStage& stage, bool colour) {
  const std::string indent(margin, ' ');
  const std::uint64_t magnitude = magnitude_of(stage.sum);
  if (magnitude == 0) return indent + "rounding  a sum of zero is +0\n";
  const narrow::Format& f = m.result;
  const int top = stage.lowest + narrow::bit_length(magnitude) - 1;
  const int binade = std::max(top, f.min_exponent());
  const int quantum = binade - f.mantissa_bits;
  std::string kept, rest;
  for (int e = binade; e >= std::min(quantum, stage.lowest); --e) {
    const int place = e - stage.lowest;
    const char bit = place >= 0 && place < 64 && (magnitude >> place & 1) != 0 ? '1' : '0';
    (e >= quantum ? kept : rest) += bit;
    if (e == binade) kept += '.';
  }
  while (!rest.empty() && rest.back() == '0') rest.pop_back();
  return indent + "rounding  " + (stage.sum < 0 ? "-" : "+") + paint(kept, Colour::green, colour) +
         paint("|", Colour::yellow, colour) + paint(rest, Colour::red, colour) + " * " + narrow::binade_text(binade) +
         "  " + std::string(rounding_text(m.rounding)) + " to " + std::to_string(f.mantissa_bits) + " fraction bits" +
         (binade != top ? ", subnormal" : "") + "\n" + indent + "          " + rounding_outcome(m, stage) + "\n";
}

// Who has the largest exponent, and so what the quantum is.
std::string largest_line(const DotModel& m, const narrow::FusedStage& stage) {
  std::string holders;
  for (const narrow::TracedTerm& t : stage.terms)
    if (t.term.exponent == stage.largest) holders += (holders.empty() ? "" : ", ") + t.label;
  if (holders.size() > 30) holders = holders.substr(0, holders.find(',', 20)) + ", ...";
  const std::string e = std::to_string(stage.largest);
  return "largest exponent " + e + " (" + (holders.empty() ? "the floor of this model" : holders) +
         "): every term becomes a whole number of 2^(" + e + " - " + std::to_string(m.fraction_bits) +
         ") = " + narrow::binade_text(stage.lowest) + "\n";
}

// The terms as rows of bits, and their sum below the line.
std::string bit_rows(const narrow::FusedStage& stage, bool colour) {
  std::uint64_t widest = magnitude_of(stage.sum);
  BitColumns columns;
  columns.lowest = stage.lowest;
  for (const narrow::TracedTerm& t : stage.terms) {
    widest = std::max(widest, t.kept);
    columns.label_width = std::max(columns.label_width, t.label.size());
    columns.cut_width = std::max(columns.cut_width, cut_bits(t, stage.lowest).size());
  }
  columns.top = std::max(stage.largest, stage.lowest + narrow::bit_length(widest) - 1);
  std::string text = ruler(columns, stage.largest, colour);
  narrow::ExactSum cut;
  for (const narrow::TracedTerm& t : stage.terms) {
    const ExactNumber lost = cut_part(t, stage.lowest);
    cut.add(lost);
    text += columns.row(t.label, t.term.negative, t.kept, cut_bits(t, stage.lowest),
                        lost.is_zero() ? "" : "cut " + narrow::binary_text(lost), colour);
  }
  const auto width = static_cast<std::size_t>(columns.top - columns.lowest) + 4;
  text += std::string(margin + columns.label_width + 2, ' ') + std::string(width, '-') + "\n";
  const std::string all = cut.value().is_zero() ? "" : "cut in all " + narrow::binary_text(cut.value());
  return text + columns.row("sum", stage.sum < 0, magnitude_of(stage.sum), "", all, colour);
}

std::string fused_text(const DotModel& m, const narrow::DotOperands& in, const narrow::FusedStage& stage, bool colour) {
  const std::string indent(margin, ' ');
  const narrow::Format& f = m.accumulator.format;
  std::string text = operand_table(m, in, stage, colour);
  const std::size_t length = static_cast<std::size_t>(m.products_per_step);
  if (stage.ks.size() < length && stage.result)
    text +=
        indent +
        paint(std::to_string(length - stage.ks.size()) + " more of the step are zero products", Colour::dim, colour) +
        "\n";
  text += "\n";
  const std::string result =
      stage.result ? indent + "result    " + paint(code_and_value(*stage.result, f), Colour::bold, colour) + "\n" : "";
  if (stage.special)
    return text + indent +
           (narrow::is_nan(*stage.result, f) ? "a NaN, Inf * 0 or Inf - Inf makes the result NaN\n"
                                             : "an Inf among the terms is the result\n") +
           result;
  if (stage.terms.empty()) return text + indent + "no term is left: the sum is +0\n" + result;
  text += indent + largest_line(m, stage) + "\n" + bit_rows(stage, colour) + "\n";
  text += indent + "sum       " + std::to_string(stage.sum) + " * " + narrow::binade_text(stage.lowest) + " = " +
          narrow::binary_text(narrow::exact_quanta(stage.sum, stage.lowest), 24) + "\n";
  return stage.result ? text + rounding_lines(m, stage, colour) + result : text;
}

std::string operations_text(const DotModel& m, const narrow::OperationStage& stage, bool colour) {
  const narrow::Format f = m.accumulator.format;
  const bool codes = f.width() <= 32;  // those of fp64 would not fit the line
  TextTable table{{"", "operation", "exact", "in " + format_name(m.accumulator)},
              {Align::left, Align::left, Align::right, Align::right},
              {}};
  if (codes) table.header.push_back("code"), table.align.push_back(Align::left);
  table.header.push_back("error (ulp)"), table.align.push_back(Align::right);
  for (const narrow::TracedOperation& op : stage.operations) {
    const bool known = op.exact.kind == narrow::NumberKind::finite;
    std::string value, code, error;
    if (op.result) {
      value = narrow::binary_text(*op.result, f), code = narrow::to_hex_code(*op.result, f);
      if (known) error = digits_text(narrow::ulp_error(op.exact, *op.result, f), 4);
    }
    std::vector<TextCell> row{op.label, op.formula, known ? narrow::binary_text(op.exact) : "-", value};
    if (codes) row.emplace_back(code, paint(code, Colour::bold, true));
    row.emplace_back(error, error == "0" ? error : paint(error, Colour::red, true));
    table.rows.push_back(std::move(row));
  }
  // Operations that round nothing leave the last columns empty.
  std::string text;
  std::istringstream lines(table.to_text(colour, margin));
  for (std::string line; std::getline(lines, line);) text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  return text;
}

}  // namespace

std::string format_name(const narrow::DotType& type) {
  for (const narrow::NamedFormat& row : narrow::format_table)
    if (row.format == type.format) return std::string(row.name);
  return std::string(type.name);
}

std::string code_and_value(Code code, const narrow::Format& f) {
  const std::string value = narrow::binary_text(code, f), near = digits_text(narrow::decode(code, f), 6);
  const bool plain = value.find_first_of("^x") == std::string::npos;
  return narrow::to_hex_code(code, f) + " = " + value + (plain ? "" : " (about " + near + ")");
}

std::string stage_text(const DotModel& model, const narrow::DotOperands& operands, const narrow::DotStage& stage,
                       bool colour) {
  const auto& title = std::visit([](const auto& s) -> const std::string& { return s.title; }, stage);
  const std::string body = std::holds_alternative<narrow::FusedStage>(stage)
                               ? fused_text(model, operands, std::get<narrow::FusedStage>(stage), colour)
                               : operations_text(model, std::get<narrow::OperationStage>(stage), colour);
  return paint("  " + title, Colour::bold, colour) + "\n\n" + body;
}

}  // namespace app

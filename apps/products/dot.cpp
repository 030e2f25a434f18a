// narrow dot: one dot product as a tensor core computes it, every step shown.
#include <algorithm>
#include <memory>

#include "cli/command.hpp"
#include "cli/explanation.hpp"
#include "cli/json_value.hpp"
#include "cli/number_text.hpp"
#include "cli/terminal.hpp"
#include "narrow/dot/block_step.hpp"
#include "narrow/dot/dot_trace.hpp"
#include "narrow/text/binary_text.hpp"
#include "narrow/text/characters.hpp"
#include "narrow/text/exact_number.hpp"
#include "narrow/text/exact_sum.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/text.hpp"
#include "options/model_choice.hpp"
#include "products/explain_dot.hpp"
#include "products/model_text.hpp"
#include "products/step_picture.hpp"

namespace app {
namespace of_dot {

using narrow::Code;
using narrow::DotModel;
using narrow::Format;

struct Options {
  std::optional<std::string> model, a, b, c, scale_a, scale_b;
  bool json = false, explain = false;
};

struct DotValue {
  std::string text;  // as it was given
  narrow::Code code = 0;
  bool rounded = false;  // the format does not hold the value that was given
};

bool is_code(std::string_view text) {
  return text.size() > 2 && text[0] == '0' &&
         (narrow::detail::lower(text[1]) == 'x' || narrow::detail::lower(text[1]) == 'b') &&
         text.find_first_of(".pP^") == std::string_view::npos;
}

// One value (0.1, 0x1.8p-3, 2^-12, inf) or code (0x3C00) of a format. A tf32 code has 19 bits; eight hex digits are a
// word whose low 13 bits are ignored. Throws narrow::Error.
DotValue parse_dot_value(std::string_view text, const narrow::Format& format) {
  const std::string_view word = narrow::detail::trim(text);
  if (word.empty())
    throw narrow::Error(
        "an empty value; accepted: decimals (0.1), hex floats (0x1.8p-3), 2^-12, 1.5*2^-12, inf, nan, codes (0x3C00)");
  const narrow::Format f = format;
  if (is_code(word)) {
    constexpr int tf32_shift = 13;
    if (f == narrow::operator""_fmt("tf32", 4) && word.size() == 10)
      return {std::string(word), narrow::parse_code(word, narrow::operator""_fmt("fp32", 4)) >> tf32_shift, false};
    return {std::string(word), narrow::parse_code(word, f), false};
  }
  const narrow::ExactNumber x = narrow::parse_binary_number(word);
  if (x.negative && !f.has_sign && !x.is_zero())
    throw narrow::Error(narrow::quote(word) + " is negative, and the format has no sign");
  if (f.is_integer() && x.kind != narrow::NumberKind::finite)
    throw narrow::Error(narrow::quote(word) + " is no integer");
  if (x.kind == narrow::NumberKind::nan && !f.has_nan())
    throw narrow::Error(narrow::quote(word) + ": the format has no NaN");
  if (x.kind == narrow::NumberKind::inf && !f.has_infinity())
    throw narrow::Error(narrow::quote(word) + ": the format has no Inf");
  const narrow::Code code = narrow::round_number(x, f);
  const bool same = x.kind == narrow::NumberKind::nan || narrow::compare(x, narrow::exact_number(code, f)) == 0;
  return {std::string(word), code, !same};
}

std::vector<DotValue> parse_dot_list(std::string_view list, const narrow::Format& format) {
  std::vector<DotValue> values;
  if (narrow::detail::trim(list).empty()) throw narrow::Error("an empty list; for example 1,-1,2^-12");
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t comma = std::min(list.find(',', begin), list.size());
    values.push_back(parse_dot_value(list.substr(begin, comma - begin), format));
    begin = comma + 1;
  }
  return values;
}

std::vector<narrow::Code> codes_of(const std::vector<DotValue>& values) {
  std::vector<narrow::Code> codes;
  for (const DotValue& value : values) codes.push_back(value.code);
  return codes;
}

// What was typed and what it became.
struct Request {
  std::vector<DotValue> a, b, scale_a, scale_b;
  DotValue c;
  narrow::DotOperands operands;
};

std::vector<DotValue> read_list(const char* flag, const std::optional<std::string>& list, const Format& format) {
  if (!list) throw narrow::Error(std::string("dot: ") + flag + " is missing; for example " + flag + " 1,-1,2^-12");
  return blame(flag, [&] { return parse_dot_list(*list, format); });
}

std::vector<DotValue> read_scales(const char* flag, const std::optional<std::string>& list, const DotModel& m,
                                  std::size_t k) {
  const auto block = static_cast<std::size_t>(m.scale_block);
  const std::size_t blocks = (k + block - 1) / block;
  if (!list) return std::vector<DotValue>(blocks, DotValue{"1", narrow::detail::scale_one(m.scale), false});
  std::vector<DotValue> scales = blame(flag, [&] { return parse_dot_list(*list, m.scale); });
  if (scales.size() == 1) scales.resize(blocks, scales[0]);
  if (scales.size() != blocks)
    throw narrow::Error(std::string(flag) + ": " + std::to_string(scales.size()) + " scales; " + std::to_string(k) +
                        " products need " + std::to_string(blocks) + ", one for each " + std::to_string(block) +
                        ", or one for all");
  return scales;
}

Request read_request(const DotModel& m, const Options& options) {
  constexpr std::size_t most = 65536;
  Request r;
  r.a = read_list("--a", options.a, m.a.format);
  r.b = read_list("--b", options.b, m.b.format);
  if (r.a.size() != r.b.size())
    throw narrow::Error("dot: --a has " + std::to_string(r.a.size()) + " values and --b has " +
                        std::to_string(r.b.size()) + "; they must be as many");
  if (r.a.size() > most)
    throw narrow::Error("dot: " + std::to_string(r.a.size()) +
                        " products; every step of at most 65536 is shown, narrow gemm takes more");
  r.c = {"0", 0, false};
  if (options.c) r.c = blame("--c", [&] { return parse_dot_value(*options.c, m.accumulator.format); });
  if (m.is_block_scaled()) {
    r.scale_a = read_scales("--scale-a", options.scale_a, m, r.a.size());
    r.scale_b = read_scales("--scale-b", options.scale_b, m, r.b.size());
  } else if (options.scale_a || options.scale_b) {
    throw narrow::Error(std::string(options.scale_a ? "--scale-a" : "--scale-b") + ": " + std::string(m.name.view()) +
                        " takes no block scales; models that do end in .mxf8f6f4, .mxf4, .nvf4 or .nvf4.ue8m0");
  }
  r.operands = {codes_of(r.a), codes_of(r.b), r.c.code, codes_of(r.scale_a), codes_of(r.scale_b)};
  return r;
}

// "a[2] = 0.1 became 0.0999755859375 in fp16"
std::vector<std::string> roundings(const DotModel& m, const Request& r) {
  std::vector<std::string> notes;
  const auto look = [&](const char* name, const std::vector<DotValue>& values, const Format& f,
                        const std::string& type) {
    for (std::size_t i = 0; i < values.size(); ++i)
      if (values[i].rounded)
        notes.push_back(std::string(name) + "[" + std::to_string(i) + "] = " + values[i].text + " became " +
                        exact_text(values[i].code, f) + " in " + type);
  };
  look("a", r.a, m.a.format, format_name(m.a));
  look("b", r.b, m.b.format, format_name(m.b));
  look("scale-a", r.scale_a, m.scale, "the format of scales");
  look("scale-b", r.scale_b, m.scale, "the format of scales");
  if (r.c.rounded)
    notes.push_back("c = " + r.c.text + " became " + exact_text(r.c.code, m.accumulator.format) + " in " +
                    format_name(m.accumulator));
  return notes;
}

// The error of the result against the exact sum: as a value, in ulp of the accumulator, and relative.
std::string error_text(const DotModel& m, const narrow::DotTrace& trace) {
  const Format f = m.accumulator.format;
  const double ulp = narrow::ulp_error(trace.exact, trace.result, f);
  if (std::isnan(ulp) || std::isinf(ulp))
    return trace.result == trace.exact_rounded ? "none" : digits_text(ulp, 4) + " ulp";
  if (ulp == 0) return "none: the result is exact";
  narrow::ExactSum difference;
  difference.add(trace.result, f);
  difference.add(trace.exact, true);
  const narrow::Format fp64 = narrow::operator""_fmt("fp64", 4);
  const auto value = [&](const narrow::ExactNumber& x) { return narrow::decode(narrow::round_number(x, fp64), fp64); };
  const double relative = std::fabs(value(difference.value()) / value(trace.exact));
  return narrow::binary_text(difference.value()) + ", " + digits_text(ulp, 4) + " ulp of " +
         format_name(m.accumulator) + (std::isfinite(relative) ? ", relative " + digits_text(relative, 3) : "") +
         (trace.result == trace.exact_rounded ? " (no rounding can do better)" : "");
}

std::string to_text(const DotModel& m, const Request& r, const narrow::DotTrace& trace, bool explain) {
  const bool colour = use_colour(1);
  std::string text = paint(std::string(m.name.view()), Colour::bold, colour) + "\n  " + wrapped(rule_sentence(m), 2) +
                     "\n  evidence: " + narrow::evidence_text(m) + "\n";
  for (const std::string& note : roundings(m, r)) text += paint("  note: " + note, Colour::yellow, colour) + "\n";
  for (const narrow::DotStage& stage : trace.stages) text += "\n" + stage_text(m, r.operands, stage, colour);
  const Format f = m.accumulator.format;
  text += "\n  " + paint("d         " + code_and_value(trace.result, f), Colour::bold, colour) + "\n";
  text += "  exact     " + narrow::binary_text(trace.exact, 24) + "; rounded once to " + format_name(m.accumulator) +
          ": " + code_and_value(trace.exact_rounded, f) + "\n";
  text += "  error     " + error_text(m, trace) + "\n";
  return explain ? text + "\n" + explain_dot(m, trace, colour) : text;
}

Json value_json(Code code, const Format& f) {
  Json value = Json::object();
  value["code"] = narrow::to_hex_code(code, f);
  value["value"] = narrow::to_decimal(code, f);
  value["hex_float"] = narrow::to_hex_float(code, f);
  return value;
}

Json list_json(const std::vector<DotValue>& values, const Format& format) {
  Json list = Json::array();
  for (const DotValue& value : values) {
    Json row = value_json(value.code, format);
    row["input"] = value.text;
    row["rounded"] = value.rounded;
    list.push_back(std::move(row));
  }
  return list;
}

Json stage_json(const DotModel& m, const narrow::FusedStage& stage) {
  Json out = Json::object();
  out["stage"] = stage.title;
  out["special"] = stage.special;
  out["largest_exponent"] = stage.special ? Json() : Json(stage.largest);
  out["quantum_exponent"] = stage.special ? Json() : Json(stage.lowest);
  out["terms"] = Json::array();
  for (const narrow::TracedTerm& t : stage.terms) {
    Json term = Json::object();
    term["term"] = t.label;
    term["negative"] = t.term.negative;
    term["significand"] = t.term.significand;
    term["exponent"] = t.term.exponent;
    term["fraction_bits"] = t.term.fraction;
    term["kept"] = t.kept;
    out["terms"].push_back(std::move(term));
  }
  out["sum"] = stage.sum;
  out["result"] = stage.result ? value_json(*stage.result, m.accumulator.format) : Json();
  return out;
}

Json stage_json(const DotModel& m, const narrow::OperationStage& stage) {
  Json out = Json::object();
  out["stage"] = stage.title;
  out["operations"] = Json::array();
  for (const narrow::TracedOperation& op : stage.operations) {
    Json row = Json::object();
    row["name"] = op.label;
    row["operation"] = op.formula;
    row["exact"] = op.exact.kind == narrow::NumberKind::finite ? Json(narrow::binary_text(op.exact)) : Json();
    row["result"] = op.result ? value_json(*op.result, m.accumulator.format) : Json();
    out["operations"].push_back(std::move(row));
  }
  return out;
}

Json to_json(const DotModel& m, const Request& r, const narrow::DotTrace& trace) {
  const Format& f = m.accumulator.format;
  Json out = Json::object();
  out["model"] = std::string(m.name.view());
  out["evidence"] = narrow::evidence_name(m.evidence);
  out["a"] = list_json(r.a, m.a.format);
  out["b"] = list_json(r.b, m.b.format);
  if (m.is_block_scaled()) {
    out["scale_a"] = list_json(r.scale_a, m.scale);
    out["scale_b"] = list_json(r.scale_b, m.scale);
  }
  out["c"] = list_json({r.c}, f)[0];
  out["steps"] = Json::array();
  for (const narrow::DotStage& stage : trace.stages)
    out["steps"].push_back(std::visit([&](const auto& s) { return stage_json(m, s); }, stage));
  out["result"] = value_json(trace.result, f);
  out["exact"] = value_json(trace.exact_rounded, f);
  out["exact"]["unrounded"] = narrow::binary_text(trace.exact);
  const double ulp = narrow::ulp_error(trace.exact, trace.result, f);
  out["error_ulp"] = std::isnan(ulp) ? Json() : json_number(ulp);
  return out;
}

int run(const Options& options) {
  if (options.explain && options.json)
    throw narrow::Error("dot: --explain is for people and --json for programs; give one of them");
  if (!options.model)
    throw narrow::Error("dot: --model is missing; for example --model hopper.wgmma.f32.e4m3.e4m3; see narrow models");
  const DotModel& model = blame("--model", [&]() -> const DotModel& { return choose_model(*options.model); });
  const Request request = read_request(model, options);
  const narrow::DotTrace trace = narrow::trace_dot(model, request.operands);
  print(options.json ? json_text(to_json(model, request, trace)) : to_text(model, request, trace, options.explain));
  return 0;
}

Action declare(Arguments& arguments) {
  const auto options = std::make_shared<Options>();
  arguments.option("--model", options->model, "NAME", "a model of narrow models");
  arguments.option("--a", options->a, "LIST", "values or codes: 1,-1.5,2^-12,1.5*2^-3,0x1.8p-3,inf,0x3C00");
  arguments.option("--b", options->b, "LIST", "as many as in --a");
  arguments.option("--c", options->c, "VALUE", "the addend (default 0)");
  arguments.option("--scale-a", options->scale_a, "LIST",
                   "block-scaled models: a scale for each block, or one for all (default 1)");
  arguments.option("--scale-b", options->scale_b, "LIST", "the same for b");
  arguments.flag("--explain", options->explain, "the same in words: what is aligned, cut, added and rounded, and why");
  arguments.flag("--json", options->json, "print JSON");
  return [options] { return run(*options); };
}

}  // namespace of_dot

const Command dot_command{
    "dot", "one dot product as a tensor core computes it, every step shown",
    "narrow dot --model hopper.mma.f32.f16.f16.k16 --a 1,-1,2^-12 --b 1,1,2^-13", of_dot::declare,
    "Shows which products meet, how they are aligned to the largest exponent, which bits are cut, how the sum "
    "is rounded, and how far the result is from the exact one. Values are rounded to the operands' formats "
    "first, and a note says so where that changes them."};

}  // namespace app

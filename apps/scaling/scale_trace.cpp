// narrow scale-trace: loss scales (and FP8 scales) over the steps of a run, several policies side by side.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "cli/command.hpp"
#include "cli/json_value.hpp"
#include "cli/number_text.hpp"
#include "cli/progress.hpp"
#include "cli/terminal.hpp"
#include "cli/write_file.hpp"
#include "narrow/array/blocks.hpp"
#include "narrow/array/histogram.hpp"
#include "narrow/report/escape.hpp"
#include "narrow/scale/gradient_log.hpp"
#include "narrow/scale/scale_log.hpp"
#include "narrow/scale/trace.hpp"
#include "narrow/tensor/chunks.hpp"
#include "narrow/tensor/file_text.hpp"
#include "narrow/tensor/tensor.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/train/policy/framework_config.hpp"
#include "options/tensor_choice.hpp"
#include "options/tensor_text.hpp"
#include "scaling/explain_scale.hpp"
#include "scaling/scale_plot.hpp"

namespace app {
namespace of_scale_trace {

struct Options {
  std::optional<std::string> policies, events, recorded, gradients, model, steps, seed, csv;
  std::optional<std::string> init, growth_interval, growth, backoff, hysteresis, min, max;
  TensorOptions choice;
  bool json = false, plot = false, explain = false;
};

struct Source {
  narrow::OverflowModel log;
  std::string text;  // what it is, for people
};

// One policy and what became of it. The recorded run, where there is one, comes first and has no policy.
struct Column {
  std::string name;
  narrow::Trace trace;
  narrow::TraceSummary summary;
  bool is_recipe = false;
  bool ends_unknown = false;  // the log cannot tell what became of the last step of the trace, and of all that follow
};

std::uint64_t parse_count(const std::string& text, const char* flag, std::uint64_t least, std::uint64_t most) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most)
    throw narrow::Error(std::string(flag) + ": " + narrow::quote(text) + " is no integer from " +
                        std::to_string(least) + " to " + std::to_string(most));
  return value;
}

// The flags that set a parameter of every policy that has it.
std::vector<narrow::ParameterValue> common_parameters(const Options& o) {
  const std::pair<const char*, const std::optional<std::string>*> flags[] = {
      {"init", &o.init},       {"growth-interval", &o.growth_interval}, {"growth", &o.growth},
      {"backoff", &o.backoff}, {"hysteresis", &o.hysteresis},           {"min", &o.min},
      {"max", &o.max}};
  std::vector<narrow::ParameterValue> values;
  for (const auto& [name, text] : flags)
    if (*text)
      values.push_back(
          {name, blame("--" + std::string(name), [&, t = text] { return narrow::parse_scale_number(**t); })});
  return values;
}

std::vector<narrow::NamedScaler> choose_policies(const Options& options) {
  const std::string list = options.policies.value_or("torch,megatron,deepspeed,apex,keras");
  const std::vector<narrow::ParameterValue> common = common_parameters(options);
  std::vector<narrow::NamedScaler> chosen;
  std::set<std::string> names;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    std::string word = list.substr(begin, end - begin);
    word.erase(0, word.find_first_not_of(' '));
    word.erase(word.find_last_not_of(' ') + 1);
    if (word.empty())
      throw narrow::Error("--policy: an empty name in " + narrow::quote(list) +
                          "; names with commas, see narrow list-scaling");
    if (!names.insert(word).second) throw narrow::Error("--policy: " + narrow::quote(word) + " is named twice");
    const narrow::ScalerRow* row = narrow::find_scaler(word.substr(0, word.find(':')));
    for (const narrow::ParameterValue& value : common)
      if (const narrow::ParameterRow* p = row == nullptr ? nullptr : row->find(value.name);
          p != nullptr && !narrow::is_allowed(value.value, p->kind))
        throw narrow::Error("--" + value.name + ": " + std::string(row->name) + ": " + value.name + " is " +
                            scale_text(value.value) + "; accepted: " + std::string(describe(p->kind)));
    chosen.push_back(
        blame("--policy", [&] { return narrow::make_scaler(narrow::train::expand_policy(word), common); }));
    const bool is_printable = std::all_of(word.begin(), word.end(), [](char c) { return c >= ' ' && c <= '~'; });
    chosen.back().name = is_printable ? word : narrow::quote(word);
    begin = end + 1;
  }
  for (const narrow::ParameterValue& value : common) {
    const bool used =
        std::any_of(chosen.begin(), chosen.end(), [&](const auto& c) { return c.row->find(value.name) != nullptr; });
    if (!used)
      throw narrow::Error("--" + value.name + ": none of these policies has such a parameter; see narrow list-scaling");
  }
  return chosen;
}

// The largest magnitudes of pieces of 4096 values of the tensor that has the largest of all, Inf and NaN left out.
struct Pieces {
  std::vector<float> amaxes;
  std::uint64_t not_finite = 0;  // in all tensors
};
Pieces cut_in_pieces(const std::vector<narrow::Tensor>& tensors) {
  constexpr std::size_t piece = 4096;
  Progress progress("scale-trace", bytes_of(tensors));
  Pieces best;
  float best_amax = -1;
  for (const narrow::Tensor& tensor : tensors) {
    std::vector<float> amaxes;
    const narrow::Tensor ordered = narrow::row_major(tensor);
    narrow::ValueReader reader(ordered, 0);
    narrow::for_each_chunk(
        ordered, [&](std::uint64_t bytes) { progress.add(bytes); },
        [&](std::uint64_t first, std::size_t count) {
          const std::span<const float> values = reader.floats(first, count);
          const std::vector<float> here = narrow::block_amax(values, narrow::BlockShape::by_piece(1, count, piece));
          amaxes.insert(amaxes.end(), here.begin(), here.end());
          const narrow::ExponentHistogram binades = narrow::exponent_histogram(values);
          best.not_finite += binades.inf.total() + binades.nan.total();
        });
    const float amax = amaxes.empty() ? 0 : *std::max_element(amaxes.begin(), amaxes.end());
    if (amax > best_amax) best_amax = amax, best.amaxes = std::move(amaxes);
  }
  return best;
}

// found_inf without a scale tells nothing, unless the policy that recorded it is known: then its scales follow.
std::string add_recorded_scales(narrow::GradientLog& log, const Options& o,
                                const std::vector<narrow::NamedScaler>& policies) {
  const bool can = log.scale.empty() && !log.found_inf.empty();
  if (o.recorded && !can)
    throw narrow::Error("--recorded: this log " +
                        std::string(log.scale.empty() ? "has no found_inf" : "has its scales") +
                        "; the flag is for logs with found_inf and without scale");
  if (!can || (!o.recorded && policies.size() != 1)) return "";
  const narrow::NamedScaler& named = policies.front();
  const std::unique_ptr<narrow::Scaler> scaler =
      o.recorded
          ? blame("--recorded", [&] { return narrow::make_scaler(narrow::train::expand_policy(*o.recorded)).scaler; })
          : named.scaler->clone();
  const std::string& name = o.recorded ? *o.recorded : named.name;
  if (scaler->limit() > 0) return "";
  for (std::size_t i = 0; i < log.steps.size(); ++i) {
    if (log.found_inf[i] == narrow::GradientLog::not_recorded)
      throw narrow::Error("--recorded: found_inf of step " + std::to_string(log.steps[i]) +
                          " is not recorded, so the scales after it are not known");
    log.scale.push_back(scaler->scale());
    scaler->observe({log.found_inf[i] != 0});
    if (!(log.scale.back() > 0) || !std::isfinite(log.scale.back()))
      throw narrow::Error("--recorded: with " + name + " the scale of step " + std::to_string(log.steps[i]) +
                          " would be " + digits_text(static_cast<double>(log.scale.back()), 3));
  }
  return ", taken as recorded by " + name;
}

Source read_source(const Options& o, const std::vector<narrow::NamedScaler>& policies) {
  const char* example = "; for example: narrow scale-trace --events log.json --policy torch,megatron";
  if (o.events && o.gradients) throw narrow::Error("scale-trace: --events and --gradients exclude each other");
  if (!o.events && !o.gradients)
    throw narrow::Error(
        std::string("scale-trace: nothing to follow; give --events FILE, or --gradients FILE with --model") + example);
  if (o.events) {
    for (const auto& [flag, given] :
         {std::pair{"--model", o.model.has_value()}, {"--steps", o.steps.has_value()}, {"--seed", o.seed.has_value()}})
      if (given) throw narrow::Error(std::string("scale-trace: ") + flag + " goes with --gradients, not with --events");
    const auto [file, run] = narrow::split_file_and_name(*o.events);
    auto [log, what] = narrow::parse_scale_log(
        blame("--events", [&, file = file] { return narrow::read_text(file, narrow::Dash::is_standard_input); }),
        file == "-" ? "standard input" : file, run);
    std::string columns;
    for (const auto& [name, has] :
         {std::pair{"amax", !log.amax.empty()}, {"scale", !log.scale.empty()}, {"found_inf", !log.found_inf.empty()}})
      if (has) columns += (columns.empty() ? "" : " and ") + std::string(name);
    const std::string text =
        printable(*o.events) + ": " + (what.empty() ? "" : what + ": ") + std::to_string(log.steps.size()) +
        (log.steps.size() == 1 ? " step with " : " steps with ") + columns + add_recorded_scales(log, o, policies);
    return {narrow::OverflowModel(std::move(log)), text};
  }
  if (o.recorded) throw narrow::Error("scale-trace: --recorded goes with --events, not with --gradients");
  if (!o.model) throw narrow::Error("scale-trace: --gradients needs --model: growth, decay or spikes");
  const narrow::GradientModel model = blame("--model", [&] { return narrow::parse_gradient_model(*o.model); });
  const std::uint64_t steps = o.steps ? parse_count(*o.steps, "--steps", 1, 100000000) : 10000;
  const std::uint64_t seed = o.seed ? parse_count(*o.seed, "--seed", 0, ~std::uint64_t{0}) : 1;
  const ChosenFile chosen = open_chosen(*o.gradients, o.choice);
  narrow::GradientLog log;
  const Pieces pieces = cut_in_pieces(chosen.floating());
  log.amax = blame(*o.gradients, [&] { return narrow::model_amax(model, pieces.amaxes, steps, seed); });
  print_error(left_out_text(chosen));
  for (std::uint64_t i = 0; i < steps; ++i) log.steps.push_back(static_cast<std::int64_t>(i));
  const auto [low, high] = std::minmax_element(log.amax.begin(), log.amax.end());
  const std::string text =
      printable(*o.gradients) + ": model " + *o.model + ", " + std::to_string(steps) + " steps, amax " +
      digits_text(static_cast<double>(*low), 3) + " to " + digits_text(static_cast<double>(*high), 3) +
      (pieces.not_finite == 0
           ? ""
           : "; " + std::to_string(pieces.not_finite) + " values of the file are Inf or NaN and left out");
  return {narrow::OverflowModel(std::move(log)), text};
}

Column recorded_column(const narrow::GradientLog& log) {
  Column c{"recorded", {}, {}, false, false};
  for (std::size_t i = 0; i < log.steps.size(); ++i)
    c.trace.steps.push_back({log.scale[i], log.found_inf[i] == 1, narrow::ScaleEvent::none,
                             log.found_inf[i] == narrow::GradientLog::not_recorded ? narrow::Certainty::unknown
                                                                                   : narrow::Certainty::exact});
  c.summary = narrow::summarise(c.trace);
  return c;
}

std::vector<Column> run_all(const std::vector<narrow::NamedScaler>& policies, const narrow::OverflowModel& log) {
  std::vector<Column> columns;
  if (log.has_recorded_run()) columns.push_back(recorded_column(log.log()));
  Progress progress("scale-trace", policies.size());
  for (const narrow::NamedScaler& policy : policies) {
    Column c{policy.name,
             blame(policy.name, [&] { return narrow::run_trace(*policy.scaler, log); }),
             {},
             policy.scaler->limit() > 0,
             false};
    c.summary = narrow::summarise(c.trace);
    c.ends_unknown = c.trace.ends_unknown();
    columns.push_back(std::move(c));
    progress.add();
  }
  return columns;
}

// --- for people ---

std::string scale_name(float scale) {
  if (std::isnan(scale)) return "NaN";
  if (scale == 0 || std::isinf(scale)) return scale == 0 ? "0" : "Inf";
  return scale_text(static_cast<double>(scale));
}

// What is wrong, or nothing.
std::string remarks(const Column& c, const std::vector<std::int64_t>& steps) {
  std::string text;
  const auto say = [&](const std::string& what) { text += (text.empty() ? "" : "; ") + what; };
  const auto at = [&](std::size_t i) { return std::to_string(steps[i]); };
  if (c.summary.ended) say("run ends at step " + at(*c.summary.ended) + ": the framework raises");
  if (c.summary.collapsed)
    say("collapsed at step " + at(*c.summary.collapsed) + ": " +
        (c.is_recipe ? "scale " : "1/scale is not finite, scale ") +
        scale_name(c.trace.steps[*c.summary.collapsed].scale));
  if (c.summary.stalled)
    say("stalled from step " + at(*c.summary.stalled) + ": " + std::to_string(c.summary.longest_skip) +
        " steps in a row skipped");
  if (c.trace.clipped != 0) say(std::to_string(c.trace.clipped) + " steps clipped");
  return text.empty() ? "-" : text;
}

// How many steps were skipped, and in the same cell how sure that is.
std::string skipped_text(const Column& c, const narrow::OverflowModel& log) {
  const std::vector<std::int64_t>& steps = log.log().steps;
  const auto count = [](std::size_t n) { return std::to_string(n) + (n == 1 ? " step " : " steps "); };
  std::string text = std::to_string(c.summary.skipped);
  if (c.trace.estimated != 0) text += " (" + count(c.trace.estimated) + "estimated)";
  if (c.ends_unknown) {
    const std::size_t from = c.trace.steps.size() - 1;
    if (from == 0) text.clear();
    return text + (from == 0 ? "" : ", ") + "unknown from step " + std::to_string(steps[from]) + " (" +
           log.unknown_region() + ")";
  }
  const auto unknown = std::count_if(c.trace.steps.begin(), c.trace.steps.end(), [](const narrow::TraceStep& s) {
    return s.certainty == narrow::Certainty::unknown;
  });
  return unknown == 0 ? text : text + " (" + count(static_cast<std::size_t>(unknown)) + "unknown)";
}

TextTable summary_table(const std::vector<Column>& columns, const narrow::OverflowModel& log) {
  constexpr Align l = Align::left, r = Align::right;
  const std::vector<std::int64_t>& steps = log.log().steps;
  TextTable table{{"policy", "first", "last", "smallest", "largest", "settled", "skipped", "remarks"},
              {l, r, r, r, r, r, l, l},
              {}};
  for (const Column& c : columns) {
    const narrow::TraceSummary& s = c.summary;
    const auto known = [&](const std::string& text) { return c.ends_unknown ? "unknown" : text; };
    table.rows.push_back({c.name, scale_name(s.first), known(scale_name(s.last)), known(scale_name(s.smallest)),
                          known(scale_name(s.largest)), known(s.settled ? std::to_string(steps[*s.settled]) : "no"),
                          skipped_text(c, log), remarks(c, steps)});
  }
  return table;
}

// Steps at each scale. FP8 scales take any value: they are counted by their power of two.
TextTable time_table(const std::vector<Column>& columns, std::size_t steps) {
  TextTable table{{"scale"}, {Align::right}, {}};
  std::map<float, std::vector<std::uint64_t>, std::greater<>> rows;
  std::uint64_t not_a_number = 0;
  for (std::size_t k = 0; k < columns.size(); ++k) {
    table.header.push_back(columns[k].name);
    table.align.push_back(Align::right);
    for (const auto& [scale, count] : columns[k].summary.time_at_scale) {
      if (std::isnan(scale)) {
        not_a_number += count;
        continue;
      }
      const float place = scale > 0 && std::isfinite(scale) && columns[k].is_recipe
                              ? std::exp2(static_cast<float>(std::ilogb(scale)))
                              : scale;
      std::vector<std::uint64_t>& counts = rows[place];
      counts.resize(columns.size());
      counts[k] += count;
    }
  }
  for (const auto& [scale, counts] : rows) {
    std::vector<TextCell> cells{scale_name(scale)};
    for (const std::uint64_t count : counts) cells.emplace_back(count == 0 ? "." : std::to_string(count));
    table.rows.push_back(std::move(cells));
  }
  if (not_a_number != 0) table.rows.push_back({"NaN: " + std::to_string(not_a_number)});
  if (std::any_of(columns.begin(), columns.end(), [](const Column& c) { return c.ends_unknown; })) {
    std::vector<TextCell> cells{"unknown"};
    for (const Column& c : columns)
      cells.emplace_back(c.ends_unknown && steps != c.trace.steps.size() ? std::to_string(steps - c.trace.steps.size())
                                                                         : ".");
    table.rows.push_back(std::move(cells));
  }
  for (std::vector<TextCell>& row : table.rows) row.resize(table.header.size(), TextCell(""));
  return table;
}

// The scale before each step at which some scale is not that of the step before; '!' marks skipped steps, '?' unknown
// ones.
std::string mark(const narrow::TraceStep& s) {
  return s.certainty == narrow::Certainty::unknown ? "?" : s.skipped ? "!" : "";
}

std::string trajectory_text(const std::vector<Column>& columns, const std::vector<std::int64_t>& steps, bool colour) {
  constexpr std::size_t most = 40;
  std::vector<std::size_t> changes;
  for (std::size_t i = 0; i < steps.size(); ++i)
    for (const Column& c : columns) {
      const auto& t = c.trace.steps;
      const bool ends = i == t.size() && i > 0;
      if (c.is_recipe || i > t.size() || (i == t.size() && !ends)) continue;
      if (i == 0 || ends || t[i].scale != t[i - 1].scale) {
        changes.push_back(i);
        break;
      }
    }
  TextTable table{{"step"}, {Align::right}, {}};
  for (const Column& c : columns) table.header.push_back(c.name), table.align.push_back(Align::right);
  for (std::size_t k = 0; k < changes.size() && k < most; ++k) {
    const std::size_t i = changes[k];
    std::vector<TextCell> cells{std::to_string(steps[i])};
    for (const Column& c : columns)
      cells.emplace_back(i >= c.trace.steps.size() ? (c.ends_unknown ? "unknown" : "ended")
                                                   : mark(c.trace.steps[i]) + scale_name(c.trace.steps[i].scale));
    table.rows.push_back(std::move(cells));
  }
  std::string text = "scale before the step, where one changes (! the step is skipped, ? it is not known)\n" +
                     table.to_text(colour, 2);
  if (changes.size() > most)
    text += "  ... " + std::to_string(changes.size() - most) + " more changes; -o FILE.csv has every step\n";
  return text;
}

std::string to_text(const Source& source, const std::vector<Column>& columns, bool plot) {
  const bool colour = use_colour(1);
  const std::vector<std::int64_t>& steps = source.log.log().steps;
  std::string text = source.text + "\n";
  text += "overflow: " + source.log.describe() + "\n\n";
  text += summary_table(columns, source.log).to_text(colour) + "\n";
  text += "steps at each scale\n" + time_table(columns, steps.size()).to_text(colour, 2) + "\n";
  text += trajectory_text(columns, steps, colour);
  if (!plot) return text;
  std::vector<std::string> names;
  for (const Column& c : columns) names.push_back(c.name);
  const std::vector<char> letters = choose_letters(names);
  std::vector<ScaleCurve> curves;
  for (std::size_t k = 0; k < columns.size(); ++k) {
    ScaleCurve curve{letters[k], names[k], {}};
    for (const narrow::TraceStep& s : columns[k].trace.steps) curve.scales.push_back(s.scale);
    curves.push_back(std::move(curve));
  }
  const int width = terminal_width(1);
  return text + "\n" + scale_plot(curves, steps, width == 0 ? 100 : std::min(width, 140));
}

// --- for machines ---

std::string number_text(float scale) {
  char digits[40];
  if (std::isnan(scale)) return "nan";
  if (std::isinf(scale)) return scale > 0 ? "inf" : "-inf";
  return {digits, std::to_chars(digits, digits + sizeof digits, static_cast<double>(scale)).ptr};
}

// By hand: a million steps of ten policies are too many for a tree of JSON values. What the log cannot tell is null;
// the step from which on it cannot says between which scales.
std::string to_json(const std::vector<Column>& columns, const narrow::OverflowModel& log) {
  const std::vector<std::int64_t>& steps = log.log().steps;
  const auto json = [](float scale) {
    const std::string text = number_text(scale);
    return std::isfinite(scale) ? text : "\"" + text + "\"";
  };
  std::string text = "{";
  for (const Column& c : columns) {
    text += (&c == &columns.front() ? "\n  " : ",\n  ") + Json(c.name).dump() + ": [";
    const std::size_t known = c.trace.steps.size();
    for (std::size_t i = 0; i < (c.ends_unknown ? steps.size() : known); ++i) {
      text += (i == 0 ? "\n    {\"step\": " : ",\n    {\"step\": ") + std::to_string(steps[i]);
      if (i >= known) {
        text += ", \"scale\": null, \"skipped\": null}";
        continue;
      }
      const narrow::TraceStep& s = c.trace.steps[i];
      const bool unknown = s.certainty == narrow::Certainty::unknown;
      text += ", \"scale\": " + json(s.scale) + ", \"skipped\": " + (unknown ? "null" : s.skipped ? "true" : "false");
      if (s.event != narrow::ScaleEvent::none) text += ", \"event\": \"" + std::string(name_of(s.event)) + "\"";
      if (s.certainty == narrow::Certainty::estimated) text += ", \"estimated\": true";
      if (unknown && c.ends_unknown) {
        const narrow::ScaleBounds& b = log.known();
        text += ", \"known_up_to\": " + (b.good_up_to < 0 ? "null" : json(b.good_up_to)) +
                ", \"known_from\": " + (std::isinf(b.overflow_from) ? "null" : json(b.overflow_from));
      }
      text += "}";
    }
    text += "\n  ]";
  }
  return text + "\n}\n";
}

// Empty where the log cannot tell.
std::string to_csv(const std::vector<Column>& columns, const std::vector<std::int64_t>& steps) {
  std::string text = "step";
  for (const Column& c : columns) {
    text += "," + narrow::report::csv_field(c.name + " scale") + "," + narrow::report::csv_field(c.name + " skipped");
    if (c.trace.estimated != 0) text += "," + narrow::report::csv_field(c.name + " estimated");
  }
  text += "\n";
  for (std::size_t i = 0; i < steps.size(); ++i) {
    text += std::to_string(steps[i]);
    for (const Column& c : columns) {
      const narrow::TraceStep* s = i < c.trace.steps.size() ? &c.trace.steps[i] : nullptr;
      const bool is_known = s != nullptr && s->certainty != narrow::Certainty::unknown;
      text += "," + (s != nullptr ? number_text(s->scale) : "") + "," + (is_known ? (s->skipped ? "1" : "0") : "");
      if (c.trace.estimated != 0)
        text += std::string(",") + (is_known ? (s->certainty == narrow::Certainty::estimated ? "1" : "0") : "");
    }
    text += "\n";
  }
  return text;
}

// The stories of the policies; the recorded run, where there is one, stands before them and has no rule to tell.
std::string stories(const Source& source, const std::vector<narrow::NamedScaler>& policies,
                    const std::vector<Column>& columns) {
  const std::size_t recorded = columns.size() - policies.size();
  std::string text = source.text + "\noverflow: " + source.log.describe() + "\n";
  for (std::size_t i = 0; i < policies.size(); ++i)
    text += "\n" + explain_scaler(policies[i], columns[recorded + i].trace, source.log, use_colour(1));
  return text;
}

int run(const Options& options) {
  if (options.explain && options.json)
    throw narrow::Error("scale-trace: --explain is for people and --json for programs; give one of them");
  const std::vector<narrow::NamedScaler> policies = choose_policies(options);
  const Source source = read_source(options, policies);
  const std::vector<Column> columns = run_all(policies, source.log);
  const std::vector<std::int64_t>& steps = source.log.log().steps;
  if (options.csv) write_file(*options.csv, to_csv(columns, steps));
  if (options.explain) {
    print(stories(source, policies, columns));
    return 0;
  }
  print(options.json ? to_json(columns, source.log) : to_text(source, columns, options.plot || is_terminal(1)));
  return 0;
}

Action declare(Arguments& arguments) {
  const auto o = std::make_shared<Options>();
  arguments.option(
      "--policy", o->policies, "LIST",
      "policies of list-scaling, each NAME or NAME:PARAMETER=VALUE:...; deepspeed:ds_config.json, megatron:FILE and "
      "'megatron:--fp16 --hysteresis 4' have a run's own settings (default torch,megatron,deepspeed,apex,keras)");
  arguments.option("--events", o->events, "FILE",
                   "a log of steps, - for standard input: JSON rows [step, loss, scale, found_inf] or objects, in an "
                   "array or one a line; CSV with step and amax, found_inf or scale; logs.json (FILE:RUN) and "
                   "histograms.json of data/torch");
  arguments.option("--recorded", o->recorded, "POLICY",
                   "the policy that recorded a log of found_inf without scales (default: the one of --policy, where it "
                   "is only one)");
  arguments.option("--gradients", o->gradients, "FILE",
                   "a tensor file of gradients, or FILE:TENSOR; an amax a step is modelled from it");
  arguments.option("--model", o->model, "MODEL",
                   "with --gradients: growth (2^16 larger at the end), decay (2^16 smaller) or spikes (one step in "
                   "200, up to 2^12)");
  arguments.option("--steps", o->steps, "N", "with --gradients: steps (default 10000)");
  arguments.option("--seed", o->seed, "N", "with --gradients: seed (default 1)");
  o->choice.declare(arguments);
  arguments.option("--init", o->init, "S",
                   "initial scale of every policy that has one and does not set it itself: 65536 or 2^16");
  arguments.option("--growth-interval", o->growth_interval, "N", "good steps before growth");
  arguments.option("--growth", o->growth, "X", "growth factor, above 1");
  arguments.option("--backoff", o->backoff, "X", "backoff factor, above 0 and below 1");
  arguments.option("--hysteresis", o->hysteresis, "N", "overflows before the first reduction");
  arguments.option("--min", o->min, "S", "smallest scale");
  arguments.option("--max", o->max, "S", "largest scale");
  arguments.option("-o,--output", o->csv, "FILE.csv", "write every step as CSV too");
  arguments.flag("--plot", o->plot, "draw the scales also when the output is no terminal");
  arguments.flag("--explain", o->explain, "each policy as a story: which steps overflowed and why, what the rule did");
  arguments.flag("--json", o->json, "print JSON");
  return [o] { return run(*o); };
}

}  // namespace of_scale_trace

const Command scale_trace_command{"scale-trace", "loss scales over the steps of a run, several frameworks side by side",
                                  "narrow scale-trace --events log.json --policy torch,megatron,deepspeed --init 2^24",
                                  of_scale_trace::declare};

}  // namespace app

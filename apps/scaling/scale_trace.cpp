// narrow scale-trace: loss scales (and FP8 scales) over the steps of a run, several policies side by side.
#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

#include "cli/command.hpp"
#include "cli/number_text.hpp"
#include "cli/progress.hpp"
#include "cli/terminal.hpp"
#include "cli/write_file.hpp"
#include "narrow/array/blocks.hpp"
#include "narrow/array/histogram.hpp"
#include "narrow/scale/gradient_log.hpp"
#include "narrow/scale/scale_log.hpp"
#include "narrow/scale/trace.hpp"
#include "narrow/tensor/chunks.hpp"
#include "narrow/tensor/file_text.hpp"
#include "narrow/tensor/tensor.hpp"
#include "narrow/tensor/watched_run.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/train/policy/framework_config.hpp"
#include "options/number_option.hpp"
#include "options/tensor_choice.hpp"
#include "options/tensor_text.hpp"
#include "scaling/explain_scale.hpp"
#include "scaling/scale_trace_text.hpp"

namespace app {
namespace of_scale_trace {

struct Options {
  std::optional<std::string> policies, events, recorded, gradients, model, steps, seed, csv;
  std::optional<std::string> init, growth_interval, growth, backoff, hysteresis, min, max;
  TensorOptions choice;
  bool json = false, plot = false, explain = false;
};

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
    narrow::fold_chunks(
        ordered, [&](std::uint64_t bytes) { progress.add(bytes); }, nullptr,
        [&](std::uint64_t first, std::size_t count) {
          const std::span<const float> values = reader.floats(first, count);
          const narrow::ExponentHistogram binades = narrow::exponent_histogram(values);
          best.not_finite += binades.inf.total() + binades.nan.total();
          return narrow::block_amax(values, narrow::BlockShape::by_piece(1, count, piece));
        },
        [&](const std::vector<float>& here) { amaxes.insert(amaxes.end(), here.begin(), here.end()); });
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

narrow::ScaleLog read_log(const std::string& events) {
  if (narrow::is_watched_run(events)) {
    if (auto log = narrow::WatchedRun(events).scale_log()) return *log;
    throw narrow::Error("--events: " + narrow::quote(events) +
                        " has neither steps of a loss scaler nor gradients whose largest is known");
  }
  const auto [file, run] = narrow::split_file_and_name(events);
  return narrow::parse_scale_log(
      blame("--events", [&, file = file] { return narrow::read_text(file, narrow::Dash::is_standard_input); }),
      file == "-" ? "standard input" : file, run);
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
    auto [log, what] = read_log(*o.events);
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
                   "histograms.json of data/torch; or the folder of a run that narrow.torch.watch wrote");
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

const Command scale_trace_command{
    "scale-trace", "loss scales over the steps of a run, several frameworks side by side",
    "narrow scale-trace --events log.json --policy torch,megatron,deepspeed --init 2^24", of_scale_trace::declare,
    "A log says at which steps gradients overflowed (found_inf), or how large they were; from that each "
    "framework's scaler is run again, beside what was recorded. Logs of PyTorch, Megatron, DeepSpeed and "
    "folders of narrow.torch.watch are read as they are. Where the log cannot tell, a line says so."};

}  // namespace app

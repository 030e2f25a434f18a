// How does a dynamic loss scale move, what do bad initial scales cost, and which scalers collapse when gradients break?
#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/framework/experiment.hpp"
#include "analysis/framework/shares.hpp"
#include "analysis/framework/training_runs.hpp"
#include "analysis/recordings/inputs.hpp"
#include "narrow/scale/gradient_log.hpp"
#include "narrow/scale/trace.hpp"
#include "narrow/tensor/watched_run.hpp"
#include "narrow/text/quote.hpp"

namespace analysis::of_loss_scaling {
namespace {

using namespace narrow;
using enum PlotColour;

// ---- The recorded runs of PyTorch's GradScaler, and the rule run again ----

struct Shown {
  const char* log;
  const char* title;
  PlotColour colour;
};
constexpr Shown shown[] = {{"fp16 from 2^30", "from 2^30", vermilion},
                           {"fp16 interval 20", "from 2^16", blue},
                           {"fp16 from 2^0", "from 2^0", green},
                           {"fp16 from 2^-10", "from 2^-10", purple}};

std::string torch_text(const TrainingLog& log) {
  return "torch:init=" + significant_text(log.init_scale, 17) +
         ":growth-interval=" + std::to_string(log.growth_interval);
}

std::int64_t skipped_in(const TrainingLog& log) { return std::count(log.found_inf.begin(), log.found_inf.end(), 1); }

// Steps whose scale is that of the rule when it is told what overflowed: all of them, if the rule is right.
std::int64_t equal_scales(const TrainingLog& log) {
  const NamedScaler rule = make_scaler(torch_text(log));
  std::int64_t equal = 0;
  for (std::size_t i = 0; i < log.scale.size(); ++i) {
    equal += static_cast<double>(rule.scaler->scale()) == log.scale[i] ? 1 : 0;
    rule.scaler->observe({log.found_inf[i] != 0, 0});
  }
  return equal;
}

GradientLog gradients_of(const std::vector<double>& amax, std::size_t steps) {
  GradientLog log;
  for (std::size_t i = 0; i < std::min(steps, amax.size()); ++i) {
    log.steps.push_back(static_cast<std::int64_t>(i));
    log.amax.push_back(std::isnan(amax[i]) ? std::numeric_limits<float>::infinity() : static_cast<float>(amax[i]));
  }
  return log;
}

Series scale_series(const std::string& name, const Trace& trace, PlotColour colour) {
  Series s{name, Draw::steps, {}, {}, {}, {}, {}, colour};
  for (std::size_t i = 0; i < trace.steps.size(); ++i) {
    s.x.push_back(static_cast<double>(i));
    const double scale = static_cast<double>(trace.steps[i].scale);
    s.y.push_back(scale > 0 && std::isfinite(scale) ? std::log2(scale) : std::nan(""));
  }
  return s;
}

struct Recorded {
  Table table;
  Panel scales, losses;
  std::int64_t equal = 0, steps = 0;
  std::string finding, title;
};

Recorded replay(const std::vector<TrainingLog>& logs) {
  Recorded out;
  out.table = {"recorded",
               "PyTorch's GradScaler in training on a GPU, and its rule run again",
               {text_column("run"), power_column("initial scale"), integer_column("growth interval"),
                integer_column("steps"), integer_column("skipped"), integer_column("skipped in the first 50"),
                power_column("last scale"), real_column("loss at step 400", "", 4), real_column("last loss", "", 4),
                integer_column("scales that the rule gives"), integer_column("scales predicted from FP32 gradients")},
               {},
               "scales that the rule gives: steps whose recorded scale is what narrow's rule gives when told which "
               "steps overflowed; predicted: "
               "not told either, but given the largest gradient of each step of the FP32 run",
               {}};
  out.scales.title = "loss scale, recorded on a GPU";
  out.scales.x = {"training step", "", AxisScale::linear, 0.0, 400.0, {}, {}};
  out.scales.y = {"loss scale", "", AxisScale::exponent_of_two, -12.0, 32.0, {}, {}};
  out.losses = out.scales;
  out.losses.title = "loss";
  out.losses.y = {"training loss, mean of 20 steps", "nats", AxisScale::linear, 1.5, 6.0, {}, {}};
  const TrainingLog* wide = find_log(logs, "fp32");
  for (const TrainingLog& log : logs) {
    const bool scaled = log.init_scale > 0;
    Cell rule, predicted;
    if (scaled) {
      const std::int64_t equal = equal_scales(log);
      out.equal += equal, out.steps += static_cast<std::int64_t>(log.scale.size());
      rule = equal;
      if (wide != nullptr) {
        const Trace t = run_trace(*make_scaler(torch_text(log)).scaler,
                                  OverflowModel(gradients_of(wide->grad_amax, log.scale.size())));
        std::int64_t same = 0;
        for (std::size_t i = 0; i < t.steps.size(); ++i)
          same += static_cast<double>(t.steps[i].scale) == log.scale[i] ? 1 : 0;
        predicted = same;
      }
    }
    const auto early = static_cast<std::int64_t>(std::count(
        log.found_inf.begin(), log.found_inf.begin() + std::min<std::ptrdiff_t>(50, std::ssize(log.found_inf)), 1));
    out.table.add({log.name, scaled ? Cell{log.init_scale} : Cell{},
                   scaled ? Cell{std::int64_t{log.growth_interval}} : Cell{},
                   static_cast<std::int64_t>(log.loss.size()), skipped_in(log), early, log.scale.back(),
                   log.loss.size() > 400 ? Cell{log.loss[400]} : Cell{}, log.loss.back(), rule, predicted});
  }
  for (const Shown& s : shown) {
    const TrainingLog* log = find_log(logs, s.log);
    if (log == nullptr) continue;
    Series scale{s.title, Draw::steps, {}, {}, {}, {}, {}, s.colour},
        loss{s.title, Draw::line, {}, {}, {}, {}, {}, s.colour};
    constexpr std::size_t window = 20;
    for (std::size_t i = 0; i < std::min<std::size_t>(log->scale.size(), 401); ++i) {
      scale.x.push_back(static_cast<double>(i)), scale.y.push_back(std::log2(log->scale[i]));
      if (i + 1 < window) continue;
      double sum = 0;  // of this window alone: a step of NaN spoils the windows with it and no others
      for (std::size_t k = i + 1 - window; k <= i; ++k) sum += log->loss[k];
      loss.x.push_back(static_cast<double>(i)), loss.y.push_back(sum / window);
    }
    out.scales.series.push_back(scale);
    out.losses.series.push_back(loss);
  }
  const TrainingLog *high = find_log(logs, "fp16 from 2^30"), *low = find_log(logs, "fp16 from 2^-10"),
                    *good = find_log(logs, "fp16");
  if (high != nullptr && low != nullptr && good != nullptr && low->loss.size() > 400 && good->loss.size() > 400) {
    const auto first_good = std::find(high->found_inf.begin(), high->found_inf.end(), 0) - high->found_inf.begin();
    out.finding = "Starting at 2^30 costs " + std::to_string(first_good) +
                  " skipped steps, starting at 2^-10 leaves the loss at " + significant_text(low->loss[400], 3) +
                  " after 400 steps instead of " + significant_text(good->loss[400], 3);
    out.title = "A start at 2^30 skips " + std::to_string(first_good) + " steps; after a start at 2^-10 the loss is " +
                significant_text(low->loss[400], 3) + " at step 400, not " + significant_text(good->loss[400], 3);
  }
  return out;
}

// ---- A watched run: what its scaler did ----

std::string range_text(const std::vector<float>& scales) {
  const auto [low, high] = std::minmax_element(scales.begin(), scales.end());
  const auto text = [](float x) { return power_text(static_cast<double>(x)); };
  return *low == *high ? "stayed at " + text(*low) : "moved between " + text(*low) + " and " + text(*high);
}

Recorded of_run(const WatchedRun& run, const GradientLog& log) {
  Recorded out;
  std::int64_t skipped = 0, unknown = 0, largest = -1;
  for (std::size_t i = 0; i < log.steps.size(); ++i) {
    if (!log.found_inf.empty())
      skipped += log.found_inf[i] == 1, unknown += log.found_inf[i] == GradientLog::not_recorded;
    if (!log.amax.empty() && log.amax[i] >= 0)
      if (largest < 0 || log.amax[i] > log.amax[static_cast<std::size_t>(largest)])
        largest = static_cast<std::int64_t>(i);
  }
  const auto cell = [](float x) { return Cell{static_cast<double>(x)}; };
  const bool has_scale = !log.scale.empty(), has_found = !log.found_inf.empty();
  const Cell amax = largest < 0 ? Cell{} : cell(log.amax[static_cast<std::size_t>(largest)]);
  out.table = {
      "run",
      run.has_scaler() ? "What the loss scaler of this run did" : "The gradients of this run, which had no loss scaler",
      {integer_column("steps"), integer_column("skipped"), power_column("first scale"), power_column("last scale"),
       real_column("largest gradient", "", 3)},
      {},
      "largest gradient: without the loss scale",
      {}};
  out.table.add({static_cast<std::int64_t>(log.steps.size()), has_found ? Cell{skipped} : Cell{},
                 has_scale ? cell(log.scale.front()) : Cell{}, has_scale ? cell(log.scale.back()) : Cell{}, amax});
  const std::string steps =
      count_text(static_cast<std::int64_t>(log.steps.size())) + (log.steps.size() == 1 ? " step" : " steps");
  out.title = out.finding = has_scale && has_found
                                ? "This run skipped " + count_text(skipped) + " of " + steps +
                                      (unknown > 0 ? " (of " + count_text(unknown) + " it is not known)" : "") +
                                      " and its loss scale " + range_text(log.scale)
                                : "This run had no loss scaler; its gradients are known at " + steps;
  if (!has_scale) return out;
  out.scales.title = "loss scale of this run";
  out.scales.x = {"training step", "", AxisScale::linear, {}, {}, {}, {}};
  out.scales.y = {"loss scale", "", AxisScale::exponent_of_two, {}, {}, {}, {}};
  Series scale{"loss scale", Draw::steps, {}, {}, {}, {}, {}, blue},
      skips{"skipped", Draw::points, {}, {}, {}, {}, {}, vermilion};
  for (std::size_t i = 0; i < log.steps.size(); ++i) {
    const auto x = static_cast<double>(log.steps[i]), y = std::log2(static_cast<double>(log.scale[i]));
    const bool moves = i == 0 || i + 1 == log.steps.size() || log.scale[i] != log.scale[i - 1];
    if (moves) scale.x.push_back(x), scale.y.push_back(y);
    if (has_found && log.found_inf[i] == 1 && skips.x.size() < 1000) skips.x.push_back(x), skips.y.push_back(y);
  }
  out.scales.series = {scale};
  if (!skips.x.empty()) out.scales.series.push_back(skips);
  return out;
}

// ---- The same here: a small network learns handwritten digits in emulated FP16 ----

struct Live {
  Table table;
  Panel panel;
};

Live train_live(std::uint64_t steps, Progress& progress) {
  Live out;
  out.table = {"live",
               "Digits learned in emulated FP16 with bad initial loss scales, growth interval 20",
               {power_column("initial scale"), integer_column("steps"), integer_column("skipped"),
                power_column("last scale"), real_column("loss, mean of the last 20", "", 4)},
               {},
               "",
               {}};
  out.panel.title = "live: digits in emulated FP16";
  out.panel.x = {"training step", "", AxisScale::linear, 0.0, static_cast<double>(steps), {}, {}};
  out.panel.y = {"training loss, mean of 10 steps", "nats", AxisScale::linear, 0.0, {}, {}, {}};
  const std::pair<int, PlotColour> starts[] = {{30, vermilion}, {16, blue}, {-10, purple}, {-20, sky}};
  for (const auto& [log2, colour] : starts) {
    const std::string power = "2^" + std::to_string(log2);
    RunPlan plan{.recipe = "fp16-amp", .steps = steps};
    plan.loss_scaler = "torch:init=" + power + ":growth-interval=20";
    const double from = 0.2 + 0.2 * static_cast<double>(out.panel.series.size());
    const train::RunResult& r = training_run(plan, progress, from, from + 0.2);
    const Curve curve = loss_curve(r, 10);
    out.panel.series.push_back({"from " + power, Draw::line, curve.x, curve.y, {}, {}, {}, colour});
    out.table.add({std::ldexp(1.0, log2), static_cast<std::int64_t>(r.rows.size()),
                   static_cast<std::int64_t>(r.skipped), static_cast<double>(r.rows.back().scale),
                   std::isnan(r.final_loss) ? Cell{} : Cell{r.final_loss}});
  }
  return out;
}

// ---- Every framework's scaler on one log: a good run that breaks for a while ----

struct Framework {
  const char* policy;
  PlotColour colour;
};
constexpr Framework frameworks[] = {{"torch", vermilion}, {"apex", orange},    {"megatron", blue},
                                    {"deepspeed", green}, {"fairseq", purple}, {"keras", sky}};

struct Broken {
  Table table;
  Panel panel;
  std::vector<std::string> collapsed, unknown;
};

std::string list_or_none(const std::vector<std::string>& names) { return names.empty() ? "none" : list_of(names); }

// An Inf overflows at every scale, whatever the run found at its own.
Broken break_them(const GradientLog& log, std::size_t from, std::size_t length) {
  Broken out;
  out.table = {"frameworks",
               "Loss scalers of six frameworks, defaults, on recorded gradients of which some steps are NaN",
               {text_column("scaler"), text_column("gradients"), integer_column("skipped"),
                power_column("smallest scale"), power_column("last scale"), text_column("what happens")},
               {},
               "",
               {}};
  out.panel.title = std::to_string(length) + " steps of NaN gradients";
  const auto begin = static_cast<double>(from);
  out.panel.x = {"training step", "", AxisScale::linear, begin - 20, begin + 120, {}, {}};
  out.panel.y = {"loss scale", "", AxisScale::exponent_of_two, -40.0, 24.0, {}, {}};
  GradientLog broken = log;
  if (broken.amax.empty()) broken.amax.assign(broken.steps.size(), GradientLog::no_amax);
  for (std::size_t i = from; i < std::min(from + length, broken.steps.size()); ++i) {
    broken.amax[i] = std::numeric_limits<float>::infinity();
    if (!broken.found_inf.empty()) broken.found_inf[i] = 1;
  }
  const OverflowModel good_log(log), bad_log(broken);
  std::vector<std::string> raise, hold;
  for (const Framework& f : frameworks)
    for (const bool bad : {false, true}) {
      const Trace trace = run_trace(*make_scaler(f.policy).scaler, bad ? bad_log : good_log);
      const TraceSummary s = summarise(trace);
      std::string what = s.settled ? "settles at step " + std::to_string(*s.settled) : "does not settle";
      if (s.stalled) what = "skips " + std::to_string(s.longest_skip) + " steps in a row";
      if (s.ended) what = "raises an error at step " + std::to_string(*s.ended);
      if (trace.ends_unknown())
        what = "not known: the log does not tell of step " + std::to_string(trace.steps.size() - 1);
      if (s.collapsed) what = "collapses: the scale is useless from step " + std::to_string(*s.collapsed);
      out.table.add({std::string(f.policy), std::string(bad ? "NaN for a while" : "as recorded"),
                     static_cast<std::int64_t>(s.skipped), static_cast<double>(s.smallest), static_cast<double>(s.last),
                     what});
      if (!bad) continue;
      std::vector<std::string>& same = s.collapsed            ? out.collapsed
                                       : trace.ends_unknown() ? out.unknown
                                       : s.ended              ? raise
                                                              : hold;
      same.emplace_back(f.policy);
      out.panel.series.push_back(scale_series(f.policy, trace, f.colour));
      out.panel.series.back().dashed = f.colour == orange;  // apex does as torch
    }
  out.panel.marks = {{Along::x, begin, "NaN begins", grey}};
  out.panel.notes = {{begin + 40, 20, "raise: " + list_or_none(raise)},
                     {begin + 40, 13, "hold: " + list_or_none(hold)},
                     {begin + 40, 6, "collapse: " + list_or_none(out.collapsed)}};
  return out;
}

Outcome run(const Parameters& parameters, Progress& progress) {
  Outcome out;
  const std::vector<TrainingLog> logs = load_logs();
  GradientLog gradients;
  Recorded recorded;
  const std::string& folder = parameters.text("run");
  if (!folder.empty()) {
    const WatchedRun run(folder);
    const std::optional<ScaleLog> log = run.scale_log();
    if (!log)
      throw Error("run=" + quote(folder) + " has neither steps of a loss scaler nor gradients whose largest is known");
    out.data = file_text(run.folder()) + "; handwritten digits trained here";
    gradients = log->log;
    recorded = of_run(run, gradients);
    if (run.has_scaler() && !log->what.empty()) recorded.finding += " " + log->what;
    out.tables.push_back(recorded.table);
    out.notes.push_back("Overflow: " + OverflowModel(gradients).describe() + ".");
  } else if (const TrainingLog* log = find_log(logs, "fp16"); log != nullptr) {
    out.data =
        recorded_text("PyTorch's loss scaler in the training of a byte-level GPT; handwritten digits trained here");
    recorded = replay(logs);
    gradients = gradients_of(log->grad_amax, log->grad_amax.size());
    out.tables.push_back(recorded.table);
  } else {
    const float pieces[] = {0.01f, 0.02f, 0.03f};
    gradients.amax = model_amax(GradientModel::spikes, pieces, 1000, 1);
    for (std::int64_t i = 0; i < std::ssize(gradients.amax); ++i) gradients.steps.push_back(i);
    out.data = made_text;
    out.notes.push_back(no_recordings_note("the gradients are made: level, with spikes"));
  }
  const Live live = train_live(static_cast<std::uint64_t>(parameters.integer("steps")), progress);
  progress.at(0.99, "frameworks");
  const std::size_t from = std::min<std::size_t>(300, gradients.steps.size() / 2);
  const std::size_t length =
      std::min(static_cast<std::size_t>(parameters.integer("broken")), gradients.steps.size() - from);
  Broken broken = break_them(gradients, from, length);
  if (!folder.empty()) broken.table.note = "steps are counted in rows of the log";
  out.tables.push_back(live.table);
  out.tables.push_back(broken.table);
  Plot plot{"trajectories",
            "",
            "FP16 autocast of a byte-level GPT, growth interval 20; six frameworks with their defaults",
            {},
            2,
            0,
            ""};
  if (!recorded.scales.series.empty()) plot.panels = {recorded.scales};
  if (!recorded.losses.series.empty()) plot.panels.push_back(recorded.losses);
  if (!folder.empty()) plot.subtitle = out.data.text + "; six frameworks with their defaults";
  plot.panels.push_back(live.panel);
  plot.panels.push_back(broken.panel);
  const std::string collapse =
      std::to_string(length) + (length == 1 ? " step" : " steps") + " of NaN gradients " +
      (length == 1 ? "collapses " : "collapse ") +
      (broken.collapsed.empty() ? "no scale of the six frameworks" : "the scale of " + list_of(broken.collapsed)) +
      (broken.unknown.empty() ? "" : " as far as the log tells, which it does not for " + list_of(broken.unknown));
  plot.title = recorded.title;
  if (recorded.finding.empty())
    plot.title = collapse, plot.subtitle = "Made gradients; six frameworks with their defaults";
  out.plots = {plot};
  out.finding = recorded.finding.empty() ? collapse + "." : recorded.finding + "; " + collapse + ".";
  if (recorded.steps > 0)
    out.notes.push_back("Told which steps overflowed, narrow's rule gives " + count_text(recorded.equal) + " of the " +
                        count_text(recorded.steps) + " loss scales that PyTorch had.");
  return out;
}

const Register entered([]() -> Experiment {
  return {"loss_scaling",
          "How does a dynamic loss scale move, and what do bad starts and broken gradients do to it?",
          2,
          {run_parameter(), integer_parameter("steps", {150, 300, 1000}, 20, 100000, "steps of the live training"),
           integer_parameter("broken", 200, 1, 500, "steps of NaN gradients in the comparison of frameworks")},
          run};
});

}  // namespace
}  // namespace analysis::of_loss_scaling

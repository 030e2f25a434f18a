// What is left of real tensors in FP8 and FP4 under each way of choosing scales, and what do outliers do to it?
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "experiment.hpp"
#include "inputs.hpp"
#include "narrow/base/random.hpp"
#include "narrow/scale/block_format_statistics.hpp"
#include "narrow/scale/delayed_scaling.hpp"
#include "narrow/scale/quantise.hpp"

namespace analysis {
namespace {

using namespace narrow;
using enum PlotColour;

constexpr Format e4m3 = "e4m3"_fmt, e5m2 = "e5m2"_fmt;
constexpr Cast saturate{.overflow = Overflow::saturate};

// A block format by name; or a plain cast, with the scale that delayed scaling takes from the steps before, or with
// none.
struct Way {
  const char* name;
  const char* block;  // nullptr: plain cast
  Format element;     // of a plain cast
  bool is_delayed;
  PlotColour colour;  // in the panel of the outliers; automatic: not there
};
constexpr Way ways[] = {
    {"E4M3, no scale", nullptr, e4m3, false, automatic},
    {"E5M2, no scale", nullptr, e5m2, false, automatic},
    {"E4M3, tensor", "fp8_tensor_e4m3", {}, false, green},
    {"E5M2, tensor", "fp8_tensor_e5m2", {}, false, purple},
    {"E4M3 / E5M2, delayed", nullptr, e4m3, true, automatic},
    {"E4M3, row", "fp8_row_e4m3", {}, false, automatic},
    {"E4M3, 128x128", "fp8_128x128", {}, false, automatic},
    {"E4M3, 1x128", "fp8_1x128", {}, false, blue},
    {"MXFP8 (1x32)", "mxfp8_e4m3", {}, false, sky},
    {"MXFP6 (1x32)", "mxfp6_e2m3", {}, false, automatic},
    {"MXFP4 (1x32)", "mxfp4", {}, false, orange},
    {"NVFP4 (1x16)", "nvfp4", {}, false, vermilion},
};

struct Kind {
  const char* prefix;
  const char* name;
};
constexpr Kind kinds[] = {{"weight.", "weights"},
                          {"act.", "activations"},
                          {"grad.", "weight gradients"},
                          {"actgrad.", "activation gradients"}};

struct Input {
  std::string kind;  // of kinds, or "tensors" for a file of the user
  Values values;
  std::vector<double> amax_before;  // of the same tensor at earlier recorded steps
  bool is_gradient() const { return kind.find("gradient") != std::string::npos; }
};

std::vector<Input> recorded_inputs(const std::string& path) {
  const std::optional<Recording> recording = load_recording();
  std::vector<Input> inputs;
  for (Values& v : read_values_of(path)) {
    if (v.rows < 2 || v.name.ends_with(".q") || v.name.ends_with(".k")) continue;
    for (const Kind& kind : kinds) {
      if (!v.name.starts_with(kind.prefix)) continue;
      Input in{kind.name, v, {}};
      const std::string tensor = v.name.substr(std::string_view(kind.prefix).size());
      const std::string short_kind = std::string(kind.prefix).substr(0, std::string_view(kind.prefix).size() - 1);
      if (recording)
        for (const RecordedPass& p : recording->passes)
          if (p.step < 300 && p.label == "step " + std::to_string(p.step))
            for (const RecordedTensor& t : p.tensors)
              if (t.kind == short_kind && t.name == tensor) in.amax_before.push_back(t.amax);
      inputs.push_back(std::move(in));
    }
  }
  if (inputs.empty())
    throw Error(path + ": no tensor of two rows or more whose name begins with weight., act., grad. or actgrad.");
  return inputs;
}

std::vector<Input> made_inputs() {
  const auto plain = [](const char* kind, double deviation, std::uint64_t seed) {
    Input in{kind, {"made", 128, 256, normal_values(128 * 256, deviation, seed), 128}, {}};
    in.amax_before = {4 * deviation};
    return in;
  };
  Input weights = plain("weights", 0.02, 1), activations = plain("activations", 1, 2);
  Input grads{"weight gradients", made_gradients(128, 256, -13, 3), {0x1p-6}};
  Input act_grads{"activation gradients", made_gradients(128, 256, -19, 4), {0x1p-11}};
  return {weights, activations, grads, act_grads};
}

struct Left {
  double sqnr_db = 0, zero = 0, saturated = 0;  // shares of the non-zero values
};

Left shares(const FormatStatistics& s, const InputStatistics& input) {
  const auto nonzero = static_cast<double>(std::max<std::uint64_t>(input.finite() - input.zeros, 1));
  return {s.clipped_sqnr_db(), static_cast<double>(s.underflow) / nonzero, static_cast<double>(s.overflow) / nonzero};
}

// Delayed scaling at step 300 knows the amaxes of the steps before it, here those that were recorded.
double delayed_scale(const Input& in, double fp8_max) {
  const TeDelayedScaling policy{.fp8_max = fp8_max};
  DelayedState state = initial(policy);
  for (const double amax : in.amax_before) state = next(policy, std::move(state), {false, static_cast<float>(amax)});
  return static_cast<double>(scale(state));
}

Left evaluate(const Way& way, const Input& in) {
  const Values& v = in.values;
  if (way.block != nullptr) {
    const BlockFormatStatistics s = block_format_statistics(v.data, v.rows, v.cols, require_block_format(way.block));
    return shares(s.elements, s.input);
  }
  const Format element = way.is_delayed && in.is_gradient() ? e5m2 : way.element;
  const double scale = way.is_delayed ? delayed_scale(in, element == e5m2 ? 57344 : 448) : 1;
  const FormatCast to[] = {{element, saturate}};
  const Statistics s = statistics(std::span<const float>(v.data), to, scale);
  return shares(s.formats[0], s.input);
}

// ---- Outliers: a few elements are 2^k times larger; what happens to the others? ----

// The outliers themselves are large and always come out well: only the rest counts.
double sqnr_beside_outliers(const Way& way, const Values& v, double share, int outlier_log2, std::uint64_t seed) {
  std::vector<float> data = v.data;
  std::vector<bool> is_outlier(data.size());
  for (std::size_t i = 0; i < data.size(); ++i)
    if (uniform(seed, i) < share) is_outlier[i] = true, data[i] = std::ldexp(data[i], outlier_log2);
  const std::vector<float> back = dequantise(quantise(data, v.rows, v.cols, require_block_format(way.block)));
  double error = 0, signal = 0;
  for (std::size_t i = 0; i < data.size(); ++i) {
    if (is_outlier[i]) continue;
    const double x = static_cast<double>(data[i]), e = static_cast<double>(back[i]) - x;
    error += e * e, signal += x * x;
  }
  return 10 * std::log10(signal / error);
}

double mean_of(const std::vector<double>& v) {
  return std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size());
}

Outcome run(const Parameters& parameters, Progress& progress) {
  Outcome out;
  std::vector<Input> inputs;
  std::string what = "Tensors of a byte-level GPT at training step 300";
  const std::string& file = parameters.text("tensors");
  if (!file.empty()) {
    for (Values& v : read_values_of(file)) inputs.push_back({"tensors", std::move(v), {}});
    what = file.substr(file.find_last_of('/') + 1);
  } else if (const std::optional<std::string> path = find_data("torch/step300.safetensors"); path) {
    inputs = recorded_inputs(*path);
  } else {
    inputs = made_inputs();
    what = "Made tensors, not recorded ones";
    out.notes.push_back(no_recordings_note("the tensors are made of normal numbers"));
  }
  std::vector<std::string> present;
  for (const char* kind : {"weights", "activations", "weight gradients", "activation gradients", "tensors"})
    if (std::any_of(inputs.begin(), inputs.end(), [&](const Input& in) { return in.kind == kind; }))
      present.emplace_back(kind);

  Table by_tensor{
      "by_tensor",
      "What is left of each tensor under each way of scaling",
      {text_column("scaling"), text_column("kind"), text_column("tensor"), real_column("SQNR", "dB", 4),
       real_column("zero", "%", 3), real_column("beyond the range", "%", 3)},
      {},
      "zero and beyond the range: shares of the non-zero values; delayed: the scale of the largest value at the "
      "recorded steps before, E4M3 for weights and activations, E5M2 for gradients",
      {}};
  Table summary{"by_kind",
                "Signal to quantisation noise, mean over the tensors of a kind",
                {text_column("scaling"), fixed_column("bits", "", 2)},
                {},
                "bits: stored bits an element, scales of blocks included",
                {}};
  for (const std::string& kind : present) {
    summary.columns.push_back(fixed_column(kind, "dB", 1));
    summary.columns.push_back(real_column(kind + ", zero", "%", 3));
  }
  Panel map;
  map.title = "signal to quantisation noise";
  map.x.categories = present;
  map.cells = {"SQNR", "dB", false, 3};
  Series cells{"", Draw::cells, {}, {}, {}, {}, {}};
  std::vector<std::vector<Left>> means(std::size(ways), std::vector<Left>(present.size()));
  for (std::size_t w = 0; w < std::size(ways); ++w) {
    progress.at(0.4 * static_cast<double>(w) / std::size(ways), ways[w].name);
    const std::optional<BlockFormat> block = ways[w].block == nullptr ? std::nullopt : find_block_format(ways[w].block);
    std::vector<Cell> row = {std::string(ways[w].name), block ? block->bits_per_element() : 8.0};
    for (std::size_t k = 0; k < present.size(); ++k) {
      std::vector<double> db, zero;
      for (const Input& in : inputs) {
        if (in.kind != present[k]) continue;
        if (ways[w].is_delayed && in.amax_before.empty()) continue;  // nothing is known of earlier steps
        const Left left = evaluate(ways[w], in);
        by_tensor.add(
            {std::string(ways[w].name), in.kind, in.values.name, left.sqnr_db, 100 * left.zero, 100 * left.saturated});
        if (std::isfinite(left.sqnr_db)) db.push_back(left.sqnr_db);  // not the tensors that come out exactly
        zero.push_back(left.zero);
      }
      if (zero.empty()) {
        row.insert(row.end(), {Cell{}, Cell{}});
        continue;
      }
      means[w][k] = {db.empty() ? std::numeric_limits<double>::infinity() : mean_of(db), mean_of(zero), 0};
      row.insert(row.end(), {means[w][k].sqnr_db, 100 * means[w][k].zero});
      cells.x.push_back(static_cast<double>(k));
      cells.y.push_back(static_cast<double>(w));
      cells.value.push_back(means[w][k].sqnr_db);
    }
    summary.add(row);
    map.y.categories.emplace_back(ways[w].name);
  }
  map.series = {cells};

  // Outliers are put into the activations, where large models have them.
  const Input* activations = &inputs[0];
  for (const Input& in : inputs)
    if (in.kind == "activations" &&
        (activations->kind != "activations" || in.values.data.size() > activations->values.data.size()))
      activations = &in;
  const double share = parameters.real("outliers");
  const auto seed = static_cast<std::uint64_t>(parameters.integer("seed"));
  Table outliers{"outliers",
                 "Signal to quantisation noise of the other values when " + percent_text(share) + " of " +
                     activations->values.name + " are larger",
                 {power_column("outliers are larger by")},
                 {},
                 "",
                 {}};
  Panel lines;
  lines.title = "beside outliers, " + percent_text(share) + " of the values";
  lines.x = {"outliers are larger by", "", AxisScale::exponent_of_two, 0.0, 14.0, {}, {}};
  lines.y = {"SQNR of the other values", "dB", AxisScale::linear, 0.0, {}, {}, {}};
  std::vector<const Way*> shown;
  for (const Way& way : ways)
    if (way.colour != automatic) {
      shown.push_back(&way);
      outliers.columns.push_back(fixed_column(way.name, "dB", 1));
      lines.series.push_back({way.name, Draw::line, {}, {}, {}, {}, {}, way.colour});
    }
  std::vector<double> first(shown.size()), last(shown.size());
  for (int k = 0; k <= 14; ++k) {
    std::vector<Cell> row = {std::ldexp(1.0, k)};
    for (std::size_t i = 0; i < shown.size(); ++i) {
      last[i] = sqnr_beside_outliers(*shown[i], activations->values, share, k, seed);
      if (k == 0) first[i] = last[i];
      row.push_back(last[i]);
      lines.series[i].x.push_back(k), lines.series[i].y.push_back(last[i]);
    }
    outliers.add(row);
    progress.at(0.4 + 0.6 * k / 14, "outliers");
  }

  const std::size_t k = present.size() - 1;  // activation gradients, or the only kind
  Plot plot{"sqnr", "", what, {map, lines}, 2, 460, ""};
  plot.title = "Unscaled E4M3 zeroes " + percent_text(means[0][k].zero) + " of the " + present[k] +
               "; 1x128 scales give " + fixed_text(means[7][k].sqnr_db, 1) + " dB";
  out.plots = {plot};
  out.tables = {summary, outliers, by_tensor};
  out.finding = "Without a scale E4M3 turns " + percent_text(means[0][k].zero) + " of the " + present[k] +
                " into zero; one scale a tensor gives " + fixed_text(means[2][k].sqnr_db, 1) + " dB, MXFP8 " +
                fixed_text(means[8][k].sqnr_db, 1) + " dB, NVFP4 " + fixed_text(means[11][k].sqnr_db, 1) + " dB.";
  out.notes.push_back("Outliers 2^14 times larger cost the other values " + fixed_text(first[0] - last[0], 1) +
                      " dB under one E4M3 scale a tensor, " + fixed_text(first[3] - last[3], 1) +
                      " dB under MXFP8 and " + fixed_text(first[5] - last[5], 1) + " dB under NVFP4.");
  return out;
}

const Register entered({"fp8_scaling",
                        "What is left of real tensors in FP8 and FP4, by how their scales are chosen?",
                        7,
                        {file_parameter("tensors",
                                        "tensor file instead of the recorded weights, activations and gradients"),
                         real_parameter("outliers", 0.001, 0, 0.5, "share of the values that become outliers"),
                         integer_parameter("seed", 1, 0, 1e15, "seed of the places of the outliers")},
                        run});

}  // namespace
}  // namespace analysis

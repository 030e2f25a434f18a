// What is left of real tensors in FP8 and FP4 under each way of choosing scales, and what do outliers do to it?
#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/experiments/fp8_run.hpp"
#include "analysis/framework/experiment.hpp"
#include "analysis/framework/shares.hpp"
#include "analysis/framework/run_folders.hpp"
#include "analysis/recordings/inputs.hpp"
#include "narrow/base/random.hpp"
#include "narrow/scale/block_format.hpp"
#include "narrow/scale/delayed_scaling.hpp"
#include "narrow/scale/quantise.hpp"

namespace analysis::of_fp8_scaling {
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

struct Input {
  std::string kind;  // of kind_of_tensor, or "tensors" where the name does not tell
  Values values;     // finite: an Inf or NaN counts as zero, because it would spoil the scale of its whole block
  std::vector<double> amax_before;  // of the same tensor at earlier recorded steps
  bool is_gradient() const { return kind.find("gradient") != std::string::npos; }
};

// The amaxes of a tensor at the recorded steps before 300; its name is KIND.TENSOR.
std::vector<double> recorded_amaxes(const std::optional<Recording>& recording, const std::string& name) {
  const std::size_t dot = name.find('.');
  std::vector<double> found;
  if (!recording || dot == std::string::npos) return found;
  for (const RecordedPass& p : recording->passes)
    if (p.step < 300 && p.label == "step " + std::to_string(p.step))
      for (const RecordedTensor& t : p.tensors)
        if (t.kind == name.substr(0, dot) && t.name == name.substr(dot + 1)) found.push_back(t.amax);
  return found;
}

std::vector<Input> recorded_inputs(const std::string& path) {
  std::vector<Input> inputs;
  for (Values& v : read_values_of(path)) {
    const std::string kind = kind_of_tensor(v.name);
    if (v.rows >= 2 && !kind.empty() && kind != "attention") inputs.push_back({kind, std::move(v), {}});
  }
  if (inputs.empty())
    throw Error(path + ": no tensor of two rows or more whose name begins with weight., act., grad. or actgrad.");
  const std::optional<Recording> recording = load_recording();
  for (Input& in : inputs) in.amax_before = recorded_amaxes(recording, in.values.name);
  return inputs;
}

std::vector<Input> made_inputs() {
  const auto plain = [](const char* kind, double deviation, std::uint64_t seed) {
    return Input{kind, {"made", 128, 256, normal_values(128 * 256, deviation, seed)}, {4 * deviation}};
  };
  return {plain("weights", 0.02, 1),
          plain("activations", 1, 2),
          {"weight gradients", made_gradients(128, 256, -13, 3), {0x1p-6}},
          {"activation gradients", made_gradients(128, 256, -19, 4), {0x1p-11}}};
}

// Tensors without a value that is finite and not zero have nothing to lose: they are taken out and returned by name.
std::vector<std::string> clean(std::vector<Input>& inputs, NotFinite& not_finite) {
  std::vector<std::string> empty;
  for (Input& in : inputs) {
    not_finite.add(in.values);
    bool has_values = false;
    for (float& x : in.values.data) {
      if (!std::isfinite(x)) x = 0;
      has_values = has_values || x != 0;
    }
    if (!has_values) empty.push_back(in.values.name), in.values.data.clear();
  }
  std::erase_if(inputs, [](const Input& in) { return in.values.data.empty(); });
  return empty;
}

struct Left {
  double sqnr_db = 0, zero = 0, saturated = 0;  // zero, saturated: shares of the non-zero values
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

// At least one where any are asked for; nothing where none are, or where no other value that is not zero is left.
std::vector<bool> choose_outliers(const Values& v, double share, std::uint64_t seed) {
  if (share == 0) return {};
  std::vector<bool> is_outlier(v.data.size());
  for (std::size_t i = 0; i < v.data.size(); ++i) is_outlier[i] = uniform(seed, i) < share;
  const auto nonzero = [&](bool outliers) {
    for (std::size_t i = 0; i < v.data.size(); ++i)
      if (is_outlier[i] == outliers && v.data[i] != 0) return true;
    return false;
  };
  if (!nonzero(true))
    is_outlier[static_cast<std::size_t>(std::find_if(v.data.begin(), v.data.end(), [](float x) { return x != 0; }) -
                                        v.data.begin())] = true;
  return nonzero(false) ? is_outlier : std::vector<bool>{};
}

// The outliers themselves are large and always come out well: only the rest counts.
double sqnr_beside_outliers(const Way& way, const Values& v, const std::vector<bool>& is_outlier, int outlier_log2) {
  constexpr float most = std::numeric_limits<float>::max();
  std::vector<float> data = v.data;
  for (std::size_t i = 0; i < data.size(); ++i)
    if (is_outlier[i]) data[i] = std::clamp(std::ldexp(data[i], outlier_log2), -most, most);
  const std::vector<float> back = dequantise(quantise(data, v.rows, v.cols, require_block_format(way.block)));
  double error = 0, signal = 0;
  for (std::size_t i = 0; i < data.size(); ++i) {
    if (is_outlier[i]) continue;
    const double x = static_cast<double>(data[i]), e = static_cast<double>(back[i]) - x;
    error += e * e, signal += x * x;
  }
  return 10 * std::log10(signal / error);  // NaN where a value became Inf or NaN
}

struct OutlierStudy {
  Table table;
  Panel panel;
  std::string note;
};

// In the largest of the activations, where large models have them; in the largest tensor where there are none.
OutlierStudy study_outliers(const std::vector<Input>& inputs, double share, std::uint64_t seed, Progress& progress) {
  const Input* chosen = &inputs[0];
  for (const Input& in : inputs) {
    const bool here = in.kind == "activations", there = chosen->kind == "activations";
    if (here != there ? here : in.values.data.size() > chosen->values.data.size()) chosen = &in;
  }
  const std::vector<bool> is_outlier = choose_outliers(chosen->values, share, seed);
  if (is_outlier.empty())
    return {{}, {}, "No outliers were made: outliers=0, or " + chosen->values.name + " has too few values."};
  const double made = static_cast<double>(std::count(is_outlier.begin(), is_outlier.end(), true));
  const std::string part = percent_text(made / static_cast<double>(is_outlier.size()), 2);
  OutlierStudy out;
  out.table = {
      "outliers",
      "Signal to quantisation noise of the other values when " + part + " of " + chosen->values.name + " are larger",
      {power_column("outliers are larger by")},
      {},
      "a dash: no error, or undefined",
      {}};
  out.panel.title = "beside outliers, " + part + " of the values";
  out.panel.x = {"outliers are larger by", "", AxisScale::exponent_of_two, 0.0, 14.0, {}, {}};
  out.panel.y = {"SQNR of the other values", "dB", AxisScale::linear, 0.0, {}, {}, {}};
  std::vector<const Way*> shown;
  for (const Way& way : ways)
    if (way.colour != automatic) {
      shown.push_back(&way);
      out.table.columns.push_back(fixed_column(way.name, "dB", 1));
      out.panel.series.push_back({way.name, Draw::line, {}, {}, {}, {}, {}, way.colour});
    }
  std::vector<double> first(shown.size()), last(shown.size());
  for (int k = 0; k <= 14; ++k) {
    std::vector<Cell> row = {std::ldexp(1.0, k)};
    for (std::size_t i = 0; i < shown.size(); ++i) {
      last[i] = sqnr_beside_outliers(*shown[i], chosen->values, is_outlier, k);
      if (k == 0) first[i] = last[i];
      row.push_back(db_cell(last[i]));
      out.panel.series[i].x.push_back(k);
      out.panel.series[i].y.push_back(std::isfinite(last[i]) ? last[i] : std::nan(""));
    }
    out.table.add(row);
    progress.at(0.4 + 0.6 * k / 14, "outliers");
  }
  const auto change = [&](std::size_t i) { return "from " + db_text(first[i]) + " to " + db_text(last[i]); };
  out.note = "Outliers 2^14 times larger take the other values of " + chosen->values.name + " " + change(0) +
             " under one E4M3 scale a tensor, " + change(3) + " under MXFP8 and " + change(5) + " under NVFP4.";
  return out;
}

// ---- Means over the tensors of a kind ----

struct Means {
  double sqnr_db = std::nan(""), zero = std::nan(""), saturated = 0;  // NaN: undefined, or not tried
};

// Tensors without error have no finite ratio: the mean is of the others, and no error where there are none. One that
// is undefined makes the mean undefined.
Means means_of(const std::vector<Left>& tensors) {
  double db = 0, zero = 0, saturated = 0, counted = 0;
  for (const Left& left : tensors) {
    zero += left.zero, saturated += left.saturated;
    if (!std::isinf(left.sqnr_db)) db += left.sqnr_db, counted += 1;
  }
  if (tensors.empty()) return {};
  return {counted == 0 ? std::numeric_limits<double>::infinity() : db / counted,
          zero / static_cast<double>(tensors.size()), saturated / static_cast<double>(tensors.size())};
}

Outcome run(const Parameters& parameters, Progress& progress) {
  Outcome out;
  std::vector<Input> inputs;
  const std::string& file = parameters.text("tensors");
  if (file.empty() && !parameters.text("run").empty()) return fp8_of_run(parameters.text("run"));
  std::string unread;
  if (!file.empty()) {
    for (Values& v : read_values_of(file, "", &unread)) {
      const std::string kind = kind_of_tensor(v.name);
      inputs.push_back({kind.empty() ? "tensors" : kind, std::move(v), {}});
    }
    out.data = file_text(file);
  } else if (const std::optional<std::string> path = find_data("torch/step300.safetensors"); path) {
    inputs = recorded_inputs(*path);
    out.data = recorded_text("tensors of a byte-level GPT at training step 300");
  } else {
    inputs = made_inputs();
    out.data = made_text;
    out.notes.push_back(no_recordings_note("the tensors are made of normal numbers"));
  }
  NotFinite not_finite;
  const std::vector<std::string> empty = clean(inputs, not_finite);
  if (inputs.empty())
    throw Error((file.empty() ? "the recording" : file) +
                ": every value is zero, Inf or NaN; there is nothing to scale" +
                (not_finite.any() ? " (" + not_finite.text() + ")" : ""));
  std::vector<std::string> present;
  for (const char* kind :
       {"weights", "activations", "attention", "weight gradients", "gradients", "activation gradients", "tensors"})
    if (std::any_of(inputs.begin(), inputs.end(), [&](const Input& in) { return in.kind == kind; }))
      present.emplace_back(kind);

  Table by_tensor{
      "by_tensor",
      "What is left of each tensor under each way of scaling",
      {text_column("scaling"), text_column("kind"), text_column("tensor"), real_column("SQNR", "dB", 4),
       real_column("zero", "%", 3), real_column("beyond the range", "%", 3), text_column("remark")},
      {},
      "zero and beyond the range: shares of the non-zero values; delayed: the scale of the largest value at the "
      "recorded steps before, E4M3 for weights and activations, E5M2 for gradients",
      {}};
  Table summary{"by_kind",
                "Signal to quantisation noise, mean over the tensors of a kind",
                {text_column("scaling"), fixed_column("bits", "", 2)},
                {},
                "bits: stored bits an element, scales of blocks included; tensors that come out exactly have no ratio "
                "and are not in the mean",
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
  std::vector<std::vector<Means>> means(std::size(ways), std::vector<Means>(present.size()));
  for (std::size_t w = 0; w < std::size(ways); ++w) {
    progress.at(0.4 * static_cast<double>(w) / std::size(ways), ways[w].name);
    const std::optional<BlockFormat> block = ways[w].block == nullptr ? std::nullopt : find_block_format(ways[w].block);
    std::vector<Cell> row = {std::string(ways[w].name), block ? block->bits_per_element() : 8.0};
    for (std::size_t k = 0; k < present.size(); ++k) {
      std::vector<Left> tensors;
      for (const Input& in : inputs) {
        if (in.kind != present[k]) continue;
        if (ways[w].is_delayed && in.amax_before.empty()) continue;  // nothing is known of earlier steps
        tensors.push_back(evaluate(ways[w], in));
        const Left& left = tensors.back();
        by_tensor.add({std::string(ways[w].name), in.kind, in.values.name, db_cell(left.sqnr_db), 100 * left.zero,
                       100 * left.saturated, std::isfinite(left.sqnr_db) ? Cell{} : Cell{db_text(left.sqnr_db)}});
      }
      const Means m = means[w][k] = means_of(tensors);
      row.insert(row.end(), {db_cell(m.sqnr_db), db_cell(100 * m.zero)});
      if (!std::isfinite(m.sqnr_db)) {
        if (!tensors.empty())
          map.notes.push_back({static_cast<double>(k) - 0.42, static_cast<double>(w), db_text(m.sqnr_db), ink});
        continue;
      }
      cells.x.push_back(static_cast<double>(k));
      cells.y.push_back(static_cast<double>(w));
      cells.value.push_back(m.sqnr_db);
    }
    summary.add(row);
    map.y.categories.emplace_back(ways[w].name);
  }
  map.series = {cells};
  const OutlierStudy study = study_outliers(inputs, parameters.real("outliers"),
                                            static_cast<std::uint64_t>(parameters.integer("seed")), progress);

  const auto lost = [&](std::size_t kind) { return means[0][kind].zero + means[0][kind].saturated; };
  std::size_t k = 0;  // the kind that loses most without a scale
  for (std::size_t i = 0; i < present.size(); ++i)
    if (lost(i) >= lost(k)) k = i;
  const std::string clipped =
      means[0][k].saturated > 0 ? " and clips " + percent_text(means[0][k].saturated) + " at 448" : "";
  Plot plot{"sqnr", "", out.data.text, {map}, 1, 460, ""};
  plot.title = "Unscaled E4M3 zeroes " + percent_text(means[0][k].zero) + " of the " + present[k] + clipped +
               "; with 1x128 scales: " + db_text(means[7][k].sqnr_db);
  out.tables = {summary};
  if (!study.table.name.empty())
    plot.panels.push_back(study.panel), plot.columns = 2, out.tables.push_back(study.table);
  out.tables.push_back(by_tensor);
  out.finding = "Without a scale E4M3 turns " + percent_text(means[0][k].zero) + " of the " + present[k] +
                " into zero" + clipped + "; one scale a tensor: " + db_text(means[2][k].sqnr_db) +
                ", MXFP8: " + db_text(means[8][k].sqnr_db) + ", NVFP4: " + db_text(means[11][k].sqnr_db) +
                (not_finite.any() ? "; taken as zero: " + not_finite.text() + " in the data." : ".");
  if (not_finite.any()) plot.subtitle += "; " + not_finite.text() + " taken as zero";
  out.notes.push_back(study.note);
  if (const std::string large = file.empty() ? recorded_folder("bf16-amp") : ""; !large.empty())
    out.notes.push_back("A GPT of real size (run=bf16-amp): " + fp8_of_run(large).finding);
  if (!empty.empty()) out.notes.push_back("Left out, because every value is zero, Inf or NaN: " + list_of(empty) + ".");
  if (!unread.empty()) out.notes.push_back(unread);
  out.plots = {plot};
  return out;
}

const Register entered([]() -> Experiment {
  return {"fp8_scaling",
          "What is left of real tensors in FP8 and FP4, by how their scales are chosen?",
          7,
          {file_parameter("tensors", "tensor file instead of the recorded weights, activations and gradients"),
           run_parameter(),
           real_parameter("outliers", 0.001, 0, 0.5, "share of the values that become outliers"),
           integer_parameter("seed", 1, 0, 1e15, "seed of the places of the outliers")},
          run};
});

}  // namespace
}  // namespace analysis::of_fp8_scaling

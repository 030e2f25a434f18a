// Which split of the bits into exponent and mantissa, and which scale, leaves the most of a tensor?
#include <algorithm>
#include <cmath>

#include "experiment.hpp"
#include "inputs.hpp"
#include "narrow/array/statistics.hpp"
#include "narrow/format/find_format.hpp"

namespace analysis {
namespace {

using namespace narrow;

// Values of one kind that are to share a format and a scale.
struct Sample {
  std::string name;
  PlotColour colour;
  std::vector<float> values;
};

// All tensors of a kind, thinned evenly to at most `most` values. Zeros need no format: they are left out.
Sample sample_of(const std::string& name, PlotColour colour, const std::vector<Values>& tensors, std::size_t most) {
  std::size_t all = 0;
  for (const Values& v : tensors) all += v.data.size();
  const std::size_t stride = std::max<std::size_t>(1, all / most);
  Sample sample{name, colour, {}};
  std::size_t next = 0, begin = 0;
  for (const Values& v : tensors) {
    for (; next < begin + v.data.size(); next += stride)
      if (const float x = v.data[next - begin]; x != 0 && std::isfinite(x)) sample.values.push_back(x);
    begin += v.data.size();
  }
  return sample;
}

std::vector<Sample> recorded_samples(const std::string& path, std::size_t most) {
  struct Kind {
    const char* prefix;
    const char* name;
    PlotColour colour;
  };
  constexpr Kind kinds[] = {{"weight.", "weights", PlotColour::blue},
                            {"act.", "activations", PlotColour::green},
                            {"grad.", "weight gradients", PlotColour::orange},
                            {"actgrad.", "activation gradients", PlotColour::vermilion}};
  const std::vector<Values> all = read_values_of(path);
  std::vector<Sample> samples;
  for (const Kind& kind : kinds) {
    std::vector<Values> tensors;
    for (const Values& v : all)
      if (v.name.starts_with(kind.prefix)) tensors.push_back(v);
    Sample sample = sample_of(kind.name, kind.colour, tensors, most);
    if (!sample.values.empty()) samples.push_back(std::move(sample));
  }
  if (samples.empty())
    throw Error(path +
                ": no values other than zero, Inf and NaN in tensors whose names begin with weight., act., grad. " +
                "or actgrad.");
  return samples;
}

std::vector<Sample> made_samples(std::size_t most, std::uint64_t seed) {
  const std::size_t rows = std::max<std::size_t>(1, most / 256);
  return {sample_of("normal numbers", PlotColour::blue, {{"made", rows, 256, normal_values(rows * 256, 1, seed), rows}},
                    most),
          sample_of("made gradients", PlotColour::vermilion, {made_gradients(rows, 256, -16, seed + 1)}, most)};
}

struct Split {
  std::string name;  // as find_format takes it
  std::string shown;
  int bits, exponent_bits;
  Format format;
};

// Every split of the bits beside the sign. What the top codes mean follows custom: nothing special up to 6 bits, one
// NaN in 8, Inf and NaN in 16; splits for which that leaves no number have no special codes.
std::vector<Split> all_splits() {
  std::vector<Split> splits;
  for (const int bits : {4, 6, 8, 16})
    for (int e = 1; e <= std::min(8, bits - 1); ++e) {
      const int m = bits - 1 - e;
      const std::string shown = "e" + std::to_string(e) + "m" + std::to_string(m);
      const bool special = e >= 2 && m >= 1;
      const std::string name = shown + (bits <= 6 || !special ? "f" : bits == 8 ? "fn" : "");
      if (const std::optional<Format> f = find_format(name)) splits.push_back({name, shown, bits, e, *f});
    }
  return splits;
}

struct Choice {
  int scale_log2 = 0;
  double sqnr_db = -INFINITY;
  double zero = 0, clipped = 0;  // shares
};

// The power of two with the least squared error. The largest value is put `over` binades below (or, clipped, above) the
// largest binade of the format: with few codes it pays to clip a little.
Choice best_scale(const std::vector<float>& values, double amax, const Format& format) {
  constexpr Cast saturate{.overflow = Overflow::saturate};
  const FormatCast to[] = {{format, saturate}};
  Choice best;
  for (int over = -2; over <= 7; ++over) {
    // The scale and the scaled values are floats: formats as wide as FP32 have room enough below its end.
    const int k = std::clamp(std::min(format.max_exponent() + over, 126) - std::ilogb(amax), -126, 126);
    const double scale = std::ldexp(1.0, k);
    const Statistics s = statistics(std::span<const float>(values), to, scale);
    const auto count = static_cast<double>(s.input.count);
    const double sqnr = s.formats[0].clipped_sqnr_db();
    if (sqnr > best.sqnr_db)
      best = {k, sqnr, static_cast<double>(s.formats[0].underflow) / count,
              static_cast<double>(s.formats[0].overflow) / count};
  }
  return best;
}

Plot picture(const std::vector<Split>& splits, const std::vector<Sample>& samples,
             const std::vector<std::vector<Choice>>& choices) {
  Plot plot;
  plot.name = "splits";
  plot.columns = 2;
  for (const int bits : {4, 6, 8, 16}) {
    Panel panel;
    panel.title = std::to_string(bits) + " bits";
    panel.x.label = "split into exponent and mantissa";
    panel.y = {"signal to quantisation noise", "dB"};
    for (const Sample& s : samples)
      panel.series.push_back({.name = s.name, .draw = Draw::line_points, .colour = s.colour});
    for (std::size_t f = 0; f < splits.size(); ++f) {
      if (splits[f].bits != bits) continue;
      const auto place = static_cast<double>(panel.x.categories.size());
      panel.x.categories.push_back(splits[f].shown);
      for (std::size_t s = 0; s < samples.size(); ++s) {
        panel.series[s].x.push_back(place);
        panel.series[s].y.push_back(choices[s][f].sqnr_db);
      }
    }
    plot.panels.push_back(std::move(panel));
  }
  return plot;
}

// Index of the split of so many bits with the least error.
std::size_t best_split(const std::vector<Split>& splits, const std::vector<Choice>& choices, int bits) {
  std::size_t best = splits.size();
  for (std::size_t f = 0; f < splits.size(); ++f)
    if (splits[f].bits == bits && (best == splits.size() || choices[f].sqnr_db > choices[best].sqnr_db)) best = f;
  return best;
}

Outcome run(const Parameters& parameters, Progress& progress) {
  Outcome out;
  const auto most = static_cast<std::size_t>(parameters.integer("samples"));
  std::vector<Sample> samples;
  std::string source = "Tensors of a byte-level GPT at training step 300";
  if (const std::string& file = parameters.text("tensors"); !file.empty()) {
    samples = {sample_of("the file", PlotColour::blue, read_values_of(file), most)};
    source = file.substr(file.find_last_of('/') + 1);
    if (samples[0].values.empty())
      throw Error("tensors=" + file + ": every value is zero, Inf or NaN; there is nothing to choose for");
  } else if (const std::optional<std::string> path = find_data("torch/step300.safetensors")) {
    samples = recorded_samples(*path, most);
  } else {
    samples = made_samples(most, static_cast<std::uint64_t>(parameters.integer("seed")));
    source = "Made numbers";
    out.notes.push_back(no_recordings_note("normal numbers and made gradients"));
  }

  const std::vector<Split> splits = all_splits();
  Table table{"splits",
              "The best power-of-two scale of every split, and what is left",
              {integer_column("bits"), text_column("format"), text_column("values"), power_column("best scale"),
               fixed_column("SQNR", "dB", 2), real_column("become zero", "%", 3), real_column("clipped", "%", 3)},
              {},
              "One scale for all values of a row. SQNR: signal to quantisation noise; 6 dB are one bit of every value.",
              {}};
  Table best{"best",
             "The best split for each number of bits",
             {integer_column("bits"), text_column("values"), text_column("best format"), power_column("best scale"),
              fixed_column("SQNR", "dB", 2), text_column("second"), fixed_column("it costs", "dB", 2)},
             {},
             "",
             {}};
  std::vector<std::vector<Choice>> choices(samples.size());
  for (std::size_t s = 0; s < samples.size(); ++s) {
    double amax = 0;
    for (const float x : samples[s].values) amax = std::max(amax, std::fabs(static_cast<double>(x)));
    for (const Split& split : splits) {
      progress.at(
          (static_cast<double>(s) + static_cast<double>(choices[s].size()) / static_cast<double>(splits.size())) /
              static_cast<double>(samples.size()),
          samples[s].name);
      choices[s].push_back(best_scale(samples[s].values, amax, split.format));
      const Choice& c = choices[s].back();
      table.add({std::int64_t{split.bits}, split.shown, samples[s].name, std::ldexp(1.0, c.scale_log2), c.sqnr_db,
                 100 * c.zero, 100 * c.clipped});
    }
  }
  for (const int bits : {4, 6, 8, 16})
    for (std::size_t s = 0; s < samples.size(); ++s) {
      const std::size_t first = best_split(splits, choices[s], bits);
      std::vector<Choice> others = choices[s];
      others[first].sqnr_db = -INFINITY;
      const std::size_t second = best_split(splits, others, bits);
      best.add({std::int64_t{bits}, samples[s].name, splits[first].shown, std::ldexp(1.0, choices[s][first].scale_log2),
                choices[s][first].sqnr_db, splits[second].shown,
                choices[s][first].sqnr_db - choices[s][second].sqnr_db});
    }

  Plot plot = picture(splits, samples, choices);
  const std::size_t last = samples.size() - 1;
  const std::size_t easy = best_split(splits, choices[0], 8), hard = best_split(splits, choices[last], 8);
  std::string titled = "In 8 bits " + samples[0].name + " want " + splits[easy].shown;
  if (last > 0) titled += ", " + samples[last].name + " " + splits[hard].shown;
  plot.title = titled;
  plot.subtitle = source + ", each split with its best power-of-two scale for the whole kind";
  const auto place_of = [&](const char* name) {
    return static_cast<std::size_t>(
        std::find_if(splits.begin(), splits.end(), [&](const Split& s) { return s.shown == name; }) - splits.begin());
  };
  const std::size_t e4m3 = place_of("e4m3"), e5m2 = place_of("e5m2");
  const double lead = choices[last][e4m3].sqnr_db - choices[last][e5m2].sqnr_db;
  out.finding = titled + " (" + fixed_text(choices[0][easy].sqnr_db, 1) + " dB" +
                (last > 0 ? " and " + fixed_text(choices[last][hard].sqnr_db, 1) + " dB" : "") + "); E4M3 gives " +
                fixed_text(choices[0][e4m3].sqnr_db, 1) + " dB" +
                (last > 0 ? " and " + fixed_text(choices[last][e4m3].sqnr_db, 1) + " dB" : "") + ", E5M2 " +
                fixed_text(std::fabs(lead), 1) + (lead < 0 ? " dB more" : " dB less") +
                (last > 0 ? " on the gradients" : "") + ".";
  out.plots = {std::move(plot)};
  out.tables = {std::move(best), std::move(table)};
  return out;
}

const Register entered({"format_choice",
                        "How should 4, 6, 8 or 16 bits be split into exponent and mantissa?",
                        12,
                        {file_parameter("tensors", "tensor file (or FILE:TENSOR) to choose a format for"),
                         integer_parameter("samples", {32768, 262144, 4194304}, 16, 1e9, "most values of each kind"),
                         integer_parameter("seed", 1, 0, 1e15, "seed of made numbers")},
                        run});

}  // namespace
}  // namespace analysis

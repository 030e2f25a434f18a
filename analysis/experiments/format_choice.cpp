// Which split of the bits into exponent and mantissa, and which scale, leaves the most of a tensor?
#include <algorithm>
#include <cmath>
#include <map>

#include "analysis/framework/experiment.hpp"
#include "analysis/framework/shares.hpp"
#include "analysis/recordings/gradients.hpp"
#include "analysis/recordings/inputs.hpp"
#include "narrow/array/statistics.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/round/round_to.hpp"
#include "narrow/text/quote.hpp"

namespace analysis::of_format_choice {
namespace {

using namespace narrow;

// Values that are to share a format and a scale.
struct Sample {
  std::string name;
  std::vector<float> values = {};    // finite and not zero
  std::vector<double> weights = {};  // for how many each of them stands; empty: for itself
  double amax = 0;
  std::uint64_t count = 0, looked_at = 0;  // of all values, zeros and what is not finite included
  NotFinite not_finite = {};
};

// The tensors of a group, thinned evenly to at most `most` values; the largest is always among them, because it decides
// the scale. Zeros need no format: they are left out.
Sample sample_of(const std::string& name, const std::vector<const Values*>& tensors, std::size_t most) {
  Sample sample{name};
  for (const Values* v : tensors) sample.count += v->data.size(), sample.not_finite.add(*v);
  const std::size_t stride = std::max<std::size_t>(1, sample.count / most);
  std::size_t next = 0, begin = 0;
  float largest = 0, largest_seen = 0;
  for (const Values* v : tensors) {
    for (const float x : v->data)
      if (std::isfinite(x) && std::fabs(x) > std::fabs(largest)) largest = x;
    for (; next < begin + v->data.size(); next += stride, ++sample.looked_at)
      if (const float x = v->data[next - begin]; x != 0 && std::isfinite(x)) {
        sample.values.push_back(x);
        if (std::fabs(x) > std::fabs(largest_seen)) largest_seen = x;
      }
    begin += v->data.size();
  }
  if (largest != largest_seen) sample.values.push_back(largest), ++sample.looked_at;
  sample.amax = std::fabs(static_cast<double>(largest));
  return sample;
}

// One format for all of a file says little: attention scores drown gradients. A tensor whose name does not tell its
// kind stands for itself.
std::vector<Sample> samples_of(const std::vector<Values>& all, const std::string& by, std::size_t most) {
  std::vector<std::string> names = {"weights",   "activations",         "attention", "weight gradients",
                                    "gradients", "activation gradients"};  // in this order, then the others
  std::map<std::string, std::vector<const Values*>> groups;
  for (const Values& v : all) {
    const std::string kind = by == "all" ? "all tensors" : by == "kind" ? kind_of_tensor(v.name) : "";
    const std::string group = kind.empty() ? v.name : kind;
    if (std::find(names.begin(), names.end(), group) == names.end()) names.push_back(group);
    groups[group].push_back(&v);
  }
  std::vector<Sample> samples;
  for (const std::string& name : names)
    if (const auto group = groups.find(name); group != groups.end())
      samples.push_back(sample_of(name, group->second, most));
  return samples;
}

// Of a histogram no more is known than its binades: the values of each are taken as evenly spread, and some of them
// stand for all. The few largest have most of the energy, so that a sample without weights would be wrong.
Sample sample_of(const std::string& name, const ExponentHistogram& h, double amax) {
  constexpr int points = 256;                     // of a binade
  constexpr double golden = 0x1.3c6ef372fe95p-1;  // its multiples are spread evenly, and on no format's grid
  Sample sample{name};
  sample.count = sample.looked_at = h.count();
  sample.not_finite.nan = h.nan.total(), sample.not_finite.inf = h.inf.total();
  sample.amax = amax;
  for (int e = ExponentHistogram::min_exponent; e <= ExponentHistogram::max_exponent; ++e) {
    const auto n = static_cast<double>(h.binade(e).total());
    for (int i = 0; i < points && n > 0; ++i) {
      sample.values.push_back(
          static_cast<float>(std::min(amax, std::ldexp(1 + std::fmod((i + 0.5) * golden, 1.0), e))));
      sample.weights.push_back(n / points);
    }
  }
  return sample;
}

std::vector<Sample> samples_of_run(const std::string& folder, const std::string& by, std::string& step,
                                   bool& is_bounded) {
  constexpr const char* names[] = {"weight gradients", "activation gradients", "activations", "weights", "updates",
                                   "attention"};
  LastStep last;
  WatchedRun(folder).for_each_tensor([&](const WatchedTensor& t) { last.add(t); });
  std::vector<std::string> order;
  std::map<std::string, std::pair<ExponentHistogram, double>> groups;
  for (const WatchedTensor& t : last.tensors()) {
    const auto role = static_cast<std::size_t>(std::find(std::begin(watched_roles), std::end(watched_roles), t.role) -
                                               std::begin(watched_roles));
    const std::string name = by == "all" ? "all tensors" : by == "kind" ? names[role] : t.series();
    if (!groups.contains(name)) order.push_back(name);
    auto& [h, amax] = groups[name];
    h.merge(t.histogram());
    amax = std::max(amax, t.amax);
    is_bounded = is_bounded || !t.has_extremes;
    step = std::to_string(t.step);
  }
  std::vector<Sample> samples;
  for (const std::string& name : order) samples.push_back(sample_of(name, groups[name].first, groups[name].second));
  return samples;
}

std::vector<Values> made_values(std::size_t most, std::uint64_t seed) {
  const std::size_t rows = std::max<std::size_t>(1, most / 256);
  Values gradients = made_gradients(rows, 256, -16, seed + 1);
  gradients.name = "made gradients";
  return {{"normal numbers", rows, 256, normal_values(rows * 256, 1, seed)}, gradients};
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
  double sqnr_db = std::nan("");
  double zero = 0, clipped = 0;  // shares
};

Choice with_scale(const Sample& sample, const Format& format, int scale_log2) {
  constexpr Cast saturate{.overflow = Overflow::saturate};
  if (sample.weights.empty()) {
    const FormatCast to[] = {{format, saturate}};
    const Statistics s = statistics(std::span<const float>(sample.values), to, std::ldexp(1.0, scale_log2));
    const auto count = static_cast<double>(s.input.count);
    return {scale_log2, s.formats[0].clipped_sqnr_db(), static_cast<double>(s.formats[0].underflow) / count,
            static_cast<double>(s.formats[0].overflow) / count};
  }
  const double largest = decode(format.max_magnitude(), format);
  double signal = 0, error = 0, zero = 0, clipped = 0, all = 0;
  for (std::size_t i = 0; i < sample.values.size(); ++i) {
    const double x = std::ldexp(static_cast<double>(sample.values[i]), scale_log2), y = round_to(x, format, saturate),
                 w = sample.weights[i];
    signal += w * x * x, error += w * (y - x) * (y - x), all += w;
    zero += y == 0 ? w : 0, clipped += x > largest ? w : 0;
  }
  return {scale_log2, error == 0 ? HUGE_VAL : 10 * std::log10(signal / error), zero / all, clipped / all};
}

// The power of two with the least squared error. The largest value is put `over` binades below (or, clipped, above) the
// largest binade of the format: with few codes it pays to clip a little.
Choice best_scale(const Sample& sample, const Format& format) {
  Choice best;
  for (int over = -2; over <= 7; ++over) {
    // The scale and the scaled values are floats: formats as wide as FP32 have room enough below its end.
    const int k = std::clamp(std::min(format.max_exponent() + over, 126) - std::ilogb(sample.amax), -126, 126);
    if (const Choice c = with_scale(sample, format, k); is_better(c.sqnr_db, best.sqnr_db)) best = c;
  }
  return best;
}

constexpr PlotColour colours[] = {PlotColour::blue,      PlotColour::green,  PlotColour::sky,
                                  PlotColour::vermilion, PlotColour::orange, PlotColour::purple};

Plot picture(const std::vector<Split>& splits, const std::vector<Sample>& samples,
             const std::vector<std::vector<Choice>>& choices) {
  Plot plot;
  plot.name = "splits";
  plot.columns = 2;
  const std::size_t shown = std::min(samples.size(), std::size(colours));
  for (const int bits : {4, 6, 8, 16}) {
    Panel panel;
    panel.title = std::to_string(bits) + " bits";
    panel.x.label = "split into exponent and mantissa";
    panel.y = {"signal to quantisation noise", "dB"};
    for (std::size_t s = 0; s < shown; ++s)
      panel.series.push_back({.name = samples[s].name, .draw = Draw::line_points, .colour = colours[s]});
    for (std::size_t f = 0; f < splits.size(); ++f) {
      if (splits[f].bits != bits) continue;
      const auto place = static_cast<double>(panel.x.categories.size());
      panel.x.categories.push_back(splits[f].shown);
      for (std::size_t s = 0; s < shown; ++s) {
        panel.series[s].x.push_back(place);  // no point where there is no error, or none is defined
        panel.series[s].y.push_back(std::isfinite(choices[s][f].sqnr_db) ? choices[s][f].sqnr_db : std::nan(""));
      }
    }
    plot.panels.push_back(std::move(panel));
  }
  return plot;
}

// Index of the split of so many bits with the least error, `but` left out.
std::size_t best_split(const std::vector<Split>& splits, const std::vector<Choice>& choices, int bits,
                       std::size_t but = ~std::size_t{0}) {
  std::size_t best = splits.size();
  for (std::size_t f = 0; f < splits.size(); ++f)
    if (splits[f].bits == bits && f != but &&
        (best == splits.size() || is_better(choices[f].sqnr_db, choices[best].sqnr_db)))
      best = f;
  return best;
}

// The least squared error is that of the large values. Normal numbers lose 1 to 2 % to zero in their best split: a
// choice that loses more than 5 %, or clips more than one in a thousand, says so.
constexpr double too_many_zero = 0.05, too_many_clipped = 0.001;

std::string warning_of(const Choice& c) {
  std::string text;
  if (c.zero > too_many_zero) text += "zeroes " + percent_text(c.zero);
  if (c.clipped > too_many_clipped) text += (text.empty() ? "" : " and ") + ("clips " + percent_text(c.clipped));
  return text;
}

// What the samples want in 8 bits: each by name, or counted where they are many.
struct Wanted {
  std::string title, finding;
};
Wanted wanted(const std::vector<Split>& splits, const std::vector<Sample>& samples,
              const std::vector<std::vector<Choice>>& choices) {
  constexpr std::size_t few = 6;
  const auto place_of = [&](const char* name) {
    return static_cast<std::size_t>(
        std::find_if(splits.begin(), splits.end(), [&](const Split& s) { return s.shown == name; }) - splits.begin());
  };
  const std::size_t e4m3 = place_of("e4m3"), e5m2 = place_of("e5m2");
  std::vector<std::string> each, warned, first_better, second_better;
  std::map<std::string, std::vector<std::string>> wanting;  // names by format
  std::size_t worst = 0;
  for (std::size_t s = 0; s < samples.size(); ++s) {
    const std::size_t f = best_split(splits, choices[s], 8);
    const Choice& c = choices[s][f];
    const std::string warning = warning_of(c), name = samples[s].name;
    each.push_back(splits[f].shown + (each.empty() ? " is best for " : " for ") + name + " (" + db_text(c.sqnr_db) +
                   (warning.empty() ? "" : ", but it " + warning) + ")");
    if (!warning.empty()) warned.push_back(name + ": " + warning);
    wanting[splits[f].shown].push_back(name);
    if (is_better(choices[worst][best_split(splits, choices[worst], 8)].sqnr_db, c.sqnr_db)) worst = s;
    if (is_better(choices[s][e4m3].sqnr_db, choices[s][e5m2].sqnr_db)) first_better.push_back(name);
    if (is_better(choices[s][e5m2].sqnr_db, choices[s][e4m3].sqnr_db)) second_better.push_back(name);
  }
  if (samples.size() <= few) {
    std::string lead;
    if (!first_better.empty()) lead += "E4M3 is better for " + list_of(first_better);
    if (!second_better.empty()) lead += (lead.empty() ? "E5M2 is better for " : ", E5M2 for ") + list_of(second_better);
    std::string title;
    for (const auto& [format, names] : wanting)
      title += (title.empty() ? "In 8 bits " + format + " is best for " : ", " + format + " for ") + list_of(names);
    return {title, "In 8 bits " + list_of(each) + (lead.empty() ? "" : "; of the two FP8 formats " + lead)};
  }
  std::vector<std::string> counts;
  for (const auto& [format, names] : wanting) counts.push_back(format + " for " + std::to_string(names.size()));
  const std::size_t f = best_split(splits, choices[worst], 8);
  const std::string title = "In 8 bits, of " + std::to_string(samples.size()) + " groups, best are " + list_of(counts);
  return {title, title + "; the worst off, " + samples[worst].name + ", has " + db_text(choices[worst][f].sqnr_db) +
                     " in " + splits[f].shown +
                     (warned.empty() ? ""
                                     : "; " + std::to_string(warned.size()) +
                                           " choices lose more than they should, the first " + warned[0])};
}

Outcome run(const Parameters& parameters, Progress& progress) {
  Outcome out;
  const auto most = static_cast<std::size_t>(parameters.integer("samples"));
  const std::string &file = parameters.text("tensors"), &folder = parameters.text("run"), &by = parameters.text("by");
  std::vector<Values> values;
  std::vector<Sample> samples;
  std::string unread;
  if (!file.empty()) {
    values = read_values_of(file, "", &unread);
    out.data = file_text(file);
  } else if (!folder.empty()) {
    std::string step;
    bool is_bounded = false;
    samples = samples_of_run(folder, by, step, is_bounded);
    if (samples.empty()) throw Error("run=" + quote(folder) + ": no tensors were watched");
    out.data = file_text(folder) + " at step " + step;
    out.notes.push_back("Of the values no more is known than their binades: in each they are taken as evenly spread.");
    if (is_bounded) out.notes.push_back(bounded_note);
  } else if (const std::optional<std::string> path = find_data("torch/step300.safetensors")) {
    values = read_values_of(*path);
    out.data = recorded_text("tensors of a byte-level GPT at training step 300");
  } else {
    values = made_values(most, static_cast<std::uint64_t>(parameters.integer("seed")));
    out.data = made_text;
    out.notes.push_back(no_recordings_note("normal numbers and made gradients"));
  }
  if (samples.empty()) samples = samples_of(values, by, most);
  values.clear();
  NotFinite not_finite;
  std::vector<std::string> empty;
  bool thinned = false;
  for (const Sample& s : samples) {
    not_finite.add(s.not_finite);
    thinned = thinned || s.looked_at < s.count;
    if (s.values.empty()) empty.push_back(s.name);
  }
  std::erase_if(samples, [](const Sample& s) { return s.values.empty(); });
  if (samples.empty())
    throw Error((!file.empty()    ? "tensors=" + file
                 : folder.empty() ? "the recording"
                                  : "run=" + quote(folder)) +
                ": every value is zero, Inf or NaN; there is nothing to choose for");

  const std::vector<Split> splits = all_splits();
  Table table{"splits",
              "The best power-of-two scale of every split, and what is left",
              {integer_column("bits"), text_column("format"), text_column("values"), power_column("best scale"),
               fixed_column("SQNR", "dB", 2), real_column("become zero", "%", 3), real_column("clipped", "%", 3)},
              {},
              "One scale for all values of a row. SQNR: signal to quantisation noise; 6 dB are one bit of every value; "
              "a dash where every value comes out exactly, or where it is undefined.",
              {}};
  Table best{
      "best",
      "The best split for each number of bits",
      {integer_column("bits"), text_column("values"), text_column("best format"), power_column("best scale"),
       fixed_column("SQNR", "dB", 2), text_column("second"), fixed_column("it costs", "dB", 2),
       real_column("become zero", "%", 3), real_column("clipped", "%", 3), text_column("remark")},
      {},
      "become zero, clipped: shares of the values that are finite and not zero; remark: a choice that zeroes more "
      "than 5 % or clips more than 0.1 % of them",
      {}};
  std::vector<std::vector<Choice>> choices(samples.size());
  for (std::size_t s = 0; s < samples.size(); ++s)
    for (const Split& split : splits) {
      progress.at(
          (static_cast<double>(s) + static_cast<double>(choices[s].size()) / static_cast<double>(splits.size())) /
              static_cast<double>(samples.size()),
          samples[s].name);
      choices[s].push_back(best_scale(samples[s], split.format));
      const Choice& c = choices[s].back();
      table.add({std::int64_t{split.bits}, split.shown, samples[s].name, std::ldexp(1.0, c.scale_log2),
                 db_cell(c.sqnr_db), 100 * c.zero, 100 * c.clipped});
    }
  for (const int bits : {4, 6, 8, 16})
    for (std::size_t s = 0; s < samples.size(); ++s) {
      const std::size_t first = best_split(splits, choices[s], bits);
      const std::size_t second = best_split(splits, choices[s], bits, first);
      const Choice& c = choices[s][first];
      std::string remark = warning_of(c);
      if (!std::isfinite(c.sqnr_db)) remark = db_text(c.sqnr_db) + (remark.empty() ? "" : "; " + remark);
      best.add({std::int64_t{bits}, samples[s].name, splits[first].shown, std::ldexp(1.0, c.scale_log2),
                db_cell(c.sqnr_db), splits[second].shown, db_cell(c.sqnr_db - choices[s][second].sqnr_db), 100 * c.zero,
                100 * c.clipped, remark.empty() ? Cell{} : Cell{remark}});
    }

  const Wanted found = wanted(splits, samples, choices);
  Plot plot = picture(splits, samples, choices);
  plot.title = found.title;
  plot.subtitle = out.data.text + ", each split with its best power-of-two scale by " + (by == "all" ? "file" : by);
  const auto exact = [](const std::vector<Choice>& own) {
    return std::any_of(own.begin(), own.end(), [](const Choice& c) { return std::isinf(c.sqnr_db); });
  };
  if (std::any_of(choices.begin(), choices.end(), exact)) plot.subtitle += "; no point: no error";
  if (samples.size() > std::size(colours))
    plot.subtitle += "; the first " + std::to_string(std::size(colours)) + " of " + std::to_string(samples.size());
  out.finding = found.finding + (not_finite.any() ? "; left out: " + not_finite.text() + " in the data." : ".");
  if (!empty.empty())
    out.notes.push_back("Nothing is chosen for " + list_of(empty) + ": every value there is zero, Inf or NaN.");
  if (thinned)
    out.notes.push_back("Shares and errors are of a sample of every group (samples=); its largest is in it.");
  if (!unread.empty()) out.notes.push_back(unread);
  out.plots = {std::move(plot)};
  out.tables = {std::move(best), std::move(table)};
  return out;
}

const Register entered([]() -> Experiment {
  return {"format_choice",
          "How should 4, 6, 8 or 16 bits be split into exponent and mantissa?",
          12,
          {file_parameter("tensors", "tensor file (or FILE:TENSOR) to choose a format for"),
           choice_parameter("by", {"kind", "tensor", "all"},
                            "what shares a format: tensors of a kind (weights, gradients, ... by their "
                            "names), each tensor, or all of them"),
           integer_parameter("samples", {32768, 262144, 4194304}, 16, 1e9, "most values of each group"),
           integer_parameter("seed", 1, 0, 1e15, "seed of made numbers"), run_parameter()},
          run};
});

}  // namespace
}  // namespace analysis::of_format_choice

// Which gradients does FP16 lose, in which tensors, when in training, and what does a loss scale give back?
#include <algorithm>
#include <cmath>

#include "analysis/framework/experiment.hpp"
#include "analysis/recordings/gradients.hpp"
#include "narrow/format/find_format.hpp"

namespace analysis::of_gradient_underflow {
namespace {

using namespace narrow;
using enum PlotColour;

constexpr NamedFormat formats[] = {
    {"FP16", "fp16"_fmt}, {"BF16", "bf16"_fmt}, {"E5M2", "e5m2"_fmt}, {"E4M3", "e4m3"_fmt}};
constexpr Format fp16 = "fp16"_fmt;

// Every format and scale that the tables and the finding need, counted in one pass.
class Counts {
 public:
  Counts(const Gradients& g, int best) : first_(std::min(0, best)), last_(std::max(24, best)) {
    for (const NamedFormat& f : formats) asked_.push_back({{f.format}, 0});
    for (int k = first_; k <= last_; ++k) asked_.push_back({{fp16}, k});
    rows_ = shares_of(g, asked_);
  }
  int first() const { return first_; }  // log2 of the loss scales
  int last() const { return last_; }
  const FormatShares& plain(std::size_t tensor, std::size_t format) const { return rows_[tensor][format]; }
  const FormatShares& scaled(std::size_t tensor, int log2) const {
    return rows_[tensor][std::size(formats) + static_cast<std::size_t>(log2 - first_)];
  }
  std::size_t all() const { return rows_.size() - 1; }

 private:
  int first_, last_;
  std::vector<ScaledFormat> asked_;
  std::vector<std::vector<FormatShares>> rows_;
};

Cell cell_of(double x) { return std::isnan(x) ? Cell{} : Cell{x}; }

Table by_tensor(const Gradients& g, const Counts& counts, int best) {
  Table t{"by_tensor",
          "What each format makes of each gradient, in shares of the values that are finite and not zero; mean binade: "
          "of those "
          "that are normal in FP32",
          {text_column("tensor"), text_column("kind"), integer_column("non-zero"), real_column("largest", "", 3),
           fixed_column("mean binade", "log2", 1), real_column("FP16 zero", "%", 3),
           real_column("FP16 subnormal", "%", 3), real_column("FP16 zero at 2^" + std::to_string(best), "%", 3),
           real_column("E5M2 zero", "%", 3), real_column("E4M3 zero", "%", 3), real_column("BF16 zero", "%", 3),
           integer_column("NaN"), integer_column("Inf")},
          {},
          "",
          {}};
  const auto row = [&](const std::string& name, const std::string& kind, const ExponentHistogram& h, double amax,
                       std::size_t place) {
    const bool has_values = nonzero_count(h) > 0;
    const auto share = [&](double part) { return has_values ? Cell{100 * part} : Cell{}; };
    t.add({name, kind, static_cast<std::int64_t>(nonzero_count(h)), has_values ? Cell{amax} : Cell{},
           cell_of(mean_binade(h)), share(counts.plain(place, 0).zero), share(counts.plain(place, 0).subnormal),
           share(counts.scaled(place, best).zero), share(counts.plain(place, 2).zero),
           share(counts.plain(place, 3).zero), share(counts.plain(place, 1).zero),
           static_cast<std::int64_t>(h.nan.total()), static_cast<std::int64_t>(h.inf.total())});
  };
  row("all", "all", g.all, g.amax, counts.all());
  for (std::size_t i = 0; i < g.tensors.size(); ++i)
    row(g.tensors[i].name, g.tensors[i].kind == "actgrad" ? "activation" : "weight", g.tensors[i].histogram,
        g.tensors[i].amax, i);
  return t;
}

Plot histogram_plot(const Gradients& g, const Counts& counts, const std::string& title) {
  Panel p = binades_panel(g.all, formats);
  p.x.label = "gradient magnitude";
  p.legend = Legend::top_left;
  const double e5m2 = counts.plain(counts.all(), 2).zero, e4m3 = counts.plain(counts.all(), 3).zero;
  const std::string left_out = g.not_finite.any() ? "; without " + g.not_finite.text() : "";
  return {"histogram",
          title,
          g.what + left_out + "; E5M2 would zero " + percent_text(e5m2) + ", E4M3 " + percent_text(e4m3),
          {p},
          1,
          0,
          ""};
}

// ---- Against the loss scale ----

Table by_scale(const Gradients& g, const Counts& counts) {
  Table t{"by_scale",
          "FP16 against the loss scale",
          {power_column("loss scale"), real_column("zero", "%", 3), real_column("subnormal", "%", 3),
           fixed_column("headroom", "bits", 1)},
          {},
          "headroom: log2(65520 / largest scaled gradient); at 0 and below the step overflows and is skipped",
          {}};
  for (int k = counts.first(); k <= counts.last(); ++k) {
    const FormatShares& s = counts.scaled(counts.all(), k);
    t.add({std::ldexp(1.0, k), 100 * s.zero, 100 * s.subnormal, std::log2(fp16_overflows_from / g.amax) - k});
  }
  if (g.not_finite.any())
    t.note += "; the data also has " + g.not_finite.text() +
              (g.scaled_by.empty() ? ": such a step is always skipped" : ": such a step is skipped");
  return t;
}

Panel scale_panel(const Gradients& g, const Counts& counts) {
  Panel p;
  p.title = "loss scale";
  p.x = {"loss scale",
         "",
         AxisScale::exponent_of_two,
         static_cast<double>(counts.first()),
         static_cast<double>(counts.last()),
         {},
         {}};
  p.y = {"share of the gradients", "%", AxisScale::linear, 0.0, 100.0, {}, {}};
  Series zero{"zero in FP16", Draw::line, {}, {}, {}, {}, {}, vermilion};
  Series subnormal{"subnormal in FP16", Draw::line, {}, {}, {}, {}, {}, orange};
  for (int k = counts.first(); k <= counts.last(); ++k) {
    const FormatShares& s = counts.scaled(counts.all(), k);
    for (Series* one : {&zero, &subnormal}) one->x.push_back(k);
    zero.y.push_back(100 * s.zero);
    subnormal.y.push_back(100 * s.subnormal);
  }
  p.series = {zero, subnormal};
  if (const int last = largest_scale_log2(g.amax); last >= counts.first() && last <= counts.last())
    p.marks = {{Along::x, static_cast<double>(last), "above: overflow", grey}};
  return p;
}

// ---- Against the tokens of a batch: gradients of a mean loss with respect to activations are 1/tokens as large ----

Table by_tokens(const std::vector<TokenRow>& rows) {
  Table t{"by_tokens",
          "Activation gradients in FP16 without a loss scale, against the tokens of a batch",
          {integer_column("tokens"), fixed_column("predicted shift", "binades", 0),
           fixed_column("recorded shift", "binades", 2), real_column("predicted zero", "%", 3),
           real_column("recorded zero", "%", 3), real_column("predicted subnormal", "%", 3)},
          {},
          "predicted: the recorded histogram moved by log2(tokens); recorded: other batches of the same weights",
          {}};
  for (const TokenRow& r : rows)
    t.add({static_cast<std::int64_t>(r.tokens), r.predicted_shift, cell_of(r.measured_shift), 100 * r.predicted_zero,
           cell_of(100 * r.measured_zero), 100 * r.predicted_subnormal});
  return t;
}

Panel tokens_panel(const std::vector<TokenRow>& rows) {
  Panel p;
  p.title = "tokens a batch, no loss scale";
  p.x = {"tokens", "", AxisScale::log2, {}, {}, {}, {}};
  p.y = {"share of the activation gradients", "%", AxisScale::linear, 0.0, 100.0, {}, {}};
  Series zero{"zero in FP16", Draw::line, {}, {}, {}, {}, {}, vermilion};
  Series subnormal{"subnormal in FP16", Draw::line, {}, {}, {}, {}, {}, orange};
  Series seen{"zero, recorded", Draw::points, {}, {}, {}, {}, {}, ink};
  for (const TokenRow& r : rows) {
    zero.x.push_back(r.tokens), zero.y.push_back(100 * r.predicted_zero);
    subnormal.x.push_back(r.tokens), subnormal.y.push_back(100 * r.predicted_subnormal);
    if (!std::isnan(r.measured_zero)) seen.x.push_back(r.tokens), seen.y.push_back(100 * r.measured_zero);
  }
  p.series = {zero, subnormal, seen};
  return p;
}

// ---- Against the training step; and what the GPU itself lost ----

Table by_step(const Recording& r) {
  Table t{"by_step",
          "FP16 without a loss scale, by training step",
          {integer_column("step"), text_column("gradients of"), fixed_column("mean binade", "log2", 1),
           real_column("zero", "%", 3), real_column("subnormal", "%", 3), real_column("largest", "", 3),
           real_column("zeros in FP32", "% of all", 3), real_column("zeros in FP16 on the GPU", "% of all", 3),
           real_column("zeros predicted", "% of all", 3)},
          {},
          "on the GPU: the same step run under FP16 autocast at loss scale 1, where products that underflow also "
          "change what is computed from them",
          {}};
  for (const RecordedPass& p : r.passes) {
    if (p.label != "step " + std::to_string(p.step)) continue;
    const RecordedPass* gpu = find_pass(r, p.label + " in fp16 at 2^0");
    for (const char* kind : {"grad", "actgrad"}) {
      const Gradients g = from_pass(p, kind);
      const FormatShares s = shares_of(g.all, fp16);
      const double zeros = zeros_among(g.all);
      t.add({std::int64_t{p.step}, std::string(kind[0] == 'a' ? "activations" : "weights"), cell_of(mean_binade(g.all)),
             100 * s.zero, 100 * s.subnormal, g.amax, 100 * zeros,
             gpu == nullptr ? Cell{} : Cell{100 * zeros_among(from_pass(*gpu, kind).all)},
             100 * (zeros + (1 - zeros) * s.zero)});
    }
  }
  return t;
}

Panel step_panel(const Recording& r) {
  Panel p;
  p.title = "training step, no loss scale";
  p.y = {"zero or subnormal in FP16", "%", AxisScale::linear, 0.0, 100.0, {}, {}};
  Series weights{"weight gradients", Draw::line_points, {}, {}, {}, {}, {}, blue};
  Series activations{"activation gradients", Draw::line_points, {}, {}, {}, {}, {}, purple};
  for (const RecordedPass& pass : r.passes) {
    if (pass.label != "step " + std::to_string(pass.step)) continue;
    const auto place = static_cast<double>(p.x.categories.size());
    p.x.categories.push_back(std::to_string(pass.step));
    for (Series* s : {&weights, &activations}) {
      const FormatShares shares = shares_of(from_pass(pass, s == &weights ? "grad" : "actgrad").all, fp16);
      s->x.push_back(place), s->y.push_back(100 * (shares.zero + shares.subnormal));
    }
  }
  p.x.label = "training step";
  p.series = {weights, activations};
  return p;
}

// A loss scale at which anything overflows is none: the step is skipped. Of the others the one that loses least, and of
// these the one closest to 1 (narrow/tensor/tensor_statistics.hpp).
std::string finding_of(const Gradients& g, const FormatShares& plain, const FormatShares& scaled, int best) {
  const auto left = [](const FormatShares& s) {
    return percent_text(s.zero) + " of the gradients into zero and " + percent_text(s.subnormal) + " into subnormals";
  };
  std::string text;
  if (g.not_finite.any())
    text = "The data has " + g.not_finite.text() +
           (g.scaled_by.empty()
                ? ", so that the step is skipped at every loss scale"
                : " at a loss scale of " + g.scaled_by + ", and does not tell at which there would be none") +
           "; of the finite gradients, w";
  text += (text.empty() ? "W" : "") + ("ithout a loss scale FP16 turns " + left(plain));
  if (g.amax >= fp16_overflows_from) text += ", and the largest, " + significant_text(g.amax, 3) + ", overflows";
  const int last = largest_scale_log2(g.amax);
  const std::string power = "2^" + std::to_string(best), most = "2^" + std::to_string(last);
  const std::string sure = without_overflow(g.is_bounded);
  if (best == 0) return text + "; no other scale " + sure + " (up to " + most + ") loses fewer.";
  return text + "; " +
         (best == last ? "at " + power + ", the largest scale " + sure + ", "
                       : "of the scales " + sure + ", up to " + most + ", " + power +
                             " is the closest to 1 that loses least: ") +
         percent_text(scaled.zero) + " are zero and " + percent_text(scaled.subnormal) + " subnormal.";
}

Outcome run(const Parameters& parameters, Progress& progress) {
  Outcome out;
  Gradients g;
  std::optional<Recording> recording;
  const std::string &file = parameters.text("gradients"), &folder = parameters.text("run");
  const auto step = parameters.text("step");
  if (!file.empty()) {
    g = from_file(file);
    out.data = g.what;
    out.notes = g.notes;
  } else if (!folder.empty()) {
    g = from_run(WatchedRun(folder));
    out.data = g.what;
    out.notes = g.notes;
  } else if (recording = load_recording(); recording) {
    const RecordedPass* pass = find_pass(*recording, "step " + step);
    if (pass == nullptr) throw Error("step=" + step + " was not recorded");
    g = from_pass(*pass);
    out.data = recorded_text("a byte-level GPT at training step " + step);
    g.what = out.data.text + ", " + count_text(static_cast<std::int64_t>(nonzero_count(g.all))) + " gradients";
  } else {
    g = from_values({made_gradients(512, 512, -15, 1)});
    out.data = g.what = made_text;
    out.notes.push_back(no_recordings_note("these are made gradients around 2^-15"));
  }
  if (nonzero_count(g.all) == 0)
    throw Error((!file.empty()    ? file
                 : folder.empty() ? "the recording"
                                  : folder) +
                ": no gradient is finite and not zero: " + count_text(static_cast<std::int64_t>(g.all.zero.total())) +
                " zeros" + (g.not_finite.any() ? ", " + g.not_finite.text() : ""));
  progress.at(0.5);

  const int best = loss_scale_log2(g);
  const Counts counts(g, best);
  const FormatShares plain = counts.scaled(counts.all(), 0), scaled = counts.scaled(counts.all(), best);
  const std::string damaged = percent_text(scaled.zero + scaled.subnormal, 2);
  out.tables = {by_tensor(g, counts, best), by_scale(g, counts)};
  out.plots = {histogram_plot(g, counts,
                              "FP16 turns " + percent_text(plain.zero) + " of these gradients into zero and " +
                                  percent_text(plain.subnormal) + " into subnormals")};
  Plot against{"against", "", g.what + "; shares of those that are not zero", {scale_panel(g, counts)}, 3, 0, ""};
  against.title = "A loss scale of 2^" + std::to_string(best) + " leaves " + percent_text(scaled.zero) + " zero and " +
                  percent_text(scaled.subnormal) + " subnormal";
  if (recording) {
    const std::vector<TokenRow> rows = token_rows(*recording, *find_pass(*recording, "step " + step));
    const TokenRow& many = rows[rows.size() - 3];  // a quarter of the most
    out.tables.push_back(by_step(*recording));
    out.tables.push_back(by_tokens(rows));
    against.panels.push_back(tokens_panel(rows));
    against.panels.push_back(step_panel(*recording));
    against.title = "A loss scale of 2^" + std::to_string(best) + " leaves " + damaged + " damaged; without one " +
                    power_text(many.tokens) + " tokens would zero " + percent_text(many.predicted_zero, 2);
  } else {
    against.columns = 1;
  }
  out.plots.push_back(against);
  out.finding = finding_of(g, plain, scaled, best);
  return out;
}

const Register entered([]() -> Experiment {
  return {"gradient_underflow",
          "Which gradients does FP16 lose, and what does a loss scale give back?",
          1,
          {file_parameter("gradients", "tensor file whose gradients are counted instead of the recorded ones"),
           run_parameter(), choice_parameter("step", {"300", "0", "10", "100", "1000"}, "recorded training step")},
          run};
});

}  // namespace
}  // namespace analysis::of_gradient_underflow

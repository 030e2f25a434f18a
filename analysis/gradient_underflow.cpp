// Which gradients does FP16 lose, in which tensors, when in training, and what does a loss scale give back?
#include <algorithm>
#include <cmath>

#include "experiment.hpp"
#include "gradients.hpp"
#include "narrow/format/find_format.hpp"

namespace analysis {
namespace {

using namespace narrow;
using enum PlotColour;

constexpr NamedFormat formats[] = {
    {"FP16", "fp16"_fmt}, {"BF16", "bf16"_fmt}, {"E5M2", "e5m2"_fmt}, {"E4M3", "e4m3"_fmt}};
constexpr Format fp16 = "fp16"_fmt;
constexpr int largest_scale = 24;  // loss scales 2^0 .. 2^24

Table by_tensor(const Gradients& g, int best) {
  Table t{"by_tensor",
          "What each format makes of each gradient, in shares of the values that are not zero",
          {text_column("tensor"), text_column("kind"), integer_column("non-zero"), real_column("largest", "", 3),
           fixed_column("mean binade", "log2", 1), real_column("FP16 zero", "%", 3),
           real_column("FP16 subnormal", "%", 3), real_column("FP16 zero at 2^" + std::to_string(best), "%", 3),
           real_column("E5M2 zero", "%", 3), real_column("E4M3 zero", "%", 3), real_column("BF16 zero", "%", 3)},
          {},
          "",
          {}};
  const auto row = [&](const std::string& name, const std::string& kind, const ExponentHistogram& h, double amax) {
    const FormatShares one = shares_of(h, fp16), scaled = shares_of(h, fp16, best);
    t.add({name, kind, static_cast<std::int64_t>(nonzero_count(h)), amax, mean_binade(h), 100 * one.zero,
           100 * one.subnormal, 100 * scaled.zero, 100 * shares_of(h, formats[2].format).zero,
           100 * shares_of(h, formats[3].format).zero, 100 * shares_of(h, formats[1].format).zero});
  };
  row("all", "all", g.all, g.amax);
  for (const RecordedTensor& tensor : g.tensors)
    row(tensor.name, tensor.kind == "actgrad" ? "activation" : "weight", tensor.histogram, tensor.amax);
  return t;
}

Plot histogram_plot(const Gradients& g, const std::string& title) {
  const auto all = static_cast<double>(nonzero_count(g.all));
  const int zero_below = fp16.min_quantum_exponent() - 1;
  Series lost{"becomes zero in FP16", Draw::bars, {}, {}, {}, {}, {}, vermilion};
  Series damaged{"subnormal in FP16: bits lost", Draw::bars, {}, {}, {}, {}, {}, orange};
  Series kept{"normal in FP16", Draw::bars, {}, {}, {}, {}, {}, blue};
  double low = -44, top = 18;
  for (int e = -126; e <= 127; ++e) {
    const double share = 100 * static_cast<double>(g.all.binade(e).total()) / all;
    if (share < 0.001) continue;
    low = std::min(low, e - 1.0), top = std::max(top, e + 2.0);
    Series& s = e < zero_below ? lost : e < fp16.min_exponent() ? damaged : kept;
    s.x.push_back(e + 0.5);
    s.y.push_back(share);
  }
  Panel p;
  p.x = {"gradient magnitude", "", AxisScale::exponent_of_two, low, top, {}, {}};
  p.y = {"share of the non-zero values", "%", AxisScale::linear, 0.0, {}, {}, {}};
  p.series = {kept, damaged, lost};
  p.bars = BarLayout::overlaid;
  p.marks = {{Along::x, static_cast<double>(zero_below), "below 2^-25: zero", grey}};
  for (const NamedFormat& f : formats) p.rulers.push_back(ruler_of(std::string(f.name), f.format));
  p.legend = Legend::top_left;
  const FormatShares e5m2 = shares_of(g.all, formats[2].format), e4m3 = shares_of(g.all, formats[3].format);
  return {
      "histogram", title, g.what + "; E5M2 would zero " + percent_text(e5m2.zero) + ", E4M3 " + percent_text(e4m3.zero),
      {p},         1,     0,
      ""};
}

// ---- Against the loss scale ----

Table by_scale(const Gradients& g) {
  Table t{"by_scale",
          "FP16 against the loss scale",
          {power_column("loss scale"), real_column("zero", "%", 3), real_column("subnormal", "%", 3),
           fixed_column("headroom", "bits", 1)},
          {},
          "headroom: log2(65520 / largest scaled gradient); below 0 the step overflows and is skipped",
          {}};
  for (int k = 0; k <= largest_scale; ++k) {
    const FormatShares s = shares_of(g.all, fp16, k);
    t.add({std::ldexp(1.0, k), 100 * s.zero, 100 * s.subnormal, g.amax > 0 ? std::log2(65520 / g.amax) - k : 0.0});
  }
  return t;
}

Panel scale_panel(const Gradients& g, int best) {
  Panel p;
  p.title = "loss scale";
  p.x = {"loss scale", "", AxisScale::exponent_of_two, 0.0, static_cast<double>(largest_scale), {}, {}};
  p.y = {"share of the gradients", "%", AxisScale::linear, 0.0, 100.0, {}, {}};
  Series zero{"zero in FP16", Draw::line, {}, {}, {}, {}, {}, vermilion};
  Series subnormal{"subnormal in FP16", Draw::line, {}, {}, {}, {}, {}, orange};
  for (int k = 0; k <= largest_scale; ++k) {
    const FormatShares s = shares_of(g.all, fp16, k);
    for (Series* one : {&zero, &subnormal}) one->x.push_back(k);
    zero.y.push_back(100 * s.zero);
    subnormal.y.push_back(100 * s.subnormal);
  }
  p.series = {zero, subnormal};
  if (best <= largest_scale) p.marks = {{Along::x, static_cast<double>(best), "above: overflow", grey}};
  return p;
}

// ---- Against the tokens of a batch: gradients of a mean loss with respect to activations are 1/tokens as large ----

Cell cell_of(double x) { return std::isnan(x) ? Cell{} : Cell{x}; }

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
      t.add({std::int64_t{p.step}, std::string(kind[0] == 'a' ? "activations" : "weights"), mean_binade(g.all),
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

Outcome run(const Parameters& parameters, Progress& progress) {
  Outcome out;
  Gradients g;
  std::optional<Recording> recording;
  const std::string& file = parameters.text("gradients");
  const auto step = parameters.text("step");
  if (!file.empty()) {
    g = from_file(file);
  } else if (recording = load_recording(); recording) {
    const RecordedPass* pass = find_pass(*recording, "step " + step);
    if (pass == nullptr) throw Error("step=" + step + " was not recorded");
    g = from_pass(*pass);
    g.what = "A byte-level GPT at training step " + step + ", " +
             count_text(static_cast<std::int64_t>(nonzero_count(g.all))) + " gradients of weights and activations";
  } else {
    g = from_values({made_gradients(512, 512, -15, 1)});
    g.what = "Made numbers, not recorded ones";
    out.notes.push_back(no_recordings_note("these are made gradients around 2^-15"));
  }
  if (nonzero_count(g.all) == 0) throw Error((file.empty() ? "the recording" : file) + ": every gradient is zero");
  progress.at(0.5);

  const FormatShares plain = shares_of(g.all, fp16);
  const int best = best_scale_log2(g.amax);
  const FormatShares scaled = shares_of(g.all, fp16, best);
  out.tables = {by_tensor(g, best), by_scale(g)};
  out.plots = {histogram_plot(g, "FP16 turns " + percent_text(plain.zero) + " of these gradients into zero and " +
                                     percent_text(plain.subnormal) + " into subnormals")};
  Plot against{"against", "", g.what + "; shares of those that are not zero", {scale_panel(g, best)}, 3, 0, ""};
  against.title = "A loss scale of 2^" + std::to_string(best) + " leaves " + percent_text(scaled.zero) + " zero and " +
                  percent_text(scaled.subnormal) + " subnormal";
  if (recording) {
    const std::vector<TokenRow> rows = token_rows(*recording, *find_pass(*recording, "step " + step));
    const TokenRow& many = rows[rows.size() - 3];  // a quarter of the most
    out.tables.push_back(by_step(*recording));
    out.tables.push_back(by_tokens(rows));
    against.panels.push_back(tokens_panel(rows));
    against.panels.push_back(step_panel(*recording));
    against.title = "A loss scale of 2^" + std::to_string(best) + " leaves " +
                    percent_text(scaled.zero + scaled.subnormal, 2) + " damaged; without one " +
                    power_text(many.tokens) + " tokens would zero " + percent_text(many.predicted_zero, 2);
  } else {
    against.columns = 1;
  }
  out.plots.push_back(against);
  out.finding = "Without a loss scale FP16 turns " + percent_text(plain.zero) + " of the gradients into zero and " +
                percent_text(plain.subnormal) + " into subnormals; at 2^" + std::to_string(best) +
                ", the largest scale without overflow, " + percent_text(scaled.zero + scaled.subnormal, 2) +
                " are still damaged.";
  return out;
}

const Register entered({"gradient_underflow",
                        "Which gradients does FP16 lose, and what does a loss scale give back?",
                        1,
                        {file_parameter("gradients",
                                        "tensor file whose gradients are counted instead of the recorded ones"),
                         choice_parameter("step", {"300", "0", "10", "100", "1000"}, "recorded training step")},
                        run});

}  // namespace
}  // namespace analysis

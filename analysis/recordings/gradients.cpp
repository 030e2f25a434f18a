#include "analysis/recordings/gradients.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "analysis/recordings/recorded_runs.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/tensor/tensor_statistics.hpp"
#include "narrow/tensor/watched_counts.hpp"
#include "narrow/text/quote.hpp"

namespace analysis {

using namespace narrow;

void Gradients::add(RecordedTensor t) {
  all.merge(t.histogram);
  amax = std::max(amax, t.amax);
  not_finite.nan += t.histogram.nan.total(), not_finite.inf += t.histogram.inf.total();
  tensors.push_back(std::move(t));
}

namespace {

// What autocast holds in FP16, each number once: not the embeddings, the LayerNorm parameters and the residual stream,
// which it keeps in FP32; not q, k and v, which are parts of the output of qkv; and not the scores and probabilities of
// attention, which a fused kernel never stores. All of them are in the recording.
bool is_counted(const std::string& name) {
  for (const std::string_view end :
       {".q", ".k", ".v", ".residual", ".scores", ".probs", "tokens", "positions", "tokens.weight", "positions.weight",
        "ln1.weight", "ln1.bias", "ln2.weight", "ln2.bias", "norm.weight", "norm.bias"})
    if (name.ends_with(end)) return false;
  return true;
}

}  // namespace

Gradients from_pass(const RecordedPass& pass, std::string_view kind) {
  Gradients g;
  for (const RecordedTensor& t : pass.tensors)
    if ((t.kind == "grad" || t.kind == "actgrad") && is_counted(t.name) && (kind.empty() || t.kind == kind)) g.add(t);
  return g;
}

Gradients from_values(std::vector<Values> values) {
  Gradients g;
  for (Values& v : values) {
    RecordedTensor t{v.name.starts_with("act") ? "actgrad" : "grad", v.name, 0, exponent_histogram(v.data),
                     std::move(v.data)};
    for (const float x : t.values)
      if (std::isfinite(x)) t.amax = std::max(t.amax, std::fabs(static_cast<double>(x)));
    g.not_finite.beyond_fp32 += v.beyond_fp32;
    g.add(std::move(t));
  }
  return g;
}

Gradients from_file(const std::string& file) {
  std::string unread;
  std::vector<Values> values = read_values_of(file, "", &unread);
  const auto is_named = [](const Values& v) { return v.name.find("grad") != std::string::npos; };
  const std::size_t all = values.size();
  const auto named = static_cast<std::size_t>(std::count_if(values.begin(), values.end(), is_named));
  if (named > 0) std::erase_if(values, [&](const Values& v) { return !is_named(v); });
  Gradients g = from_values(std::move(values));
  g.what = file_text(file);
  if (named > 0 && named < all)
    g.notes.push_back("Counted are the " + std::to_string(named) + " of " + std::to_string(all) +
                      " floating tensors whose names contain grad.");
  if (named == 0 && all > 1)
    g.notes.push_back("No name contains grad: all " + std::to_string(all) +
                      " floating tensors are taken for gradients.");
  if (!unread.empty()) g.notes.push_back(std::move(unread));
  return g;
}

Gradients from_run(const WatchedRun& run) {
  LastStep last;
  run.for_each_tensor([&](const WatchedTensor& t) {
    if (t.is_gradient()) last.add(t);
  });
  if (last.tensors().empty()) throw Error("run=" + quote(run.folder()) + ": no gradients were watched");
  Gradients g;
  std::size_t in_fp16 = 0;
  for (const WatchedTensor& t : last.tensors()) {
    in_fp16 += t.dtype == "fp16" ? 1 : 0;
    g.is_bounded = g.is_bounded || !t.has_extremes;
    const ExponentHistogram h = unscaled_histogram(run, t);
    g.add({t.role == "gradient" ? "grad" : "actgrad", t.series().substr(t.role.size() + 1), t.unscaled(t.amax), h});
  }
  if (g.is_bounded) g.notes.push_back(bounded_note);
  g.scaled_by = power_text(last.tensors().front().scale);
  g.what = file_text(run.folder()) + " at step " + std::to_string(last.tensors().front().step);
  if (in_fp16 > 0)
    g.notes.push_back(
        std::to_string(in_fp16) + " of " + std::to_string(last.tensors().size()) +
        " tensors were held in FP16 when they were counted: what it had lost by then is among their zeros.");
  g.notes.push_back(binades_note);
  return g;
}

std::vector<std::vector<FormatShares>> shares_of(const Gradients& g, std::span<const ScaledFormat> asked) {
  std::vector<std::vector<FormatShares>> rows;
  std::vector<FormatShares> sums(asked.size());
  double everything = 0;
  for (const RecordedTensor& t : g.tensors) {
    const auto nonzero = static_cast<double>(nonzero_count(t.histogram));
    const auto exact = t.values.empty() ? std::vector<ExactShares>{} : exponent_histogram(t.values, asked).shares;
    std::vector<FormatShares> row(asked.size());
    for (std::size_t i = 0; i < asked.size() && nonzero > 0; ++i) {
      row[i] = shares_of(t.histogram, asked[i].to.format, asked[i].scale_log2);
      if (!exact.empty())
        row[i] = {static_cast<double>(exact[i].underflow) / nonzero, static_cast<double>(exact[i].subnormal) / nonzero,
                  static_cast<double>(exact[i].overflow) / nonzero};
      sums[i].zero += nonzero * row[i].zero, sums[i].subnormal += nonzero * row[i].subnormal;
      sums[i].overflow += nonzero * row[i].overflow;
    }
    everything += nonzero;
    rows.push_back(std::move(row));
  }
  for (FormatShares& s : sums)
    if (everything > 0) s = {s.zero / everything, s.subnormal / everything, s.overflow / everything};
  rows.push_back(std::move(sums));
  return rows;
}

const RecordedPass* find_pass(const Recording& r, std::string_view label) {
  for (const RecordedPass& p : r.passes)
    if (p.label == label) return &p;
  return nullptr;
}

// The choice asks which values a scale loses, and a smaller scale loses what a larger one loses and more: it depends on
// no more than the largest value and on which binades hold a power of two and which another value, because the largest
// magnitude that becomes zero is a power of two. One value for each of these stands for all of them.
int loss_scale_log2(const Gradients& g) {
  constexpr int lowest = -149, binades = 128 - lowest;  // of floats, subnormal ones included
  bool power[binades] = {}, other[binades] = {};
  for (const RecordedTensor& t : g.tensors) {
    for (const float x : t.values)
      if (x != 0 && std::isfinite(x)) {
        const int e = std::ilogb(x);
        (std::fabs(x) == std::ldexp(1.0f, e) ? power : other)[e - lowest] = true;
      }
    for (int e = ExponentHistogram::min_exponent; t.values.empty() && e <= ExponentHistogram::max_exponent; ++e)
      other[e - lowest] = other[e - lowest] || t.histogram.binade(e).total() > 0;
  }
  std::vector<float> all{static_cast<float>(g.amax)};
  for (int i = 0; i < binades; ++i) {
    if (power[i]) all.push_back(std::ldexp(1.0f, i + lowest));
    if (other[i]) all.push_back(std::min(std::ldexp(1.5f, i + lowest), static_cast<float>(g.amax)));
  }
  std::vector<std::byte> bytes(all.size() * sizeof(float));
  std::memcpy(bytes.data(), all.data(), bytes.size());
  const Tensor tensor = make_tensor({"magnitudes", *find_element_type("F32"), {all.size()}}, std::move(bytes));
  const FormatCast to{"fp16"_fmt};
  return std::ilogb(auto_scales({&tensor, 1}, {&to, 1})[0].scale);
}

int largest_scale_log2(double amax) {
  constexpr int most = 127;                 // of a float; all gradients are zero, or as good as
  int k = most;
  while (k > -most && std::ldexp(amax, k) >= fp16_overflows_from) --k;
  return k;
}

Panel binades_panel(const ExponentHistogram& h, std::span<const NamedFormat> formats) {
  using enum PlotColour;
  const auto all = static_cast<double>(nonzero_count(h));
  const std::string name(formats[0].name);
  const Format& first = formats[0].format;
  const int zero_below = first.min_quantum_exponent() - 1;
  Series lost{"becomes zero in " + name, Draw::bars, {}, {}, {}, {}, {}, vermilion};
  Series damaged{"subnormal in " + name + ": bits lost", Draw::bars, {}, {}, {}, {}, {}, orange};
  Series kept{"normal in " + name, Draw::bars, {}, {}, {}, {}, {}, blue};
  Series beyond{"overflows " + name, Draw::bars, {}, {}, {}, {}, {}, purple};
  double low = -44, top = 18;
  for (int e = ExponentHistogram::min_exponent; e <= ExponentHistogram::max_exponent; ++e) {
    const double share = 100 * static_cast<double>(h.binade(e).total()) / all;
    if (share < 0.001) continue;
    low = std::min(low, e - 1.0), top = std::max(top, e + 2.0);
    Series& s = e < zero_below ? lost : e < first.min_exponent() ? damaged : e > first.max_exponent() ? beyond : kept;
    s.x.push_back(e + 0.5);
    s.y.push_back(share);
  }
  Panel p;
  p.x = {"magnitude", "", AxisScale::exponent_of_two, low, top, {}, {}};
  p.y = {"share of the non-zero values", "%", AxisScale::linear, 0.0, {}, {}, {}};
  p.series = {kept, damaged, lost};
  if (!beyond.x.empty()) p.series.push_back(beyond);
  p.bars = BarLayout::overlaid;
  p.marks = {{Along::x, static_cast<double>(zero_below), "below 2^" + std::to_string(zero_below) + ": zero", grey}};
  for (const NamedFormat& f : formats) p.rulers.push_back(ruler_of(std::string(f.name), f.format));
  return p;
}

double zeros_among(const ExponentHistogram& h) {
  return static_cast<double>(h.zero.total()) / static_cast<double>(std::max<std::uint64_t>(h.count(), 1));
}

std::vector<TokenRow> token_rows(const Recording& r, const RecordedPass& base) {
  const ExponentHistogram here = from_pass(base, "actgrad").all;
  const double centre = mean_binade(here), nan = std::nan("");
  std::vector<TokenRow> rows;
  for (int doublings = -4; doublings <= 10; ++doublings) {
    const FormatShares s = shares_of(here, "fp16"_fmt, -doublings);
    TokenRow row{std::ldexp(static_cast<double>(base.tokens), doublings),
                 static_cast<double>(-doublings),
                 nan,
                 s.zero,
                 nan,
                 s.subnormal};
    for (const RecordedPass& p : r.passes)
      if (p.step == base.step && p.type == "float32" && static_cast<double>(p.tokens) == row.tokens) {
        const ExponentHistogram h = from_pass(p, "actgrad").all;
        row.measured_shift = mean_binade(h) - centre;
        row.measured_zero = shares_of(h, "fp16"_fmt).zero;
      }
    rows.push_back(row);
  }
  return rows;
}

}  // namespace analysis

#include "gradients.hpp"

#include <algorithm>
#include <cmath>

#include "narrow/format/find_format.hpp"

namespace analysis {

using namespace narrow;

void Gradients::add(RecordedTensor t) {
  all.merge(t.histogram);
  amax = std::max(amax, t.amax);
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

Gradients from_values(const std::vector<Values>& values) {
  Gradients g;
  for (const Values& v : values) {
    RecordedTensor t{v.name.starts_with("act") ? "actgrad" : "grad", v.name, 0, exponent_histogram(v.data)};
    for (const float x : v.data)
      if (std::isfinite(x)) t.amax = std::max(t.amax, std::fabs(static_cast<double>(x)));
    g.add(std::move(t));
  }
  return g;
}

Gradients from_file(const std::string& file) {
  std::vector<Values> values = read_values_of(file);
  const auto is_named = [](const Values& v) { return v.name.find("grad") != std::string::npos; };
  if (std::any_of(values.begin(), values.end(), is_named))
    std::erase_if(values, [&](const Values& v) { return !is_named(v); });
  Gradients g = from_values(values);
  g.what = file.substr(file.find_last_of('/') + 1);
  return g;
}

const RecordedPass* find_pass(const Recording& r, std::string_view label) {
  for (const RecordedPass& p : r.passes)
    if (p.label == label) return &p;
  return nullptr;
}

int best_scale_log2(double amax) {
  constexpr double overflows_from = 65520;  // half a quantum above 65504: the first value that rounds to Inf
  constexpr int most = 60;                  // all gradients are zero, or as good as
  int k = most;
  while (k > -most && std::ldexp(amax, k) >= overflows_from) --k;
  return k;
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

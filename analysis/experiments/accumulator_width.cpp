// How wrong does a dot product get as it gets longer, on each tensor core and with each way of cutting K?
#include <algorithm>
#include <cmath>

#include "analysis/framework/experiment.hpp"
#include "analysis/recordings/inputs.hpp"
#include "narrow/array/array.hpp"
#include "narrow/dot/gemm.hpp"

namespace analysis::of_accumulator_width {
namespace {

using namespace narrow;
using enum PlotColour;

// A machine and a plan. All get the same E4M3 values, which FP16 holds exactly: what differs is the sum alone.
struct Way {
  const char* name;
  const char* model;
  const char* plan;
  PlotColour colour;  // automatic: in the table only
};
constexpr Way ways[] = {
    {"Hopper FP8, one chain", "hopper.wgmma.f32.e4m3.e4m3", "chain", vermilion},
    {"Ada FP8, one chain", "ada.mma.f32.e4m3.e4m3.k32", "chain", orange},
    {"Hopper FP8, FP32 every 128", "hopper.wgmma.f32.e4m3.e4m3", "promote:128", green},
    {"FP16 accumulator (Hopper)", "hopper.wgmma.f16.f16.f16", "chain", purple},
    {"Volta FP16", "volta.mma.f32.f16.f16.k4", "chain", automatic},
    {"Ampere FP16", "ampere.mma.f32.f16.f16.k16", "chain", blue},
    {"Hopper FP16", "hopper.wgmma.f32.f16.f16", "chain", automatic},
    {"Hopper FP16, split into 4", "hopper.wgmma.f32.f16.f16", "even:4", automatic},
    {"Blackwell FP8", "blackwell.tcgen05.f32.e4m3.e4m3", "chain", sky},
    {"FP32, one FMA a product", "software.fma.f32.f16.f16", "chain", ink},
    {"FP32, pairwise", "software.pairwise.f32.f16.f16", "chain", automatic},
};

constexpr Format e4m3 = "e4m3"_fmt, fp16 = "fp16"_fmt;

struct Operands {
  std::size_t outputs, k;    // outputs x outputs results
  std::vector<double> a, b;  // values: a by rows, b by columns, k running fastest
};

Operands make_operands(std::size_t outputs, std::size_t k, bool positive, std::uint64_t seed) {
  const auto make = [&](std::uint64_t own) {
    std::vector<double> v(outputs * k);
    for (std::size_t i = 0; i < v.size(); ++i) {
      const double x = normal(own, i);
      v[i] = round_to(positive ? std::fabs(x) : x, e4m3);
    }
    return v;
  };
  return {outputs, k, make(seed), make(seed + 1)};
}

// Exact in double: a product of E4M3 values is a multiple of 2^-18 and at most 2^17.7, so sums of 2^17 of them need
// 53 bits.
std::vector<double> exact_products(const Operands& o, std::size_t k) {
  std::vector<double> exact(o.outputs * o.outputs);
  for (std::size_t i = 0; i < o.outputs; ++i)
    for (std::size_t j = 0; j < o.outputs; ++j) {
      double sum = 0;
      for (std::size_t l = 0; l < k; ++l) sum += o.a[i * o.k + l] * o.b[j * o.k + l];
      exact[i * o.outputs + j] = sum;
    }
  return exact;
}

template <class U>
std::vector<U> codes_of(const std::vector<double>& values, const Format& format) {
  std::vector<U> codes(values.size());
  encode_array(std::span<const double>(values), format, Cast{}, std::span<U>(codes));
  return codes;
}

const DotModel& model_of(const Way& way) {
  const DotModel* model = find_dot_model(way.model);
  if (model == nullptr) throw Error(std::string("no dot model ") + way.model);
  return *model;
}

std::vector<double> machine_products(const Way& way, const Operands& o, std::size_t k) {
  const DotModel* model = &model_of(way);
  const std::size_t n = o.outputs;
  std::vector<std::uint32_t> d(n * n);
  const auto run = [&]<class U>(const std::vector<U>& a, const std::vector<U>& b) {
    gemm(*model, parse_plan(way.plan), MatrixView<const U>{a.data(), n, k, o.k},
         MatrixView<const U>{b.data(), k, n, o.k, Layout::column_major}, MatrixView<const std::uint32_t>{nullptr, n, n},
         MatrixView<std::uint32_t>{d.data(), n, n});
  };
  if (model->a.format.width() == 8) run(codes_of<std::uint8_t>(o.a, e4m3), codes_of<std::uint8_t>(o.b, e4m3));
  else run(codes_of<std::uint16_t>(o.a, fp16), codes_of<std::uint16_t>(o.b, fp16));
  std::vector<double> out(d.size());
  decode_array(std::span<const std::uint32_t>(d), model->accumulator.format, std::span<double>(out));
  return out;
}

struct Errors {
  double relative, bias;  // root mean square and mean of the error, over the root mean square of the exact results
};

Errors errors_of(const std::vector<double>& got, const std::vector<double>& exact) {
  double error = 0, bias = 0, signal = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double e = got[i] - exact[i];
    error += e * e, signal += exact[i] * exact[i];
    bias += exact[i] < 0 ? -e : e;  // positive: too large in magnitude
  }
  const auto n = static_cast<double>(got.size());
  return {std::sqrt(error / signal), bias / n / std::sqrt(signal / n)};
}

struct Curve {
  std::vector<double> k, relative, bias;
};

Panel panel_of(const std::vector<Curve>& curves, const char* title) {
  Panel p;
  p.title = title;
  p.x = {"length K of the dot product", "", AxisScale::log2, {}, {}, {}, {}};
  p.y = {"relative error of the result", "", AxisScale::log2, {}, {}, {}, {}};
  for (std::size_t w = 0; w < std::size(ways); ++w) {
    if (ways[w].colour == automatic) continue;
    Series s{ways[w].name, Draw::line_points, curves[w].k, curves[w].relative, {}, {}, {}, ways[w].colour};
    s.dashed = ways[w].colour == orange;  // Ada lies on Hopper
    p.series.push_back(s);
  }
  return p;
}

Outcome run(const Parameters& parameters, Progress& progress) {
  const auto outputs = static_cast<std::size_t>(parameters.integer("outputs"));
  const auto longest = static_cast<std::size_t>(parameters.integer("longest"));
  const auto seed = static_cast<std::uint64_t>(parameters.integer("seed"));
  Table t{"by_k",
          "Error of a dot product of E4M3 values against its length, by machine and plan",
          {text_column("data"), text_column("machine"), text_column("model"), text_column("plan"), integer_column("K"),
           real_column("relative error", "", 3), real_column("bias", "", 3), fixed_column("good bits", "bits", 1),
           text_column("evidence")},
          {},
          "relative error: root mean square of (result - exact) over root mean square of exact; bias: mean error in "
          "the direction of the result, negative: too small; good bits: -log2 of the relative error",
          {}};
  Outcome out;
  Plot plot{"error_by_k", "", "", {}, 2, 420, ""};
  double chain = 0, promoted = 0, wide = 0;
  // The finding is of K = 4096, or of the longest that is measured where that is shorter.
  std::size_t chosen = 64;
  while (chosen * 2 <= std::min<std::size_t>(longest, 4096)) chosen *= 2;
  for (const bool positive : {false, true}) {
    const Operands o = make_operands(outputs, longest, positive, seed);
    std::vector<Curve> curves(std::size(ways));
    for (std::size_t k = 64; k <= longest; k *= 2) {
      progress.at((positive ? 0.5 : 0.0) + 0.5 * static_cast<double>(k) / static_cast<double>(2 * longest));
      const std::vector<double> exact = exact_products(o, k);
      for (std::size_t w = 0; w < std::size(ways); ++w) {
        const Errors e = errors_of(machine_products(ways[w], o, k), exact);
        curves[w].k.push_back(static_cast<double>(k));
        curves[w].relative.push_back(e.relative);
        t.add({std::string(positive ? "positive" : "both signs"), std::string(ways[w].name), std::string(ways[w].model),
               std::string(ways[w].plan), static_cast<std::int64_t>(k), e.relative, e.bias,
               e.relative > 0 ? Cell{-std::log2(e.relative)} : Cell{},
               std::string(evidence_name(model_of(ways[w]).evidence))});
      }
    }
    plot.panels.push_back(panel_of(curves, positive ? "positive values: errors add up" : "values of both signs"));
    const std::size_t row = static_cast<std::size_t>(
        std::find(curves[0].k.begin(), curves[0].k.end(), static_cast<double>(chosen)) - curves[0].k.begin());
    chain = curves[0].relative[row], promoted = curves[2].relative[row], wide = curves[8].relative[row];
  }
  const auto k_text = count_text(static_cast<std::int64_t>(chosen));
  plot.title = "FP8 on Hopper: " + percent_text(chain) + " wrong at K = " + k_text + " in one chain, " +
               percent_text(promoted) + " promoted every 128";
  plot.subtitle = "E4M3 normal numbers, " + count_text(static_cast<std::int64_t>(outputs * outputs)) +
                  " dot products a point, bit for bit as each machine sums them; no point: all exact";
  out.plots = {plot};
  out.data = "made numbers: E4M3 values of normal numbers";
  out.finding = "A dot product of " + k_text + " positive E4M3 values is " + percent_text(chain) +
                " wrong in one chain on Hopper's FP8 tensor core, " + percent_text(promoted) +
                " with partial sums in FP32 every 128, and " + percent_text(wide, 2) + " on Blackwell (" +
                evidence_text(model_of(ways[8])) + ").";
  for (const Way& way : ways) out.evidence.push_back(basis_of(model_of(way)));
  out.tables = {std::move(t)};
  return out;
}

const Register entered([]() -> Experiment {
  return {"accumulator_width",
          "How wrong does a dot product get as it gets longer, on which tensor core?",
          6,
          {integer_parameter("outputs", {16, 32, 64}, 1, 512, "results are outputs x outputs"),
           integer_parameter("longest", {16384, 16384, 65536}, 64, 65536,
                             "longest dot product; lengths are 64 and its doubles up to this"),
           integer_parameter("seed", 1, 0, 1e15, "seed of the values")},
          run};
});

}  // namespace
}  // namespace analysis::of_accumulator_width

// What does a sum of many small gradients lose when the running sum is held in few bits: micro-batches and all-reduce.
#include <algorithm>
#include <cmath>

#include "analysis/framework/experiment.hpp"
#include "analysis/recordings/micro_batches.hpp"
#include "narrow/array/array.hpp"
#include "narrow/base/random.hpp"
#include "narrow/format/find_format.hpp"

namespace analysis::of_gradient_accumulation {
namespace {

using namespace narrow;
using enum PlotColour;
using Vector = std::vector<double>;

constexpr Format fp32 = "fp32"_fmt, bf16 = "bf16"_fmt, fp16 = "fp16"_fmt;

// The gradient of micro-batch i in the mean over n.
void read(const MicroBatches& c, std::size_t i, std::size_t n, Vector& out) {
  const float* const row = c.row(i);
  for (std::size_t j = 0; j < out.size(); ++j) out[j] = static_cast<double>(row[j]) / static_cast<double>(n);
}

void round_all(Vector& v, const Format& f, const Cast& cast = {}, std::uint64_t seed = 0) {
  round_array(std::span<const double>(v), std::span<double>(v), f, cast, seed, 1);
}

enum class How : std::uint8_t { plain, stochastic, kahan };
struct Accumulator {
  const char* name;
  Format format;
  How how;
  int scale_log2;  // the loss scale
  PlotColour colour;
  bool dashed;
};
constexpr Accumulator accumulators[] = {
    {"BF16", bf16, How::plain, 0, orange, false},
    {"BF16, stochastic rounding", bf16, How::stochastic, 0, orange, true},
    {"BF16, Kahan", bf16, How::kahan, 0, green, false},
    {"FP16", fp16, How::plain, 0, vermilion, false},
    {"FP16, loss scale 2^16", fp16, How::plain, 16, blue, false},
    {"FP32", fp32, How::plain, 0, ink, false},
};

struct Lost {
  double error = 0;      // root mean square over that of the exact mean; NaN where it is undefined
  double unchanged = 0;  // share of the additions of a non-zero gradient that leave the sum as it is
};

// acc = round(acc + round(g)). Sums of two numbers of up to 24 bits are rounded once: double is wide enough for the
// nearest modes (53 >= 2 * 24 + 2), and both terms are far from its ends.
Lost accumulate(const MicroBatches& c, std::size_t n, const Accumulator& a, const Vector& exact) {
  const double scale = std::ldexp(1.0, a.scale_log2);
  Vector acc(c.width()), g(c.width()), rest(c.width()), before;
  double unchanged = 0, additions = 0;
  for (std::size_t i = 0; i < n; ++i) {
    read(c, i, n, g);
    for (double& x : g) x *= scale;
    round_all(g, a.format);
    before = acc;
    for (std::size_t j = 0; j < g.size(); ++j) rest[j] = a.how == How::kahan ? g[j] - rest[j] : g[j];
    if (a.how == How::kahan) round_all(rest, a.format);
    for (std::size_t j = 0; j < g.size(); ++j) acc[j] += rest[j];
    const Cast cast{.rounding = a.how == How::stochastic ? Rounding::stochastic : Rounding::nearest_even};
    round_all(acc, a.format, cast, random_bits(c.seed + 7, i));
    for (std::size_t j = 0; j < g.size(); ++j) {
      additions += g[j] != 0 ? 1 : 0;
      unchanged += g[j] != 0 && acc[j] == before[j] ? 1 : 0;
    }
    if (a.how != How::kahan) continue;
    Vector moved(acc.size());  // what arrived; what was to arrive less that is carried to the next step
    for (std::size_t j = 0; j < acc.size(); ++j) moved[j] = acc[j] - before[j];
    round_all(moved, a.format);
    for (std::size_t j = 0; j < acc.size(); ++j) rest[j] = moved[j] - rest[j];
    round_all(rest, a.format);
  }
  return {relative_error(acc, exact, scale), additions == 0 ? 0 : unchanged / additions};
}

// ---- All-reduce: every hop rounds to the format on the wire ----

// Ring: chunk c of n is summed from rank c + 1 round to rank c, one addition a hop.
double ring_error(const MicroBatches& c, std::size_t n, const Format& f, const Vector& exact) {
  Vector acc(c.width()), g(c.width());
  for (std::size_t hop = 0; hop < n; ++hop) {
    // Rows are read by rank; a chunk takes its elements from the rank that holds it at this hop.
    for (std::size_t chunk = 0; chunk < std::min(n, c.width()); ++chunk) {
      const std::size_t rank = (chunk + 1 + hop) % n;
      const float* const row = c.row(rank);
      for (std::size_t j = chunk; j < c.width(); j += n) g[j] = static_cast<double>(row[j]) / static_cast<double>(n);
    }
    round_all(g, f);
    for (std::size_t j = 0; j < g.size(); ++j) acc[j] += g[j];
    round_all(acc, f);
  }
  return relative_error(acc, exact, 1);
}

// Tree: neighbours in pairs, then pairs of pairs. n is a power of two.
Vector tree_sum(const MicroBatches& c, std::size_t first, std::size_t count, std::size_t n, const Format& f) {
  Vector a(c.width());
  if (count == 1) {
    read(c, first, n, a);
  } else {
    a = tree_sum(c, first, count / 2, n, f);
    const Vector b = tree_sum(c, first + count / 2, count / 2, n, f);
    for (std::size_t j = 0; j < a.size(); ++j) a[j] += b[j];
  }
  round_all(a, f);
  return a;
}

struct Wire {
  const char* name;
  Format format;
  bool tree;
  PlotColour colour;
};
constexpr Wire wires[] = {{"BF16, ring", bf16, false, orange},
                          {"BF16, tree", bf16, true, orange},
                          {"FP32, ring", fp32, false, ink},
                          {"FP32, tree", fp32, true, ink}};

Outcome run(const Parameters& parameters, Progress& progress) {
  Outcome out;
  const auto most = static_cast<std::size_t>(parameters.integer("most"));
  const auto seed = static_cast<std::uint64_t>(parameters.integer("seed"));
  const MicroBatches c = load_micro_batches(parameters.text("micro_batches"), seed, out);

  Table sums{"micro_batches",
             "Error of a gradient accumulated over micro-batches, by the format of the running sum",
             {integer_column("micro-batches"), text_column("running sum"), real_column("relative error", "%", 3),
              real_column("additions that change nothing", "%", 3)},
             {},
             "relative error: root mean square over the weights, over that of the exact mean gradient; a dash where a "
             "sum is Inf or the mean zero; beyond " +
                 std::to_string(c.rows.rows) + " the micro-batches are drawn again",
             {}};
  Table reduce{"all_reduce",
               "Error of a gradient averaged over ranks",
               {integer_column("ranks"), text_column("sum"), real_column("relative error", "%", 3)},
               {},
               "",
               {}};
  Panel by_batch, by_rank;
  by_batch.title = "accumulation over micro-batches";
  by_batch.x = {"micro-batches", "", AxisScale::log2, {}, {}, {}, {}};
  by_batch.y = {"relative error of the gradient", "", AxisScale::log10, {}, {}, {}, {}};
  by_rank = by_batch;
  by_rank.title = "all-reduce over ranks";
  by_rank.x.label = "ranks";
  for (const Accumulator& a : accumulators)
    by_batch.series.push_back({a.name, Draw::line_points, {}, {}, {}, {}, {}, a.colour, a.dashed});
  for (const Wire& w : wires)
    by_rank.series.push_back({w.name, Draw::line_points, {}, {}, {}, {}, {}, w.colour, w.tree});
  Lost last[std::size(accumulators)];
  double ring = 0, tree = 0;
  for (std::size_t n = 1; n <= most; n *= 2) {
    progress.at(static_cast<double>(n) / static_cast<double>(2 * most));
    const Vector exact = c.exact_mean(n);
    for (std::size_t k = 0; k < std::size(accumulators); ++k) {
      last[k] = accumulate(c, n, accumulators[k], exact);
      sums.add({static_cast<std::int64_t>(n), std::string(accumulators[k].name), percent_cell(last[k].error),
                100 * last[k].unchanged});
      by_batch.series[k].x.push_back(static_cast<double>(n));
      by_batch.series[k].y.push_back(last[k].error);
    }
    if (n == 1) continue;
    for (std::size_t k = 0; k < std::size(wires); ++k) {
      const Wire& w = wires[k];
      const double e =
          w.tree ? relative_error(tree_sum(c, 0, n, n, w.format), exact, 1) : ring_error(c, n, w.format, exact);
      reduce.add({static_cast<std::int64_t>(n), std::string(w.name), percent_cell(e)});
      by_rank.series[k].x.push_back(static_cast<double>(n));
      by_rank.series[k].y.push_back(e);
      if (k == 0) ring = e;
      if (k == 1) tree = e;
    }
  }
  std::size_t used = 1;
  while (used * 2 <= most) used *= 2;
  const std::string n_text = count_text(static_cast<std::int64_t>(used));
  Plot plot{"error",
            "",
            out.data.text + ", " + count_text(static_cast<std::int64_t>(c.width())) + " weights",
            {by_batch, by_rank},
            2,
            0,
            ""};
  plot.title = "After " + n_text + " micro-batches a BF16 sum is " + wrong_text(last[0].error) + ", an FP16 sum " +
               wrong_text(last[3].error) + ", FP32 " + wrong_text(last[5].error, 2);
  out.plots = {plot};
  out.tables = {sums, reduce};
  if (used > c.rows.rows)
    out.notes.push_back("There are " + std::to_string(c.rows.rows) +
                        " micro-batches; sums of more draw from them again.");
  out.finding = "A gradient summed over " + n_text + " micro-batches is " + wrong_text(last[0].error) +
                " in BF16 and " + wrong_text(last[5].error, 2) + " in FP32; a BF16 all-reduce over as many ranks is " +
                wrong_text(ring) + " as a ring, " + wrong_text(tree) + " as a tree.";
  return out;
}

const Register entered([]() -> Experiment {
  return {"gradient_accumulation",
          "What does a sum of many small gradients lose in a narrow accumulator?",
          5,
          {file_parameter("micro_batches", "tensor file; its first floating tensor has a micro-batch in each row"),
           integer_parameter("most", {256, 1024, 4096}, 2, 4096, "largest number of micro-batches and of ranks"),
           integer_parameter("seed", 1, 0, 1e15, "seed of the draws and of stochastic rounding")},
          run};
});

}  // namespace
}  // namespace analysis::of_gradient_accumulation

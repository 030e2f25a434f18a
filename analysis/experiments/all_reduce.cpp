// What does a sum over ranks lose, by algorithm, format, number of ranks and length of the message; and what FSDP's
// reduce_dtype costs.
#include <algorithm>
#include <bit>
#include <cmath>

#include "analysis/framework/experiment.hpp"
#include "analysis/recordings/micro_batches.hpp"
#include "narrow/array/array.hpp"
#include "narrow/cluster/reduce.hpp"

namespace analysis::of_all_reduce {
namespace {

using namespace narrow;
using enum PlotColour;
using cluster::Algorithm;

struct Sum {
  Algorithm algorithm;
  const char* format;
  bool scaled;  // into the range of the format, by a power of two
  PlotColour colour;
  bool drawn;
};
constexpr Sum sums[] = {
    {Algorithm::ring, "bf16", false, orange, true},      {Algorithm::tree, "bf16", false, orange, true},
    {Algorithm::fp32_once, "bf16", false, orange, true}, {Algorithm::ring, "fp16", true, blue, false},
    {Algorithm::tree, "fp16", true, blue, false},        {Algorithm::fp32_once, "fp16", true, blue, false},
    {Algorithm::ring, "e5m2", true, purple, true},       {Algorithm::tree, "e5m2", true, purple, false},
    {Algorithm::fp32_once, "e5m2", true, purple, true},  {Algorithm::ring, "fp32", false, ink, true},
    {Algorithm::tree, "fp32", false, ink, false},
};
constexpr const char* message_formats[] = {"bf16", "mxfp8_e4m3", "mxfp8_e5m2", "nvfp4"};

// Rank r brings row r of them, as far as `size` goes.
double error_of(const MicroBatches& m, std::size_t ranks, std::size_t size, const cluster::ReduceRequest& request,
                std::vector<double> exact, double scale = 1) {
  std::vector<const float*> rows;
  for (std::size_t r = 0; r < ranks; ++r) rows.push_back(m.row(r));
  const auto row = [&](std::size_t rank) { return rows[rank]; };
  const std::vector<float> got = cluster::emulate(ranks, size, cluster::read_rows(row), request);
  exact.resize(size);
  return relative_error({got.begin(), got.end()}, exact, scale);
}

MicroBatches scaled(MicroBatches m, double scale) {
  for (float& x : m.rows.data) x = static_cast<float>(static_cast<double>(x) * scale);
  return m;
}

// The largest power of two that lets no gradient overflow, and so no mean of them.
double scale_for(const MicroBatches& m, const Format& format) {
  double largest = 0;
  for (const float x : m.rows.data) largest = std::max(largest, std::fabs(static_cast<double>(x)));
  return std::ldexp(1.0, std::ilogb(decode(format.max_code(), format) / largest));
}

// FSDP reduce-scatters: a rank sends its gradient in reduce_dtype but for its own piece.
struct Fsdp {
  const char* dtype;
  const char* format;
  PlotColour colour;
};
constexpr Fsdp fsdp[] = {{"bfloat16", "bf16", orange}, {"float32", "fp32", ink}};

Outcome run(const Parameters& parameters, Progress& progress) {
  Outcome out;
  const auto most = std::bit_floor(static_cast<std::size_t>(parameters.integer("ranks")));
  const MicroBatches m =
      load_micro_batches(parameters.text("micro_batches"), static_cast<std::uint64_t>(parameters.integer("seed")), out);
  const std::size_t size = std::min(m.width(), static_cast<std::size_t>(parameters.integer("weights")));

  Table by_rank{
      "ranks",
      "Error of a gradient averaged over ranks, by algorithm and by the format on the wire",
      {integer_column("ranks"), text_column("algorithm"), text_column("format"), real_column("relative error", "%", 3)},
      {},
      "relative error: root mean square over " + std::to_string(size) +
          " weights, over that of the exact mean; a dash where a sum is Inf or the mean zero; for FP16 and E5M2 the "
          "gradients are "
          "multiplied by the largest power of two that lets none overflow; with 2^k ranks "
          "recursive doubling adds as the tree does",
      {}};
  Table by_dtype{"fsdp",
                 "Error of FSDP's reduce-scatter of BF16 gradients, by reduce_dtype",
                 {integer_column("ranks"), text_column("reduce_dtype"), real_column("relative error", "%", 3),
                  real_column("sent by a rank", "bytes/weight", 3)},
                 {},
                 "the gradients are rounded to BF16 first, as a backward pass under param_dtype=bfloat16 leaves them; "
                 "then a ring",
                 {}};
  Table by_size{"messages",
                "Error by the length of the message, in blocks that share a scale",
                {integer_column("weights"), text_column("format"), real_column("relative error", "%", 3),
                 real_column("on the wire", "bits/weight", 3)},
                {},
                "",
                {}};
  Panel ranks_panel, dtype_panel;
  ranks_panel.title = "by the number of ranks";
  ranks_panel.x = {"ranks", "", AxisScale::log2, {}, {}, {}, {}};
  ranks_panel.y = {"relative error of the mean", "", AxisScale::log10, {}, {}, {}, {}};
  dtype_panel = ranks_panel;
  dtype_panel.title = "FSDP's reduce_dtype";
  const auto draw = [](Panel& panel, const std::string& name, PlotColour colour, bool dashed, std::size_t n, double e) {
    auto found =
        std::find_if(panel.series.begin(), panel.series.end(), [&](const Series& s) { return s.name == name; });
    if (found == panel.series.end())
      found = panel.series.insert(panel.series.end(), {name, Draw::line_points, {}, {}, {}, {}, {}, colour, dashed});
    found->x.push_back(static_cast<double>(n)), found->y.push_back(e);
  };

  MicroBatches in_bf16 = m;
  round_array(in_bf16.rows.data, in_bf16.rows.data, "bf16"_fmt, {}, 0, 1);
  const double scales[] = {scale_for(m, "fp16"_fmt), scale_for(m, "e5m2"_fmt)};
  const MicroBatches for_fp16 = scaled(m, scales[0]), for_e5m2 = scaled(m, scales[1]);
  double last[std::size(sums)] = {}, last_dtype[std::size(fsdp)] = {};
  for (std::size_t n = 2; n <= most; n *= 2) {
    progress.at(static_cast<double>(n) / static_cast<double>(2 * most));
    const std::vector<double> exact = m.exact_mean(n);
    const auto ranks = static_cast<std::int64_t>(n);
    for (std::size_t k = 0; k < std::size(sums); ++k) {
      const std::string algorithm(name_of(sums[k].algorithm));
      const std::string format(sums[k].format);
      const bool is_fp16 = format == "fp16";
      const MicroBatches& brought = !sums[k].scaled ? m : is_fp16 ? for_fp16 : for_e5m2;
      last[k] = error_of(brought, n, size, {sums[k].algorithm, cluster::require_wire(format)}, exact,
                         !sums[k].scaled ? 1 : scales[is_fp16 ? 0 : 1]);
      by_rank.add({ranks, algorithm, format, percent_cell(last[k])});
      if (sums[k].drawn)
        draw(ranks_panel, format + ", " + algorithm, sums[k].colour, sums[k].algorithm != Algorithm::ring, n, last[k]);
    }
    for (std::size_t k = 0; k < std::size(fsdp); ++k) {
      const cluster::Wire wire = cluster::require_wire(fsdp[k].format);
      last_dtype[k] = error_of(in_bf16, n, size, {Algorithm::ring, wire}, exact);
      const double share = static_cast<double>(n - 1) / static_cast<double>(n);
      by_dtype.add({ranks, std::string(fsdp[k].dtype), percent_cell(last_dtype[k]),
                    share * static_cast<double>(cluster::value_bytes(wire))});
      draw(dtype_panel, fsdp[k].dtype, fsdp[k].colour, false, n, last_dtype[k]);
    }
  }
  const std::size_t few = std::min<std::size_t>(most, 16);
  by_size.note = "a ring of " + std::to_string(few) + " ranks: blocks lie along a piece, of which there are " +
                 std::to_string(few) + "; the error is over the weights of the message";
  const std::vector<double> exact = m.exact_mean(few);
  for (std::size_t length = std::min<std::size_t>(size, 32);; length = std::min(size, 4 * length)) {
    for (const char* format : message_formats) {
      const cluster::Wire wire = cluster::require_wire(format);
      std::size_t bytes = 0;
      for (std::size_t c = 0; c < few; ++c)
        bytes += cluster::packed_bytes((c + 1) * length / few - c * length / few, wire);
      by_size.add({static_cast<std::int64_t>(length), std::string(format),
                   percent_cell(error_of(m, few, length, {Algorithm::ring, wire}, exact)),
                   8 * static_cast<double>(bytes) / static_cast<double>(length)});
    }
    if (length == size) break;
  }

  const std::string n_text = count_text(static_cast<std::int64_t>(most));
  Plot plot{"error",
            "",
            out.data.text + ", " + count_text(static_cast<std::int64_t>(size)) + " weights",
            {ranks_panel, dtype_panel},
            2,
            0,
            ""};
  plot.title = "Over " + n_text + " ranks a BF16 ring is " + wrong_text(last[0]) + ", a tree " + wrong_text(last[1]) +
               ", an FP32 sum rounded once " + wrong_text(last[2]);
  out.plots = {plot};
  out.tables = {by_rank, by_dtype, by_size};
  out.notes.push_back("A rank brings one micro-batch, a row of the data" +
                      std::string(most > m.rows.rows
                                      ? "; there are " + std::to_string(m.rows.rows) +
                                            ", and ranks beyond them bring one of these again, drawn at random."
                                      : "."));
  out.notes.push_back(
      "The sums are computed in one process, in the order and with the roundings of each algorithm; no "
      "cluster was measured.");
  out.finding =
      "A gradient averaged over " + n_text + " ranks is " + wrong_text(last[0]) + " as a BF16 ring, " +
      wrong_text(last[1]) + " as a tree, " + wrong_text(last[2]) +
      " when it is added in FP32 and rounded once; of BF16 gradients FSDP's reduce_dtype=bfloat16 makes one " +
      "that is " + wrong_text(last_dtype[0]) + ", reduce_dtype=float32 one that is " + wrong_text(last_dtype[1]) +
      ", for twice the bytes.";
  return out;
}

const Register entered([]() -> Experiment {
  return {"all_reduce",
          "What does a gradient lose on its way through an all-reduce, by algorithm, format and number of ranks?",
          16,
          {file_parameter("micro_batches", "tensor file; its first floating tensor has a micro-batch in each row"),
           integer_parameter("ranks", {256, 16384, 16384}, 2, 16384, "largest number of ranks; powers of two up to it"),
           integer_parameter("weights", {512, 2048, 1e6}, 1, 1e6, "most weights of a message"),
           integer_parameter("seed", 1, 0, 1e15, "seed of the draws")},
          run};
});

}  // namespace
}  // namespace analysis::of_all_reduce

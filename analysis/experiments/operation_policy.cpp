// What does each operation lose when it is computed in each format, and is that why autocast lists what it lists?
#include <algorithm>
#include <cmath>
#include <functional>

#include "analysis/experiments/operations.hpp"
#include "analysis/framework/experiment.hpp"
#include "analysis/framework/shares.hpp"
#include "analysis/recordings/inputs.hpp"
#include "narrow/dot/models.hpp"
#include "narrow/format/find_format.hpp"

namespace analysis::of_operation_policy {
namespace {

using namespace narrow;
using enum PlotColour;

constexpr NamedFormat formats[] = {
    {"FP32", "fp32"_fmt}, {"FP16", "fp16"_fmt}, {"BF16", "bf16"_fmt}, {"E4M3", "e4m3"_fmt}, {"E5M2", "e5m2"_fmt}};

struct Matrix {
  Numbers data;
  std::size_t cols = 0;
};
struct Inputs {
  Matrix logits, residual, branch, normalised, weights;
};

// So many values a tensor must have at least: the longest sum.
constexpr std::size_t summed = 4096;

Inputs recorded_inputs(const std::string& path) {
  const std::vector<Values> all = read_values_of(path);
  const auto take = [&](const char* name) {
    const Values* v = find_values(all, name);
    if (v == nullptr) throw Error(path + ": there is no tensor " + name);
    NotFinite not_finite;
    not_finite.add(*v);
    if (not_finite.any())
      throw Error(path + ": " + name + " has " + not_finite.text() + "; operations are measured on finite numbers");
    if (std::all_of(v->data.begin(), v->data.end(), [](float x) { return x == 0; }))
      throw Error(path + ": " + name + " is zero everywhere; there is nothing to measure");
    if (v->data.size() < summed)
      throw Error(path + ": " + name + " has " + std::to_string(v->data.size()) + " values; it needs " +
                  std::to_string(summed) + " or more");
    return Matrix{{v->data.begin(), v->data.end()}, v->cols};
  };
  const auto same = [&](bool equal, const char* what) {
    if (!equal) throw Error(path + ": " + what);
  };
  Inputs in{take("act.head"), take("act.blocks.3.residual"), take("act.blocks.0.residual"), take("act.blocks.3.ln2"),
            take("weight.blocks.3.up.weight")};
  same(in.residual.cols == in.branch.cols && in.residual.data.size() == in.branch.data.size(),
       "act.blocks.3.residual and act.blocks.0.residual differ in shape; they are added and need the same");
  same(in.normalised.cols == in.weights.cols,
       "act.blocks.3.ln2 and weight.blocks.3.up.weight differ in their last dimension; their product needs the same");
  return in;
}

Inputs made_inputs(std::uint64_t seed) {
  const auto make = [&](double deviation, std::uint64_t own) {
    const std::vector<float> v = normal_values(128 * 256, deviation, seed + own);
    return Matrix{{v.begin(), v.end()}, 256};
  };
  return {make(3, 1), make(1, 2), make(1, 3), make(1, 4), make(0.05, 5)};
}

// The lists of PyTorch's CUDA autocast: FP16, FP32, the widest of several inputs; what is on none takes what it gets.
// Buffers are no operation and stay as the model has them, in FP32.
enum class Listed : std::uint8_t { fp16, fp32, widest, neither, buffer };

struct Operation {
  std::string name;
  Listed listed;
  std::string entry;  // of the list, or the function that is on none
  std::function<Numbers(const Rounder&)> run;
};

// Kernels of 3 places a dimension over 16 channels; no tensor needs more than the longest sum.
constexpr std::size_t channels = 16, outputs = 8, sides[] = {64, 16, 6};
constexpr std::size_t batches = 300;

Operation convolution_on(const Inputs& in, std::size_t dimensions) {
  const std::string d = std::to_string(dimensions);
  std::size_t k = channels;
  for (std::size_t i = 0; i < dimensions; ++i) k *= 3;
  const Numbers windows = windows_of(in.normalised.data, dimensions, sides[dimensions - 1], channels);
  const Numbers weights(in.weights.data.begin(), in.weights.data.begin() + static_cast<std::ptrdiff_t>(k * outputs));
  return {"convolution " + d + "d, FP32 sums", Listed::fp16, "conv" + d + "d",
          [=](const Rounder& r) { return matmul_of(windows, weights, k, r.format, false); }};
}

std::vector<Operation> operations_on(const Inputs& in) {
  const Matrix &logits = in.logits, &residual = in.residual;
  const Numbers probabilities = softmax_of(logits.data, logits.cols, {});
  const auto product = [&in](const Rounder& r, bool narrow_sums) {
    return matmul_of(in.normalised.data, in.weights.data, in.weights.cols, r.format, narrow_sums);
  };
  const Numbers before_gelu = product({}, false);
  const Numbers after_gelu = gelu_of(before_gelu, {});
  return {
      {"matmul, FP32 sums", Listed::fp16, "matmul, linear", [product](const Rounder& r) { return product(r, false); }},
      convolution_on(in, 1),
      convolution_on(in, 2),
      convolution_on(in, 3),
      {"matmul, sums in the format", Listed::fp16, "matmul, linear",
       [product](const Rounder& r) { return product(r, true); }},
      {"residual add", Listed::neither, "add",
       [&in](const Rounder& r) { return add_of(in.residual.data, in.branch.data, r); }},
      {"GELU", Listed::neither, "gelu", [before_gelu](const Rounder& r) { return gelu_of(before_gelu, r); }},
      {"exp", Listed::fp32, "exp", [&logits](const Rounder& r) { return exp_of(logits.data, r); }},
      {"log of probabilities", Listed::fp32, "log",
       [probabilities](const Rounder& r) { return log_of(probabilities, r); }},
      {"softmax", Listed::fp32, "softmax",
       [&logits](const Rounder& r) { return softmax_of(logits.data, logits.cols, r); }},
      {"cross entropy", Listed::fp32, "cross_entropy",
       [&logits](const Rounder& r) { return cross_entropy_of(logits.data, logits.cols, r); }},
      {"mean squared error", Listed::fp32, "mse_loss",
       [&in, &residual](const Rounder& r) { return mse_of(residual.data, in.branch.data, residual.cols, r); }},
      {"dot of " + std::to_string(summed), Listed::widest, "dot, tensordot",
       [&in](const Rounder& r) { return dot_of(in.residual.data, in.branch.data, summed, r); }},
      {"LayerNorm", Listed::fp32, "layer_norm",
       [&residual](const Rounder& r) { return layer_norm_of(residual.data, residual.cols, r); }},
      {"batch norm", Listed::neither, "batch_norm",
       [&residual](const Rounder& r) { return batch_norm_of(residual.data, residual.cols, r); }},
      {"running mean", Listed::buffer, "batch_norm",
       [&residual](const Rounder& r) { return running_of(residual.data, residual.cols, Statistic::mean, batches, r); }},
      {"running variance", Listed::buffer, "batch_norm",
       [&residual](const Rounder& r) {
         return running_of(residual.data, residual.cols, Statistic::variance, batches, r);
       }},
      {"variance of " + std::to_string(residual.cols), Listed::neither, "var",
       [&residual](const Rounder& r) { return variance_of(residual.data, residual.cols, r); }},
      {"sum of " + std::to_string(summed), Listed::fp32, "sum",
       [after_gelu](const Rounder& r) { return sum_of(after_gelu, summed, r); }},
  };
}

const char* list_name(Listed listed) {
  constexpr const char* names[] = {"FP16", "FP32", "the widest of its inputs", "as its inputs", "FP32, a buffer"};
  return names[static_cast<std::size_t>(listed)];
}

Outcome run(const Parameters& parameters, Progress& progress) {
  Outcome out;
  const std::string& file = parameters.text("recording");
  const std::optional<std::string> path = file.empty() ? find_data("torch/step300.safetensors") : file;
  const Inputs in = path ? recorded_inputs(*path) : made_inputs(static_cast<std::uint64_t>(parameters.integer("seed")));
  out.data = !file.empty() ? Source(file_text(file))
             : path        ? recorded_text("tensors of a byte-level GPT at training step 300")
                           : Source(made_text);
  out.evidence.push_back(basis_of(hardware_model("hopper.wgmma.f32.f16.f16")));  // and its siblings, for products
  if (!path) out.notes.push_back(no_recordings_note("the tensors are made of normal numbers"));

  Table t{"by_operation",
          "Relative error of each operation when every result, sums included, is rounded to one format",
          {text_column("operation"), text_column("autocast runs it in"), text_column("PyTorch's name")},
          {},
          "root mean square error over root mean square of the result in double, undefined (a dash) once a result "
          "overflowed; not finite: share of results that did; sums run one after the other in the format, without the "
          "FP32 accumulator that "
          "kernels "
          "usually have; 8-bit products with FP32 sums have a scale a tensor and give BF16; convolutions slide the "
          "weights over the activations as if these were a line, an image or a volume of 16 channels; running mean "
          "and variance: what 0.9 running + 0.1 batch in the format is after 300 batches. What autocast runs it in: "
          "PyTorch's documentation, Automatic Mixed Precision package, CUDA ops that can autocast to float16, to "
          "float32, and that promote to the widest input type; on no list: as its inputs (batch norm then computes "
          "narrow inputs with FP32 statistics)",
          {}};
  Panel map;
  map.cells = {"relative error", "", true, 2};
  for (const NamedFormat& f : formats) {
    map.x.categories.emplace_back(f.name);
    t.columns.push_back(real_column(std::string(f.name), "", 3));
    t.columns.push_back(real_column(std::string(f.name) + ", not finite", "%", 3));
  }
  Series cells{"", Draw::cells, {}, {}, {}, {}, {}};
  const std::vector<Operation> operations = operations_on(in);
  OperationError matmul[2], softmax[2], convolution[2], running[2];  // FP16, BF16
  // Of what autocast keeps in FP32: the operation that each format damages most. To overflow is worse than any error.
  OperationError worst[2];
  std::string worst_name[2];
  const auto is_worse = [](const OperationError& a, const OperationError& b) {
    return a.not_finite != b.not_finite ? a.not_finite > b.not_finite : a.relative > b.relative;
  };
  for (std::size_t o = 0; o < operations.size(); ++o) {
    const Operation& op = operations[o];
    progress.at(static_cast<double>(o) / static_cast<double>(operations.size()), op.name);
    const Numbers reference = op.run({});
    std::vector<Cell> row = {op.name, std::string(list_name(op.listed)), op.entry};
    const auto y = static_cast<double>(o);
    OperationError own[2];
    for (std::size_t f = 0; f < std::size(formats); ++f) {
      const OperationError e = error_of(op.run({&formats[f].format}), reference);
      row.push_back(std::isnan(e.relative) ? Cell{} : Cell{e.relative});
      row.push_back(100 * e.not_finite);
      if (e.not_finite > 0) {
        map.notes.push_back({static_cast<double>(f) - 0.42, y, percent_text(e.not_finite, 2) + " Inf, NaN", vermilion});
      } else if (!std::isnan(e.relative)) {
        cells.x.push_back(static_cast<double>(f)), cells.y.push_back(y), cells.value.push_back(e.relative);
      }
      if (f == 1 || f == 2) {
        own[f - 1] = e;
        if (o == 0) matmul[f - 1] = e;
        if (op.name == "softmax") softmax[f - 1] = e;
        if (op.entry == "conv2d") convolution[f - 1] = e;
        if (op.name == "running variance") running[f - 1] = e;
      }
    }
    for (const std::size_t f : {0u, 1u})
      if (op.listed == Listed::fp32 && (worst_name[f].empty() || is_worse(own[f], worst[f])))
        worst[f] = own[f], worst_name[f] = op.name;
    t.add(row);
    map.y.categories.push_back(op.name + "  [" + list_name(op.listed) + "]");
  }
  map.series = {cells};
  Plot plot{"errors", "", out.data.text + "; in brackets: what PyTorch's autocast runs the operation in", {map}, 1,
            880,      ""};
  const auto lost = [](const OperationError& e) {
    return e.not_finite > 0         ? percent_text(e.not_finite, 2) + " Inf or NaN"
           : std::isnan(e.relative) ? std::string("undefined")
                                    : percent_text(e.relative, 2) + " off";
  };
  plot.title = "FP16: a matmul with FP32 sums is " + lost(matmul[0]) + ", but " + worst_name[0] + " " + lost(worst[0]);
  out.plots = {plot};
  out.tables = {t};
  out.finding = "With FP32 sums a matmul is " + lost(matmul[0]) +
                " in FP16; of what autocast keeps in FP32 the worst would be " + lost(worst[0]) + " in FP16 (" +
                worst_name[0] + ") and " + lost(worst[1]) + " in BF16 (" + worst_name[1] + "), softmax " +
                lost(softmax[0]) + " and " + lost(softmax[1]) + ". A convolution over two dimensions is " +
                lost(convolution[0]) + " and " + lost(convolution[1]) +
                "; the running variance of a batch norm that is kept in FP16 is " + lost(running[0]) + " after " +
                std::to_string(batches) + " batches, in BF16 " + lost(running[1]) + ".";
  return out;
}

const Register entered([]() -> Experiment {
  return {"operation_policy",
          "What does each operation lose in each format, and why does autocast keep some in FP32?",
          9,
          {file_parameter("recording", "file with the tensors of data/torch/step300.safetensors instead of it"),
           integer_parameter("seed", 1, 0, 1e15, "seed of made tensors, when there is no recording")},
          run};
});

}  // namespace
}  // namespace analysis::of_operation_policy

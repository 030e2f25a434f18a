// What do a parameter and an activation cost in bytes, and a product in time, under each recipe?
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "experiment.hpp"
#include "inputs.hpp"
#include "narrow/train/recipe.hpp"

namespace analysis {
namespace {

using namespace narrow;
using train::Operation;

// ---- Memory ----

// A transformer by its sizes, all per token or per layer.
struct Sizes {
  double layers, width, feed_forward, heads, vocabulary, context;

  // Four width x width matrices of attention, two of the feed-forward part, two tables of the vocabulary (in, out).
  double parameters() const { return layers * (4 * width * width + 2 * width * feed_forward) + 2 * vocabulary * width; }
};

// Bytes of one element; scales of blocks are part of the price.
double bytes_of(const train::Precision& p) {
  if (p.scaling == train::Scaling::none || p.scaling == train::Scaling::tensor_delayed) return p.format.width() / 8.0;
  return train::block_format_of(p).bits_per_element() / 8;
}

struct ParameterBytes {
  double kept, copy, gradient, moments, compensation;
  double sum() const { return kept + copy + gradient + moments + compensation; }
};

// AdamW: the parameters, a copy in the format of the products where that is another, a gradient, two moments.
ParameterBytes parameter_bytes(const train::Policy& policy) {
  const train::TrainingPolicy& t = policy.training;
  const double kept = bytes_of(t.parameters), used = bytes_of(policy[Operation::linear].weights);
  const bool copies = policy[Operation::linear].weights.format != t.parameters.format;
  return {kept, copies ? used : 0, bytes_of(t.gradient_accumulation), 2 * bytes_of(t.optimiser_state),
          t.kahan ? kept : 0};
}

struct ActivationBytes {
  double residual, products, attention, activation, softmax;
  double sum() const { return residual + products + attention + activation + softmax; }
};

// What one token leaves in one layer for the backward pass, without dropout and without recomputation:
//   inputs of two norms (the residual stream)                         2 w
//   inputs of the products: QKV, projection, up, down                 3 w + f
//   queries, keys, values                                             3 w
//   input of the activation function                                  f
//   softmax: one row of `context` a head                              heads * context
// In 16 bits this is 32 w + 2 heads * context bytes for f = 4 w: the count of Korthikanti et al., "Reducing activation
// recomputation in large transformer models", 2022, less its dropout.
ActivationBytes activation_bytes(const train::Policy& p, const Sizes& m) {
  return {2 * m.width * bytes_of(p[Operation::residual].output),
          (3 * m.width + m.feed_forward) * bytes_of(p[Operation::linear].activations),
          3 * m.width * bytes_of(p[Operation::scores].activations),
          m.feed_forward * bytes_of(p[Operation::activation].activations),
          m.heads * m.context * bytes_of(p[Operation::softmax].output)};
}

// ---- Speed ----

// Dense rates of the vendor's tables, TFLOP/s: NVIDIA A100 SXM datasheet (2021), H100/H200 SXM datasheets (2023, 2024),
// HGX B200 datasheet (2025; an eighth of the board). 0: the GPU has no such unit. recorded: the line of
// data/golden/h200-bench.txt.
struct RateRow {
  const char* type;
  const char* recorded;
  double a100, h200, b200;
};
constexpr RateRow rate_rows[] = {
    {"fp32", "cuBLASLt fp32 ", 19.5, 67, 75},
    {"tf32", "cuBLASLt tf32 ", 156, 494.7, 1100},
    {"fp16", "cuBLASLt f16 ", 312, 989.4, 2250},
    {"bf16", "cuBLASLt bf16-bf16 ", 312, 989.4, 2250},
    {"fp8", "cuBLASLt e4m3-bf16 ", 0, 1978.9, 4500},
    {"int8", "cuBLASLt s8 ", 624, 1978.9, 4500},
    {"fp4", "", 0, 0, 9000},
};

// The number in the second column of the line that starts so; 0 when there is none.
double recorded_rate(const std::string& file, const std::string& line) {
  const std::size_t at = line.empty() ? std::string::npos : file.find("| " + line);
  const std::size_t bar = at == std::string::npos ? at : file.find('|', at + 2);
  if (bar == std::string::npos) return 0;
  const double rate = std::strtod(file.c_str() + bar + 1, nullptr);
  return rate > 0 && std::isfinite(rate) ? rate : 0;
}

std::string recorded_rates() {
  const std::optional<std::string> path = find_data("golden/h200-bench.txt");
  if (!path) return "";
  std::ifstream file(*path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Of the rates that the finding compares (FP32, BF16, FP8), those that the recording does not have.
std::string missing_rates(const std::string& file) {
  std::string names;
  for (const std::size_t row : {0u, 3u, 4u})
    if (recorded_rate(file, rate_rows[row].recorded) == 0)
      names += (names.empty() ? "" : ", ") + std::string(rate_rows[row].type);
  return names;
}

Panel lying_bars(const std::string& title, const std::string& label, const std::vector<std::string>& names) {
  Panel panel;
  panel.title = title;
  panel.horizontal = true;
  panel.bars = BarLayout::stacked;
  panel.bar_width = 0.72;
  panel.value_digits = 3;
  panel.x.label = label;
  panel.y.categories = names;
  return panel;
}

void add_bars(Panel& panel, const std::string& name, PlotColour colour, const std::vector<double>& lengths) {
  Series s{.name = name, .draw = Draw::bars, .colour = colour};
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    s.x.push_back(static_cast<double>(i));
    s.y.push_back(lengths[i]);
  }
  panel.series.push_back(std::move(s));
}

Outcome run(const Parameters& parameters, Progress&) {
  const double width = static_cast<double>(parameters.integer("width"));
  const double given = static_cast<double>(parameters.integer("feed_forward"));
  const Sizes model{static_cast<double>(parameters.integer("layers")),
                    width,
                    given > 0 ? given : 4 * width,
                    static_cast<double>(parameters.integer("heads")),
                    static_cast<double>(parameters.integer("vocabulary")),
                    static_cast<double>(parameters.integer("context"))};
  const double tokens = static_cast<double>(parameters.integer("tokens"));
  const bool keeps_softmax = parameters.text("attention_kernel") == "plain";
  constexpr const char* recipes[] = {"fp32",  "fp16-amp",        "bf16-amp", "fp8-current",
                                     "mxfp8", "bf16-pure-kahan", "bf16-pure"};

  Outcome out;
  Table memory{
      "memory",
      "Bytes of a parameter and of a token, and gigabytes of the model",
      {text_column("recipe"), fixed_column("parameter kept", "bytes"), fixed_column("copy for products", "bytes"),
       fixed_column("gradient", "bytes"), fixed_column("moments", "bytes"), fixed_column("compensation", "bytes"),
       fixed_column("sum per parameter", "bytes"), fixed_column("activations", "KB/token/layer"),
       fixed_column("states", "GB"), fixed_column("activations of the batch", "GB")},
      {},
      "AdamW, no sharding; the copy is the cast that autocast keeps for the products of a step. KB and GB are powers "
      "of ten.",
      {}};
  std::vector<std::string> names;
  std::vector<ParameterBytes> states;
  std::vector<ActivationBytes> kept;
  for (const char* name : recipes) {
    const train::Recipe recipe = train::require_recipe(name);
    states.push_back(parameter_bytes(recipe.policy));
    kept.push_back(activation_bytes(recipe.policy, model));
    if (!keeps_softmax) kept.back().softmax = 0;
    names.emplace_back(name);
    const ParameterBytes& s = states.back();
    memory.add({std::string(name), s.kept, s.copy, s.gradient, s.moments, s.compensation, s.sum(),
                kept.back().sum() / 1e3, s.sum() * model.parameters() / 1e9,
                kept.back().sum() * model.layers * tokens / 1e9});
  }
  const auto each = [&](const auto& list, auto part, double unit) {
    std::vector<double> lengths;
    for (const auto& row : list) lengths.push_back(row.*part / unit);
    return lengths;
  };
  Panel bytes = lying_bars("state of one parameter (AdamW)", "bytes", names);
  add_bars(bytes, "parameter", PlotColour::blue, each(states, &ParameterBytes::kept, 1));
  add_bars(bytes, "copy for products", PlotColour::sky, each(states, &ParameterBytes::copy, 1));
  add_bars(bytes, "gradient", PlotColour::orange, each(states, &ParameterBytes::gradient, 1));
  add_bars(bytes, "two moments", PlotColour::grey, each(states, &ParameterBytes::moments, 1));
  add_bars(bytes, "compensation", PlotColour::purple, each(states, &ParameterBytes::compensation, 1));
  Panel activations = lying_bars("what one token leaves in one layer", "KB", names);
  add_bars(activations, "inputs of products", PlotColour::blue, each(kept, &ActivationBytes::products, 1e3));
  add_bars(activations, "Q, K, V", PlotColour::sky, each(kept, &ActivationBytes::attention, 1e3));
  add_bars(activations, "inputs of norms", PlotColour::orange, each(kept, &ActivationBytes::residual, 1e3));
  add_bars(activations, "input of GELU", PlotColour::grey, each(kept, &ActivationBytes::activation, 1e3));
  if (keeps_softmax) add_bars(activations, "softmax", PlotColour::purple, each(kept, &ActivationBytes::softmax, 1e3));

  // Six operations a parameter and token: two forward, four backward.
  const double flops = 6 * model.parameters();
  const std::string file = recorded_rates();
  Table rates{"rates",
              "Dense matrix products: rates of GPUs, measured and as the vendor says",
              {text_column("type"), real_column("H200 measured", "TFLOP/s", 4), real_column("H200 table", "TFLOP/s", 4),
               fixed_column("reached", "%", 1), real_column("A100 table", "TFLOP/s", 4),
               real_column("B200 table", "TFLOP/s", 4), real_column("tokens per second, H200 measured", "", 3)},
              {},
              "Measured: cuBLASLt, 8192 x 8192 x 8192, one H200 SXM (data/golden/h200-bench.txt). Tokens: if training "
              "were nothing but products at that rate.",
              {}};
  Panel speed = lying_bars("", "TFLOP/s", {});
  speed.bars = BarLayout::grouped;
  std::vector<double> measured, table;
  const auto rate_cell = [](double rate) { return rate > 0 ? Cell(rate) : Cell(); };
  for (const RateRow& row : rate_rows) {
    const double rate = recorded_rate(file, row.recorded);
    rates.add({std::string(row.type), rate_cell(rate), rate_cell(row.h200),
               rate > 0 ? Cell(100 * rate / row.h200) : Cell(), rate_cell(row.a100), rate_cell(row.b200),
               rate > 0 ? Cell(rate * 1e12 / flops) : Cell()});
    if (row.h200 == 0) continue;
    speed.y.categories.emplace_back(row.type);
    measured.push_back(rate > 0 ? rate : NAN);
    table.push_back(row.h200);
  }
  add_bars(speed, "measured", PlotColour::blue, measured);
  add_bars(speed, "vendor's table", PlotColour::grey, table);
  const std::string missing = missing_rates(file);
  if (file.empty()) out.notes.push_back(no_recordings_note("the rates are those of the vendor's tables"));
  else if (!missing.empty())
    out.notes.push_back("data/golden/h200-bench.txt has no rate of " + missing +
                        ": the rates of the finding are those of the vendor's tables.");

  // All from one source: a measured rate over a table's would compare two things.
  const auto rate_of = [&](std::size_t row) {
    return missing.empty() ? recorded_rate(file, rate_rows[row].recorded) : rate_rows[row].h200;
  };
  const double faster = rate_of(3) / rate_of(0), fp8 = rate_of(4) / rate_of(3);
  const std::string size = fixed_text(model.parameters() / 1e9, 1);
  const std::string saving = fixed_text(100 * (1 - kept[2].sum() / kept[0].sum()), 0);
  Plot cost{"memory",
            "Mixed precision keeps " + fixed_text(states[2].sum(), 0) + " bytes a parameter, FP32 " +
                fixed_text(states[0].sum(), 0) + ": what shrinks is the activations, by " + saving + " %",
            "A transformer of " + size + " billion parameters, " + fixed_text(model.layers, 0) + " layers of width " +
                shown_text(integer_column(""), std::int64_t(width)),
            {bytes, activations},
            2,
            0,
            ""};
  Plot quick{"rates",
             "An H200 multiplies " + fixed_text(faster, 1) + " times as fast in BF16 as in FP32, and " +
                 fixed_text(fp8, 2) + " times as fast again in FP8",
             "Dense products of 8192 x 8192 matrices through cuBLASLt, beside the vendor's table",
             {speed},
             1,
             0,
             ""};
  out.finding = "Mixed precision saves no memory on the state of a parameter (" + fixed_text(states[2].sum(), 0) +
                " bytes with AdamW, FP32 " + fixed_text(states[0].sum(), 0) + "), " +
                (kept[2].sum() < 0.995 * kept[0].sum() ? "but " + saving + " %" : std::string("and hardly any")) +
                " of the activations, and products run " + fixed_text(faster, 1) + " times as fast in BF16 and " +
                fixed_text(faster * fp8, 1) + " times in FP8.";
  out.data = missing.empty() ? recorded_text("rates of an H200; bytes are counted")
                             : Source("the vendor's tables; bytes are counted");
  out.evidence = {{Evidence::published, "rates of the vendor's tables"}, {Evidence::by_definition, "bytes, counted"}};
  out.tables = {std::move(memory), std::move(rates)};
  out.plots = {std::move(cost), std::move(quick)};
  return out;
}

const Register entered(
    {"memory_and_speed",
     "What does each recipe cost in bytes, and what does it gain in speed?",
     11,
     {integer_parameter("layers", 32, 1, 1000, "layers of the transformer"),
      integer_parameter("width", 4096, 16, 1e6, "width of the residual stream"),
      integer_parameter("feed_forward", 0, 0, 1e7, "width of the feed-forward part; 0: four times the width"),
      integer_parameter("heads", 32, 1, 10000, "attention heads"),
      integer_parameter("vocabulary", 32000, 1, 1e7, "tokens of the vocabulary"),
      integer_parameter("context", 4096, 1, 1e8, "length of a sequence"),
      integer_parameter("tokens", 4096, 1, 1e9, "tokens of one micro-batch"),
      choice_parameter("attention_kernel", {"fused", "plain"}, "fused attention keeps no softmax, plain does")},
     run});

}  // namespace
}  // namespace analysis

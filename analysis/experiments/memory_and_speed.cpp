// What do a parameter and an activation cost in bytes, and a product in time, under each recipe?
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>

#include "analysis/framework/experiment.hpp"
#include "analysis/recordings/inputs.hpp"
#include "analysis/recordings/recorded_steps.hpp"
#include "narrow/tensor/file_text.hpp"
#include "narrow/train/policy/recipe.hpp"
#include "narrow/train/run/memory.hpp"

namespace analysis::of_memory_and_speed {
namespace {

using namespace narrow;
using train::ActivationBytes;
using train::ParameterBytes;

// ---- Speed ----

// Dense rates as the vendor says them, TFLOP/s. 0: the device has no such unit.
struct DeviceRates {
  const char* name;
  double fp32, tf32, fp16, bf16, fp8, int8, fp4;
  double gigabytes, bandwidth;  // of memory, and GB/s
  const char* source;
  int year;
};
constexpr DeviceRates device_rates[] = {
    {"V100 SXM2", 15.7, 0, 125, 0, 0, 0, 0, 32, 900, "NVIDIA V100 datasheet", 2020},
    {"A100 SXM", 19.5, 156, 312, 312, 0, 624, 0, 80, 2039, "NVIDIA A100 datasheet", 2021},
    {"H100 SXM", 67, 494.7, 989.4, 989.4, 1978.9, 1978.9, 0, 80, 3350,
     "NVIDIA H100 whitepaper; FP32 and memory: datasheet", 2023},
    {"H200 SXM", 67, 494.7, 989.4, 989.4, 1978.9, 1978.9, 0, 141, 4800,
     "as H100 (the same chip); memory: NVIDIA H200 datasheet", 2024},
    {"B200 SXM", 75, 1100, 2250, 2250, 4500, 4500, 9000, 180, 7700,
     "NVIDIA Blackwell datasheet, HGX B200 per GPU, half of its sparse rates", 2025},
    {"TPU v4", 0, 0, 0, 275, 0, 275, 0, 32, 1200, "Google Cloud TPU v4 page", 2025},
};
constexpr const DeviceRates &a100 = device_rates[1], &h200 = device_rates[3], &b200 = device_rates[4];

// recorded: the line of data/golden/h200-bench.txt.
struct RateRow {
  const char* type;
  const char* recorded;
  double DeviceRates::*table;
};
constexpr RateRow rate_rows[] = {
    {"fp32", "cuBLASLt fp32 ", &DeviceRates::fp32},
    {"tf32", "cuBLASLt tf32 ", &DeviceRates::tf32},
    {"fp16", "cuBLASLt f16 ", &DeviceRates::fp16},
    {"bf16", "cuBLASLt bf16-bf16 ", &DeviceRates::bf16},
    {"fp8", "cuBLASLt e4m3-bf16 ", &DeviceRates::fp8},
    {"int8", "cuBLASLt s8 ", &DeviceRates::int8},
    {"fp4", "", &DeviceRates::fp4},
};
Cell rate_cell(double rate) { return rate > 0 ? Cell(rate) : Cell(); }

Table device_table() {
  Table t{"devices", "Rates and memory of devices, as their vendors say", {text_column("device")}, {}, "", {}};
  for (const RateRow& row : rate_rows) t.columns.push_back(real_column(row.type, "TFLOP/s", 5));
  for (const Column& c : {real_column("memory", "GB"), real_column("bandwidth", "GB/s"), text_column("vendor's table"),
                          text_column("year")})
    t.columns.push_back(c);
  t.note =
      "Dense products; a dash: no matrix unit for that type (fp32 on NVIDIA GPUs: without one). Not measured here.";
  for (const DeviceRates& d : device_rates) {
    std::vector<Cell> cells{std::string(d.name)};
    for (const RateRow& row : rate_rows) cells.push_back(rate_cell(d.*row.table));
    cells.insert(cells.end(), {d.gigabytes, d.bandwidth, std::string(d.source), std::to_string(d.year)});
    t.add(std::move(cells));
  }
  return t;
}

// ---- Recorded steps ----

// What the formulas say of a recorded step; NaN where they know too little of it. Gradients are freed after each
// update, so the peak is at the begin of the backward pass (all activations, no gradient) or at its end, whichever is
// more.
double counted_bytes(const RecordedStep& s) {
  const train::RecipeRow* row = train::find_recipe(s.recipe);
  const auto how = std::find(train::recompute_names.begin(), train::recompute_names.end(), s.recompute);
  if (row == nullptr || how == train::recompute_names.end() || s.layers * s.width * s.heads * s.vocabulary == 0)
    return NAN;
  const train::Policy policy = row->policy();
  const auto recompute = static_cast<train::Recompute>(how - train::recompute_names.begin());
  const train::TransformerSizes sizes{s.layers, s.width, 4 * s.width, s.heads, s.vocabulary, s.context};
  ParameterBytes b = parameter_bytes(policy);
  if (recompute == train::Recompute::full) b.copy = 0;
  const double tokens = s.batch * s.context, begin = tokens * peak_activation_bytes(policy, sizes, recompute),
               end = tokens * activation_bytes(policy, sizes).sum() + s.parameters * b.gradient;
  return s.parameters * (b.sum() - b.gradient) + std::max(begin, end);
}

Table step_table(const RecordedRows<RecordedStep>& recorded) {
  Table t{
      "steps",
      "Whole training steps of a GPT, recorded on " + recorded.gpu,
      {text_column("model"), text_column("recipe"), text_column("recompute"), text_column("mode"),
       fixed_column("step", "ms", 1), real_column("tokens per second", "", 4), fixed_column("against fp32", "x", 2),
       fixed_column("against tf32", "x", 2), fixed_column("peak memory", "GB", 2), fixed_column("counted", "GB", 2),
       fixed_column("counted of measured", "%", 0)},
      {},
      "Recorded by data/end-to-end/record.py: forward, backward, clipping and AdamW. Counted: the formulas of narrow "
      "memory, with gradients and activations in turns.",
      {}};
  for (const RecordedStep& s : recorded.rows) {
    const auto against = [&](std::string_view recipe) {
      const RecordedStep* other = find_step(recorded.rows, s, recipe);
      return other != nullptr ? Cell(s.tokens_per_second / other->tokens_per_second) : Cell();
    };
    const double counted = counted_bytes(s);
    const bool known = std::isfinite(counted);
    t.add({s.model, s.recipe, s.recompute, s.mode, s.milliseconds, s.tokens_per_second, against("fp32"),
           against("tf32"), s.bytes / 1e9, known ? Cell(counted / 1e9) : Cell(),
           known ? Cell(100 * counted / s.bytes) : Cell()});
  }
  return t;
}

Table operation_table(const RecordedRows<RecordedOperation>& recorded) {
  Table t{"elementwise",
          "Operations that wait for memory, recorded on " + recorded.gpu,
          {text_column("operation"), text_column("format"), real_column("time", "us"), real_column("bandwidth", "GB/s"),
           fixed_column("against fp32", "x", 2)},
          {},
          "Bandwidth: the bytes that the operation must read and write once, over its time.",
          {}};
  for (const RecordedOperation& o : recorded.rows) {
    const auto is_wide = [&](const RecordedOperation& x) { return x.name == o.name && x.format == "fp32"; };
    const auto wide = std::find_if(recorded.rows.begin(), recorded.rows.end(), is_wide);
    t.add({o.name, o.format, o.microseconds, o.gigabytes_per_second,
           wide != recorded.rows.end() ? Cell(wide->microseconds / o.microseconds) : Cell()});
  }
  return t;
}

// " Operations that wait for memory ran 1.1 to 1.9 times as fast in bf16."
std::string operation_finding(const Table& operations) {
  double least = HUGE_VAL, most = 0;
  for (const std::vector<Cell>& row : operations.rows)
    if (const double* times = std::get_if<double>(&row.back()); times && std::get<std::string>(row[1]) == "bf16")
      least = std::min(least, *times), most = std::max(most, *times);
  if (most == 0) return "";
  return " Operations that wait for memory ran " + fixed_text(least, 1) + " to " + fixed_text(most, 1) +
         " times as fast in bf16 as in fp32.";
}

// The largest model that was recorded under FP32 and under autocast; nullptr when there is none.
const RecordedStep* shown_step(const std::vector<RecordedStep>& steps) {
  const RecordedStep* best = nullptr;
  for (const RecordedStep& s : steps)
    if (s.recipe == "bf16-amp" && s.recompute == "none" && s.mode == "eager" &&
        find_step(steps, s, "fp32") != nullptr && (best == nullptr || s.parameters > best->parameters))
      best = &s;
  return best;
}

// " A whole step of gpt-1.4b ...", every number of it recorded or counted.
std::string step_finding(const RecordedRows<RecordedStep>& recorded) {
  const RecordedStep* amp = shown_step(recorded.rows);
  if (amp == nullptr) return "";
  const RecordedStep *fp32 = find_step(recorded.rows, *amp, "fp32"), *tf32 = find_step(recorded.rows, *amp, "tf32");
  const double counted = counted_bytes(*amp) / counted_bytes(*fp32);
  return " A whole step of " + amp->model + " under bf16-amp ran " +
         fixed_text(amp->tokens_per_second / fp32->tokens_per_second, 1) + " times as fast as under fp32" +
         (tf32 != nullptr
              ? ", " + fixed_text(amp->tokens_per_second / tf32->tokens_per_second, 1) + " times as under tf32,"
              : "") +
         " with " + fixed_text(amp->bytes / fp32->bytes, 2) + " of its peak memory" +
         (std::isfinite(counted) ? " (counted: " + fixed_text(counted, 2) + ")." : ".");
}

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
  return read_text(*path);
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
  const bool keeps_softmax = parameters.text("attention_kernel") == "plain";
  const train::TransformerSizes model{static_cast<double>(parameters.integer("layers")),
                                      width,
                                      given > 0 ? given : 4 * width,
                                      static_cast<double>(parameters.integer("heads")),
                                      static_cast<double>(parameters.integer("vocabulary")),
                                      static_cast<double>(parameters.integer("context")),
                                      !keeps_softmax};
  const double tokens = static_cast<double>(parameters.integer("tokens"));
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
  for (const RateRow& row : rate_rows) {
    const double rate = recorded_rate(file, row.recorded);
    const double said = h200.*row.table;
    rates.add({std::string(row.type), rate_cell(rate), rate_cell(said), rate > 0 ? Cell(100 * rate / said) : Cell(),
               rate_cell(a100.*row.table), rate_cell(b200.*row.table), rate > 0 ? Cell(rate * 1e12 / flops) : Cell()});
    if (said == 0) continue;
    speed.y.categories.emplace_back(row.type);
    measured.push_back(rate > 0 ? rate : NAN);
    table.push_back(said);
  }
  add_bars(speed, "measured", PlotColour::blue, measured);
  add_bars(speed, "vendor's table", PlotColour::grey, table);
  const std::string missing = missing_rates(file);
  if (!find_data("golden/h200-bench.txt"))
    out.notes.push_back(no_recordings_note("the rates are those of the vendor's tables, without steps,"));
  else if (!missing.empty())
    out.notes.push_back("data/golden/h200-bench.txt has no rate of " + missing +
                        ": the rates of the finding are those of the vendor's tables.");

  // All from one source: a measured rate over a table's would compare two things.
  const auto rate_of = [&](std::size_t row) {
    return missing.empty() ? recorded_rate(file, rate_rows[row].recorded) : h200.*rate_rows[row].table;
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
  out.evidence = {{Evidence::published, "rates of the vendors' tables"}, {Evidence::by_definition, "bytes, counted"}};
  std::string no_steps, no_operations;
  const RecordedRows<RecordedStep> steps = load_steps(no_steps);
  const RecordedRows<RecordedOperation> operations = load_operations(no_operations);
  out.finding += step_finding(steps);
  out.tables = {std::move(memory), std::move(rates), device_table()};
  if (!steps.rows.empty()) out.tables.push_back(step_table(steps));
  else if (!no_steps.empty()) out.notes.push_back("No whole steps: " + no_steps);
  if (!operations.rows.empty()) {
    out.tables.push_back(operation_table(operations));
    out.finding += operation_finding(out.tables.back());
  } else if (!no_operations.empty()) {
    out.notes.push_back("No memory-bound operations: " + no_operations);
  }
  const std::string what = missing.empty() ? (steps.rows.empty() ? "rates" : "rates and whole steps") : "whole steps";
  out.data = missing.empty() || !steps.rows.empty() ? recorded_text(what + "; bytes are counted")
                                                    : Source("the vendor's tables; bytes are counted");
  out.plots = {std::move(cost), std::move(quick)};
  return out;
}

const Register entered([]() -> Experiment {
  return {"memory_and_speed",
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
          run};
});

}  // namespace
}  // namespace analysis::of_memory_and_speed

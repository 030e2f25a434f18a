// Statements about what people meet when they train: whole steps, switches, devices, the order of calls.

#include "analysis/claims/claims.hpp"
#include "analysis/framework/training_runs.hpp"
#include "analysis/recordings/recorded_steps.hpp"
#include "narrow/format/device_table.hpp"

namespace analysis {
namespace {

using namespace narrow;

// ---- Whole steps, recorded ----

const std::vector<RecordedStep>& steps() {
  static const std::vector<RecordedStep> rows = [] {
    std::string missing;
    return load_steps(missing).rows;
  }();
  return rows;
}

std::string list_text(const std::vector<double>& numbers, int decimals) {
  std::string text;
  for (const double x : numbers) text += (text.empty() ? "" : ", ") + fixed_text(x, decimals);
  return text;
}

// What `of` says of `recipe` against `base`, for every model that has both, as most people run it.
template <class Of>
std::vector<double> ratios(std::string_view recipe, std::string_view base, const Of& of) {
  std::vector<double> found;
  for (const RecordedStep& s : steps())
    if (s.recipe == recipe && s.recompute == "none" && s.mode == "eager")
      if (const RecordedStep* other = find_step(steps(), s, base)) found.push_back(of(s) / of(*other));
  return found;
}
double speed(const RecordedStep& s) { return s.tokens_per_second; }
double memory(const RecordedStep& s) { return s.bytes; }

Measurement step_speed(const Study&) {
  std::vector<double> wide = ratios("bf16-amp", "fp32", speed);
  const std::vector<double> tf32 = ratios("bf16-amp", "tf32", speed);
  if (wide.empty() || tf32.empty()) return not_measured_without("end-to-end/steps.tsv");
  const std::string text = "GPTs of growing size on an H200, tokens a second under bf16-amp: " + list_text(wide, 1) +
                           " times those of FP32, " + list_text(tf32, 1) + " times those of TF32";
  wide.insert(wide.end(), tf32.begin(), tf32.end());
  return {text, judge_range(1.5, 2, 0.1, wide)};
}

Measurement memory_halves(const Study& study) {
  std::vector<double> amp = ratios("fp32", "bf16-amp", memory);
  const std::vector<double> pure = ratios("fp32", "bf16-pure", memory);
  if (amp.empty()) return not_measured_without("end-to-end/steps.tsv");
  // TF32 stores what FP32 stores.
  std::string at_size;
  if (const RecordedRun* wide = find_run(study.large, "tf32"), *large = find_run(study.large, "bf16-amp");
      wide != nullptr && large != nullptr && wide->peak_gib > 0 && large->peak_gib > 0) {
    amp.push_back(wide->peak_gib / large->peak_gib);
    at_size = " (the last: TF32, " + fixed_text(wide->peak_gib, 1) + " GiB, over " + fixed_text(large->peak_gib, 1) +
              " GiB " + large->size_text() + ")";
  }
  return {"peak memory of FP32 over that of bf16-amp on an H200: " + list_text(amp, 2) + at_size +
              (pure.empty() ? "" : "; over that of bf16-pure, which has no FP32 state: " + list_text(pure, 2)),
          judge_range(2, 2, 0.5, amp)};
}

Measurement memory_bound_doubles(const Study&) {
  std::string missing, text;
  const std::vector<RecordedOperation> rows = load_operations(missing).rows;
  std::vector<double> gains;
  for (const RecordedOperation& wide : rows)
    for (const RecordedOperation& narrow : rows)
      if (wide.format == "fp32" && narrow.format == "bf16" && wide.name == narrow.name && wide.name != "copy") {
        gains.push_back(wide.microseconds / narrow.microseconds);
        text += (text.empty() ? "" : ", ") + wide.name + " " + fixed_text(gains.back(), 2);
      }
  if (gains.empty()) return not_measured_without("end-to-end/elementwise.tsv");
  return {"BF16 against FP32 on an H200: " + text, judge_range(2, 2, 0.5, gains)};
}

Measurement recomputation(const Study&) {
  std::string text;
  std::size_t cases = 0, as_said = 0;
  for (const RecordedStep& s : steps()) {
    RecordedStep like = s;
    like.recompute = "none";
    const RecordedStep* plain = find_step(steps(), like, s.recipe);
    if (s.recompute != "full" || plain == nullptr) continue;
    text += (text.empty() ? "" : "; ") + s.model + " " + s.recipe + ": memory " +
            fixed_text(s.bytes / plain->bytes, 2) + ", time " + fixed_text(s.milliseconds / plain->milliseconds, 2);
    ++cases, as_said += s.bytes < plain->bytes && s.milliseconds >= plain->milliseconds;
  }
  if (cases == 0) return not_measured_without("end-to-end/steps.tsv");
  return {"with full recomputation against none: " + text, judge_cases(as_said, cases)};
}

// Products alone, and whole steps with casts that PyTorch has. Kernels that cast on the way were not recorded.
Measurement fp8_is_fastest(const Study&) {
  const Table& rates = experiment_table("memory_and_speed", "rates");
  const double product = table_cell(rates, "fp8", "H200 measured") / table_cell(rates, "bf16", "H200 measured");
  std::string text;
  std::size_t cases = 0, faster = 0;
  if (!std::isnan(product)) ++cases, faster += product > 1;
  for (const RecordedStep& s : steps()) {
    const RecordedStep* bf16 = find_step(steps(), s, "bf16-amp");
    if (s.recipe != "fp8-current" || bf16 == nullptr) continue;
    const double gain = s.tokens_per_second / bf16->tokens_per_second;
    text += (text.empty() ? "" : ", ") + s.model + " " + s.mode + " " + fixed_text(gain, 2);
    ++cases, faster += gain > 1;
  }
  if (cases == 0) return not_measured_without("end-to-end/steps.tsv");
  return {"on an H200 against BF16: products of 8192 " +
              (std::isnan(product) ? "not recorded" : fixed_text(product, 2)) +
              "; tokens a second with PyTorch's own casts " + text,
          judge_cases(faster, cases)};
}

// ---- Switches, recorded ----

Measurement tf32_is_automatic(const Study&) {
  std::string missing, text;
  std::size_t cases = 0, automatic = 0;
  const RecordedRows<RecordedSwitch> recorded = load_switches(missing);
  for (const RecordedSwitch& s : recorded.rows)
    if (s.setting == "default") {
      text += (text.empty() ? "" : ", ") + s.operation + " in " + s.used;
      ++cases, automatic += s.used == "tf32";
    }
  if (cases == 0) return not_measured_without("end-to-end/switches.tsv");
  return {"FP32 operands on an H200, PyTorch as it starts, by the bits of the product: " + text,
          judge_cases(automatic, cases)};
}

Measurement scaler_with_bf16(const Study& study) {
  const RunPlan plain{.recipe = "bf16-amp", .steps = study.steps};
  RunPlan scaled = plain;
  scaled.loss_scaler = "torch";
  const train::RunResult &without = training_run(plain, *study.progress), &with = training_run(scaled, *study.progress);
  const LossSpread a = spread_of({&without}), b = spread_of({&with});
  return {"digits in BF16: final loss " + digits(without.final_loss, 5) + " without, " + digits(with.final_loss, 5) +
              " with PyTorch's scaler, " + std::to_string(with.skipped) + " steps skipped",
          judge_parts(is_as_good(b, a) + (with.skipped == 0), 2)};
}

// ---- Order, and what batch norm remembers ----

Measurement unscale_before_clipping(const Study&) {
  const Table& t = experiment_table("order_matters", "orders");
  std::string text;
  std::size_t harmed = 0, cases = 0;
  for (const char* optimiser : {"SGD", "AdamW"}) {
    double losses[2] = {NAN, NAN};  // after unscaling, before
    for (const auto& row : t.rows)
      if (std::get<std::string>(row[0]) == optimiser && std::get<std::string>(row[1]) == "clip")
        if (const double* loss = std::get_if<double>(&row[3]))
          losses[std::get<std::string>(row[2]) == "before unscaling"] = *loss;
    text += (text.empty() ? "" : "; ") + std::string(optimiser) + " " +
            (std::isnan(losses[0]) ? "NaN" : digits(losses[0])) + " in the right order, " +
            (std::isnan(losses[1]) ? "NaN" : digits(losses[1])) + " in the wrong one";
    if (std::isnan(losses[0])) continue;  // nothing to be worse than
    const auto one = [](double loss) { return LossSpread{1, std::isnan(loss), loss, loss, loss}; };
    ++cases, harmed += !is_as_good(one(losses[1]), one(losses[0]));
  }
  return {"digits in FP16, short runs, final loss: " + text, judge_cases(harmed, cases)};
}

Measurement running_statistics(const Study&) {
  const Table& t = experiment_table("operation_policy", "by_operation");
  std::string text;
  std::size_t needed = 0, cases = 0;
  for (const char* format : {"FP16", "BF16"}) {
    const double product = table_cell(t, "matmul, FP32 sums", format);
    text += (text.empty() ? "" : "; ") + std::string(format) + ": a product " + share(product);
    for (const char* statistic : {"running mean", "running variance"}) {
      const double error = table_cell(t, statistic, format);
      text += ", " + std::string(statistic) + " " + (std::isnan(error) ? "overflows" : share(error));
      ++cases, needed += !(error <= needs_factor * product);
    }
  }
  return {"relative error after 300 batches: " + text + "; needed: more than ten times a product's",
          judge_cases(needed, cases)};
}

// ---- Devices, published ----

bool multiplies(const DeviceRow& device, std::string_view format) {
  bool found = false;
  for_each_format(device.products, [&](std::string_view f) { found |= f == format; });
  return found;
}
const DeviceRow& device(std::string_view name) {
  for (const DeviceRow& row : device_table)
    if (row.name == name) return row;
  throw Error("no device " + std::string(name));
}

// What is kept between steps is the program's choice, which the second part tries.
Measurement tpu_stores_fp32(const Study& study) {
  const DeviceRow& tpu = device("tpu-v4");
  const bool computes = multiplies(tpu, "bf16") && !multiplies(tpu, "fp32");
  const LossSpread master = spread_of({&training_run({.recipe = "bf16-amp", .steps = study.steps}, *study.progress)}),
                   pure = spread_of({&training_run({.recipe = "bf16-pure", .steps = study.steps}, *study.progress)});
  return {"published, not measured here: its matrix unit takes " + std::string(tpu.products) + " (" +
              std::string(tpu.source) + "); what is stored the program decides: digits emulated with FP32 weights " +
              digits(master.mean, 4) + ", with BF16 weights " + (pure.broke > 0 ? "NaN" : digits(pure.mean, 4)),
          judge_parts(std::size_t{computes} + !is_as_good(pure, master), 2)};
}

Measurement fp8_came_with_hopper(const Study&) {
  std::string with;
  bool others = false;
  for (const DeviceRow& row : device_table)
    if (multiplies(row, "e4m3")) {
      with += (with.empty() ? "" : ", ") + std::string(row.name) + " (" + std::to_string(row.year) + ")";
      others |= row.name == "ada";
    }
  return {"published: matrix units for E4M3 in " + with,
          judge_parts(std::size_t{multiplies(device("hopper"), "e4m3")} + std::size_t{!others}, 2)};
}

Measurement no_bf16_before_ampere(const Study&) {
  const bool volta = multiplies(device("volta"), "bf16"), turing = multiplies(device("turing"), "bf16"),
             ampere = multiplies(device("ampere"), "bf16");
  return {std::string("published: products in BF16 on Volta ") + (volta ? "yes" : "no") + ", Turing " +
              (turing ? "yes" : "no") + ", Ampere " + (ampere ? "yes" : "no"),
          judge_parts(std::size_t{!volta} + !turing + ampere, 3)};
}

}  // namespace

Claims practice_claims() {
  const std::string costs = "narrow run memory_and_speed -o out --show", devices = "narrow formats --devices",
                    train = "narrow train --task digits --recipe ";
  return {
      {37, "001", "TF32 is used automatically on Ampere and later.", tf32_is_automatic, train + "allow_tf32,fp32"},
      {38, "000", "A loop in BF16 may keep its loss scaler.", scaler_with_bf16, train + "bf16-amp --loss-scaler torch"},
      {39, "003", "A TPU v4 computes in BF16 and stores FP32.", tpu_stores_fp32, devices},
      {40, "001", "Mixed precision makes a whole training step 1.5 to 2 times as fast.", step_speed, costs},
      {41, "001, 004", "Mixed precision halves the memory.", memory_halves, costs},
      {42, "001", "Operations that wait for memory run about twice as fast in 16 bits.", memory_bound_doubles, costs},
      {43, "000", "Recomputing activations saves memory and does not speed anything up.", recomputation, costs},
      {44, "000", "FP8 gives the highest throughput.", fp8_is_fastest, costs},
      {45, "000, 001, 002", "FP8 came with Hopper.", fp8_came_with_hopper, devices},
      {47, "001, 002", "Gradients must be unscaled before they are clipped.", unscale_before_clipping,
       "narrow run order_matters -o out --show"},
      {48, "001", "The running mean and variance of batch norm must be kept in FP32.", running_statistics,
       "narrow run operation_policy -o out --show"},
      {46, "002", "Volta and Turing have no BF16 of their own.", no_bf16_before_ampere, devices},
  };
}

}  // namespace analysis

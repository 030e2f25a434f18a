// Statements about the gradients of a real model, held against the recorded ones.
#include <algorithm>
#include <map>

#include "analysis/claims/claims.hpp"
#include "analysis/recordings/gradients.hpp"
#include "narrow/array/statistics.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/round/round_to.hpp"

namespace analysis {

using namespace narrow;

std::vector<const RecordedPass*> plain_passes(const Recording& recording) {
  std::vector<const RecordedPass*> found;
  for (const RecordedPass& p : recording.passes)
    if (p.label == "step " + std::to_string(p.step)) found.push_back(&p);
  return found;
}

namespace {

// Of every watched step of the large run under BF16 autocast, which has FP32's range.
std::map<std::int64_t, ExponentHistogram> large_gradients(const Study& study, std::string_view role) {
  std::map<std::int64_t, ExponentHistogram> by_step;
  const RecordedRun* run = find_run(study.large, "bf16-amp");
  if (run == nullptr) return by_step;
  WatchedRun(run->folder).for_each_tensor([&](const WatchedTensor& t) {
    if (t.role == role) by_step[t.step].merge(t.histogram());
  });
  return by_step;
}

std::string size_of(const Study& study) {
  const RecordedRun* run = find_run(study.large, "bf16-amp");
  return run == nullptr ? "" : run->size_text();
}

// Share of the values that are not zero in binades [low, high).
double share_between(const ExponentHistogram& h, int low, int high) {
  double inside = 0;
  for (int e = std::max(low, ExponentHistogram::min_exponent); e < high; ++e)
    inside += static_cast<double>(h.binade(e).total());
  return inside / static_cast<double>(std::max<std::uint64_t>(nonzero_count(h), 1));
}

// Each recorded step, weights and activations apart, is a case; and the activations again with 256 times the tokens, a
// million in a batch: gradients of activations of a mean loss are then 2^8 times smaller.
Measurement half_is_lost(const Study& study) {
  if (!study.recording) return not_measured_without("torch/histograms.json");
  std::size_t cases = 0, more_than_half = 0;
  const auto range = [&](const char* kind, int scale_log2) {
    double least = 1, most = 0;
    for (const RecordedPass* p : plain_passes(*study.recording)) {
      const double zero = shares_of(from_pass(*p, kind).all, fp16, scale_log2).zero;
      least = std::min(least, zero), most = std::max(most, zero);
      ++cases, more_than_half += zero > 0.5;
    }
    return share(least) + " to " + share(most);
  };
  const std::string weights = range("grad", 0), activations = range("actgrad", 0), many = range("actgrad", -8);
  const std::size_t passes = plain_passes(*study.recording).size();
  if (passes == 0) return not_measured_without("torch/histograms.json");
  std::string at_size;
  for (const char* role : {"gradient", "activation_gradient"}) {
    double least = 1, most = 0;
    for (const auto& [step, h] : large_gradients(study, role)) {
      const double zero = shares_of(h, fp16).zero;
      least = std::min(least, zero), most = std::max(most, zero);
      ++cases, more_than_half += zero > 0.5;
    }
    if (most >= least)
      at_size += (at_size.empty() ? "; " + size_of(study) + " weights " : ", activations ") + share(least) + " to " +
                 share(most);
  }
  return {"zero of the non-zero gradients, at " + std::to_string(passes) + " steps: weights " + weights +
              ", activations " + activations + "; with a million tokens a batch activations " + many + at_size +
              "; more than half in " + std::to_string(more_than_half) + " of " + std::to_string(cases) + " cases",
          judge_cases(more_than_half, cases)};
}

// 1e-8 is in the binade of 2^-27, 1e-6 at the top of that of 2^-20.
Measurement gradients_lie_in(const Study& study) {
  if (!study.recording) return not_measured_without("torch/histograms.json");
  ExponentHistogram weights, activations, all;
  for (const RecordedPass* p : plain_passes(*study.recording))
    weights.merge(from_pass(*p, "grad").all), activations.merge(from_pass(*p, "actgrad").all),
        all.merge(from_pass(*p).all);
  const double inside = share_between(all, -27, -19);
  ExponentHistogram at_size;
  for (const char* role : {"gradient", "activation_gradient"})
    for (const auto& [step, h] : large_gradients(study, role)) at_size.merge(h);
  const bool has_large = at_size.count() > 0;
  const double there = share_between(at_size, -27, -19);
  return {
      share(inside) + " of the recorded gradients lie there (weights " + share(share_between(weights, -27, -19)) +
          ", activations " + share(share_between(activations, -27, -19)) + "); log2 of a gradient is " +
          fixed_text(mean_binade(all), 1) + " in the mean" +
          (has_large ? "; " + size_of(study) + " " + share(there) + ", " + fixed_text(mean_binade(at_size), 1) : ""),
      has_large && judge_share(there) != judge_share(inside) ? Verdict::depends : judge_share(inside)};
}

// Half the sum of differences between the shifted histogram and that of what FP16 holds of the scaled values: the share
// of values that are not where a pure shift would put them.
double out_of_place(const std::vector<float>& values, int scale_log2) {
  std::vector<float> scaled(values), held(values.size());
  for (float& x : scaled) x = std::ldexp(x, scale_log2);
  for (std::size_t i = 0; i < scaled.size(); ++i) held[i] = round_to(scaled[i], fp16);
  const ExponentHistogram before = exponent_histogram(scaled, 1), after = exponent_histogram(held, 1);
  double difference = 0;
  for (int e = ExponentHistogram::min_exponent; e <= ExponentHistogram::max_exponent; ++e)
    difference +=
        std::fabs(static_cast<double>(before.binade(e).total()) - static_cast<double>(after.binade(e).total()));
  difference += std::fabs(static_cast<double>(before.zero.total()) - static_cast<double>(after.zero.total()));
  difference += static_cast<double>(after.inf.total());
  return difference / 2 / static_cast<double>(values.size());
}

std::vector<float> recorded_gradients() {
  std::vector<float> all;
  if (const std::optional<std::string> path = find_data("torch/step300.safetensors"))
    for (const Values& v : read_values_of(*path, "grad"))
      for (const float x : v.data)
        if (x != 0) all.push_back(x);
  return all;
}

// A shift of the picture changes nothing where fewer than one value in a hundred is out of place.
constexpr double shape_tolerance = 0.01;

Measurement scaling_shifts(const Study&) {
  const std::vector<float> gradients = recorded_gradients();
  if (gradients.empty()) return not_measured_without("torch/step300.safetensors");
  std::string text;
  std::size_t kept = 0;
  constexpr int scales[] = {0, 8, 16, 28};
  for (const int s : scales) {
    const double moved = out_of_place(gradients, s);
    kept += moved < shape_tolerance;
    text += (text.empty() ? "" : ", ") + std::string("2^") + std::to_string(s) + ": " + share(moved);
  }
  return {"share of values that FP16 puts into another binade than the shift does, by loss scale: " + text,
          judge_cases(kept, std::size(scales))};
}

// With a power of two nothing but the two ends can differ; another factor rounds once more.
Measurement scaling_is_exact(const Study&) {
  const std::vector<float> gradients = recorded_gradients();
  if (gradients.empty()) return not_measured_without("torch/step300.safetensors");
  const auto changed = [&](float factor) {
    std::size_t count = 0, all = 0;
    for (const float x : gradients) {
      const float plain = round_to(x, bf16);  // a value of few bits, so that only the factor can change it
      const float scaled = round_to(plain * factor, fp16);
      if (!std::isfinite(scaled) || std::fabs(scaled) < static_cast<float>(smallest_normal(fp16)))
        continue;  // the ends
      ++all, count += scaled / factor != plain;
    }
    return static_cast<double>(count) / static_cast<double>(std::max<std::size_t>(all, 1));
  };
  const double power = changed(0x1p10f), other = changed(1000.0f);
  return {"values within FP16's normal range that do not come back: " + share(power) + " with S = 2^10, " +
              share(other) + " with S = 1000",
          judge_cases((power == 0) + (other == 0), 2)};
}

// Adding up m micro-batches one after the other, as the recorded ones come, against the sum in double.
double accumulation_error(const Values& rows, std::size_t m, const Format& f) {
  double error = 0, norm = 0;
  for (std::size_t c = 0; c < rows.cols; ++c) {
    double exact = 0, held = 0;
    for (std::size_t i = 0; i < m; ++i) {
      const auto x = static_cast<double>(rows.data[i % rows.rows * rows.cols + c]) *
                     0x1p16;  // a loss scale, so that none underflows
      exact += x, held = round_to(held + round_to(x, f), f);
    }
    error += (held - exact) * (held - exact), norm += exact * exact;
  }
  return std::sqrt(error / norm);
}

// The statement holds when FP16's error grows with the number and is far above that of FP32.
constexpr double far_above = 100;

Measurement accumulation_loses(const Study&) {
  const std::optional<std::string> path = find_data("torch/micro_batches.safetensors");
  if (!path) return not_measured_without("torch/micro_batches.safetensors");
  const Values rows = read_values_of(*path).front();
  constexpr Format fp32 = "fp32"_fmt;
  const double few = accumulation_error(rows, 4, fp16), many = accumulation_error(rows, 64, fp16),
               coarse = accumulation_error(rows, 64, bf16), wide = accumulation_error(rows, 64, fp32);
  return {"relative error of the sum of 64 micro-batches: FP16 " + share(many) + " (of 4: " + share(few) + "), BF16 " +
              share(coarse) + ", FP32 " + digits(wide, 2),
          judge_parts((many > few) + (many > far_above * wide), 2)};
}

Measurement bf16_is_safe(const Study& study) {
  if (!study.recording || study.logs.empty()) return not_measured_without("torch");
  double zero = 0, small = 0;
  for (const RecordedPass* p : plain_passes(*study.recording)) {
    const FormatShares s = shares_of(from_pass(*p).all, bf16);
    zero = std::max(zero, s.zero), small = std::max(small, s.subnormal);
  }
  constexpr std::size_t window = 50;
  const TrainingLog *wide = find_log(study.logs, "fp32", window), *coarse = find_log(study.logs, "bf16", window),
                    *lost = find_log(study.logs, "fp16 without scaling", window);
  if (wide == nullptr || coarse == nullptr || lost == nullptr) return not_measured_without("torch/logs.json");
  const auto final = [](const TrainingLog& log) {
    double sum = 0;
    for (std::size_t i = log.loss.size() - window; i < log.loss.size(); ++i) sum += log.loss[i];
    return sum / window;
  };
  std::size_t parts = 2, are_true = (zero == 0) + (final(*coarse) < final(*wide) * (1 + as_good_share));
  std::string text =
      "at most " + share(zero) + " of the recorded gradients become zero in BF16; GPT's loss without scaling: BF16 " +
      digits(final(*coarse), 4) + ", FP32 " + digits(final(*wide), 4) + ", FP16 " + digits(final(*lost), 4);
  if (const RecordedRun* large = find_run(study.large, "bf16-amp"), *scaled = find_run(study.large, "fp16-amp");
      large != nullptr && scaled != nullptr) {
    ++parts, are_true += large->final_loss() < scaled->final_loss() * (1 + as_good_share);
    text += "; " + large->size_text() + " BF16 without a scale " + digits(large->final_loss(), 4) + ", FP16 with one " +
            digits(scaled->final_loss(), 4);
  }
  return {text, judge_parts(are_true, parts)};
}

}  // namespace

Claims gradient_claims() {
  return {
      {8, "004", "Without a loss scale a large share of the gradients, often more than half, is zero in FP16.",
       half_is_lost, "narrow run gradient_underflow -o out --show"},
      {9, "003, 001", "Gradients of the backward pass lie between 1e-8 and 1e-6.", gradients_lie_in,
       "narrow histogram data/torch/step300.safetensors --tensors grad --formats fp16"},
      {10, "004", "A loss scale moves the histogram of the gradients without changing its shape.", scaling_shifts,
       "narrow histogram data/torch/step300.safetensors --tensors grad --formats fp16 --scale 2^16"},
      {14, "002, 004", "BF16 needs no loss scale.", bf16_is_safe,
       "narrow stats data/torch/step300.safetensors --tensors grad --formats bf16,fp16"},
      {18, "004", "Adding micro-batch gradients in FP16 loses small contributions.", accumulation_loses,
       "narrow run gradient_accumulation -o out --show"},
      {32, "004", "Dividing by the loss scale brings the gradient back exactly.", scaling_is_exact,
       "narrow show 0x1.02p-10 --formats fp16 --explain"},
  };
}

}  // namespace analysis

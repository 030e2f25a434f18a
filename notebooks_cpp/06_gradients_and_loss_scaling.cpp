// %% [markdown]
// # Gradients that vanish, and loss scaling
//
// Gradients are small numbers. FP16 has a bottom, and what falls below it is zero: a weight that should have moved
// does not. The remedy is one multiplication, and it costs nothing. This lesson looks at the gradients of a real
// network, finds out how many FP16 loses, and repairs it.

// %% tags=["folded"]
#include <cmath>

#include "lesson.hpp"
#include "narrow/array/histogram.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/round/round_to.hpp"
#include "narrow/tensor/tensor_file.hpp"
#include "recordings.hpp"

using namespace narrow;
using namespace lesson;

constexpr Format fp16 = "fp16"_fmt;
constexpr Format bf16 = "bf16"_fmt;

struct Gradient {
  std::string name;
  std::vector<float> values;
};

// Every gradient of the file: of weights (grad.) and of activations (actgrad.).
std::vector<Gradient> read_gradients(const std::string& path) {
  std::vector<Gradient> found;
  const TensorFile file = open_tensor_file(path);
  for (const Tensor& tensor : file.tensors) {
    if (!tensor.name.starts_with("grad.") && !tensor.name.starts_with("actgrad.")) continue;
    std::vector<float> values(static_cast<std::size_t>(tensor.values()));
    read_values(tensor, 0, std::span<float>(values));
    found.push_back({tensor.name, std::move(values)});
  }
  return found;
}

// Of the values that are not zero: which share becomes zero, subnormal or infinite once multiplied?
struct Outcome {
  double zero = 0, subnormal = 0, infinite = 0;
};
Outcome fate_of(const std::vector<float>& values, const Format& f, double scale = 1) {
  const FormatCast to[] = {{f, {}}};
  const Statistics s = statistics(values, to, scale);
  const auto share = [&](std::uint64_t part) { return s.input.share(part).of_nonzero; };
  const FormatStatistics& part = s.formats[0];
  return {share(part.underflow), share(part.subnormal), share(part.overflow)};
}

// %% tags=["program"]
// clang-format off: the cells below are the statements of main, written from the margin as a notebook has them.
int main() {

// %% [markdown]
// ## What gradients look like
//
// The recordings in `data/torch` come from a small GPT (4 layers, width 256) at training step 300. There are two
// kinds of gradients: those of the *weights*, which the optimiser uses, and those of the *activations*, from which
// they are computed. In mixed precision both pass through FP16. This is what it does to each tensor.

// %%
const std::vector<Gradient> gradients =
    read_gradients(data_file("torch/step300.safetensors"));
Table fates = new_table("In FP16, as they are (shares of the values that are not zero)",
                        {text_column("gradient of"), real_column("largest", "", 3),
                         real_column("becomes zero", "%", 3), real_column("subnormal", "%", 3)});
std::vector<float> all, activations;
double worst = 0;
for (const Gradient& g : gradients) {
  const Outcome fate = fate_of(g.values, fp16);
  double amax = 0;
  for (const float x : g.values) amax = std::max(amax, std::fabs(static_cast<double>(x)));
  add_row(fates, g.name, amax, 100 * fate.zero, 100 * fate.subnormal);
  worst = std::max(worst, fate.zero);
  all.insert(all.end(), g.values.begin(), g.values.end());
  if (g.name.starts_with("actgrad."))
    activations.insert(activations.end(), g.values.begin(), g.values.end());
}
table(fates);
say("The worst tensor loses **{:.0f} %** of its values; over all of them it is {:.1f} %.",
    100 * worst, 100 * fate_of(all, fp16).zero);
expect(worst > 0.5, "there is a tensor of which FP16 drops more than half");
expect(fate_of(all, fp16).zero < 0.5,
       "of all these gradients it is far less than the half that one reads of");

// %% [markdown]
// A histogram over powers of two shows why. Each bar is one binade; the rulers below show which of them a format has.

// %% tags=["folded"]
const auto histogram = [&](const std::vector<float>& values, int shift, bool rulers) {
  const ExponentHistogram h = exponent_histogram(values);
  const auto count = static_cast<double>(h.count() - h.zero.total());
  Series lost = new_series("becomes zero in FP16", Draw::bars, PlotColour::vermilion);
  Series harmed = new_series("subnormal in FP16", Draw::bars, PlotColour::orange);
  Series kept = new_series("normal in FP16", Draw::bars, PlotColour::blue);
  for (int e = -60; e <= 10; ++e) {
    const int moved = e + shift;
    Series& s = moved < -25 ? lost : moved < -14 ? harmed : kept;
    add_point(s, moved + 0.5, 100 * static_cast<double>(h.binade(e).total()) / count);
  }
  Panel p;
  p.x = {"size", "", AxisScale::exponent_of_two, -46.0, 18.0, {}, {}};
  p.y = {"share", "%", AxisScale::linear, 0.0, {}, {}, {}};
  p.series = {kept, harmed, lost};
  p.bars = BarLayout::overlaid;
  if (rulers)
    for (const auto& [name, f] : {std::pair{"FP16", fp16}, std::pair{"BF16", bf16}})
      p.rulers.push_back(
          {name, {{1.0 * f.min_quantum_exponent(), 1.0 * f.min_exponent(), PlotColour::orange},
                  {1.0 * f.min_exponent(), f.max_exponent() + 1.0, PlotColour::blue}}});
  return p;
};
picture(new_plot("The gradients of activations sit at the bottom of FP16",
                 "A small GPT at step 300; the rulers show subnormal (orange) and normal numbers",
                 {histogram(activations, 0, true)}, 300));

// %% [markdown]
// Almost the whole upper half of FP16's range is empty, while the gradients crowd at the lower end and fall out.
//
// ## One multiplication
//
// Differentiation is linear: if the loss is multiplied by $S$ before the backward pass, every gradient is multiplied
// by $S$,
//
// $$ \frac{\partial (S \cdot L)}{\partial w} = S \cdot \frac{\partial L}{\partial w} $$
//
// So choose $S$ as a power of two, which changes exponents only, and the histogram moves to the right without
// changing its shape. After the backward pass the gradients of the weights are divided by $S$ again, in FP32.

// %%
Plot shifted = new_plot("A loss scale moves the histogram and leaves its shape",
                        "The same gradients at three loss scales", {}, 190);
shifted.columns = 3;
for (const int k : {0, 8, 16}) {
  shifted.panels.push_back(histogram(activations, k, false));
  shifted.panels.back().title = text("S = 2^{}", k);
}
picture(shifted);

// %%
Table scales = new_table("All gradients in FP16 against the loss scale",
                         {power_column("loss scale"), real_column("zero", "%", 3),
                          real_column("subnormal", "%", 3), real_column("infinite", "%", 3)});
int safe = 0;
for (int k = 0; k <= 28; ++k) {
  const Outcome fate = fate_of(all, fp16, std::ldexp(1.0, k));
  if (fate.infinite == 0) safe = k;
  if (k % 4 == 0)
    add_row(scales, std::ldexp(1.0, k), 100 * fate.zero, 100 * fate.subnormal, 100 * fate.infinite);
}
table(scales);
const Outcome at_16 = fate_of(all, fp16, 0x1p16), before = fate_of(all, fp16);
say("At 2^16 the share that becomes zero falls from {:.2f} % to {:.4f} %. "
    "The largest scale at which nothing overflows is 2^{}.", 100 * before.zero,
    100 * at_16.zero, safe);
expect(at_16.zero < before.zero / 20,
       "a loss scale of 2^16 saves more than 19 of 20 lost gradients");
expect(at_16.infinite == 0, "and nothing overflows");
expect(fate_of(all, fp16, std::ldexp(1.0, safe + 1)).infinite > 0, "too large a scale overflows");

// %% [markdown]
// The scale must be neither too small (gradients vanish) nor too large (they overflow, and the whole step is lost).
// Between the two there is a window of many binades; here any power of two in it will do.
//
// ## Unscale in FP32
//
// Dividing by $S$ brings the small numbers back. If that is done in FP16, they vanish after all, and everything was
// for nothing.

// %%
const double g = 1.5e-9, S = 0x1p16;
const double scaled = round_to(g * S, fp16);
print("gradient            {:.4}\nscaled, in FP16     {:.4}", g, scaled);
print("unscaled in FP16    {:.4}\nunscaled in FP32    {:.4}", round_to(scaled / S, fp16),
      static_cast<double>(static_cast<float>(scaled) / static_cast<float>(S)));
expect(round_to(scaled / S, fp16) == 0, "unscaled in FP16, it is zero again");
expect(std::fabs(scaled / S / g - 1) < 0x1p-11, "unscaled in FP32, it is right to 11 bits");

// %% [markdown]
// ## Does it matter?
//
// A lost gradient is not always a missed one; most of them are tiny. The judge is the training run. These four were
// recorded on the same data, with the same seed: FP32, BF16, and FP16 with and without loss scaling.

// %% tags=["folded"]
Panel learning;
learning.x.label = "step";
learning.y.label = "loss, mean of 50 steps";
Table ends = new_table("The end of training",
                       {text_column("run"), fixed_column("loss, last 100 steps", "", 3)});
const std::pair<const char*, PlotColour> runs[] = {{"fp32", PlotColour::ink},
                                                   {"bf16", PlotColour::orange},
                                                   {"fp16", PlotColour::blue},
                                                   {"fp16 without scaling", PlotColour::vermilion}};
double last[4] = {};
for (std::size_t r = 0; r < 4; ++r) {
  const RecordedRun run = recorded_run(runs[r].first);
  Series s = new_series(runs[r].first, Draw::line, runs[r].second);
  for (std::size_t i = 100; i + 50 <= run.loss.size(); i += 10) {
    double sum = 0;
    for (std::size_t k = i; k < i + 50; ++k) sum += run.loss[k];
    add_point(s, static_cast<double>(i) + 25, sum / 50);
  }
  for (std::size_t i = run.loss.size() - 100; i < run.loss.size(); ++i)
    last[r] += run.loss[i] / 100;
  learning.series.push_back(s);
  add_row(ends, runs[r].first, last[r]);
}
picture(new_plot("Without a loss scale FP16 falls behind; with it, it follows FP32",
                 "Four recorded runs of the same small GPT", {learning}, 300));
table(ends);
expect(std::fabs(last[2] - last[0]) < 0.02, "FP16 with loss scaling ends where FP32 ends");
expect(last[3] > last[0] + 0.03, "FP16 without it ends higher");
expect(std::fabs(last[1] - last[0]) < 0.02, "BF16 needs no loss scale");

// %% [markdown]
// On your own tensors: `narrow stats grads.safetensors --formats fp16 --scale 2^16`, and
// `narrow histogram grads.safetensors`.
//
// ## Exercises
//
// 1. Does a gradient of $3 \cdot 10^{-8}$ survive in FP16? And $2 \cdot 10^{-8}$? And with $S = 2^{10}$?
// 2. The gradient of a *mean* loss over $n$ tokens has a factor $\frac{1}{n}$ in it. You make the batch 16 times
//    larger. By how many binades do the activation gradients move, and what does that do to the share that is lost
//    without a loss scale?
// 3. Why a power of two? Show that $S = 50000$ changes the rounded gradients, and $S = 2^{16}$ does not (in the
//    normal range).

// %% [markdown] tags=["solution"]
// **1.** The limit is $2^{-25} = 2.98 \cdot 10^{-8}$: the first survives (as $2^{-24}$), the second does not. With
// $S = 2^{10}$ both are subnormals with several bits.
//
// **2.** By $\log_2 16 = 4$ binades to the left. It is the same as a loss scale of $2^{-4}$, so it can be computed
// from the same tensors.
//
// **3.** A power of two changes the exponent only: rounding and scaling can be exchanged. Any other factor rounds
// differently.

// %% tags=["solution"]
print("3e-8 -> {:.3}, 2e-8 -> {}", round_to(3e-8, fp16), round_to(2e-8, fp16));
print("with 2^10: {:.4} and {:.4}", round_to(3e-8 * 1024, fp16) / 1024,
      round_to(2e-8 * 1024, fp16) / 1024);
const double now = fate_of(activations, fp16).zero;
const double later = fate_of(activations, fp16, 1.0 / 16).zero;
say("Lost activation gradients: {:.1f} % now, {:.1f} % with 16 times the tokens.", 100 * now,
    100 * later);
int changed_by_power = 0, changed_by_other = 0, looked_at = 0;
for (const float x : activations) {
  if (std::fabs(x) < 0x1p-14f) continue;
  ++looked_at;
  const double y = static_cast<double>(x), plain = round_to(y, fp16);
  changed_by_power += round_to(y * 0x1p16, fp16) / 0x1p16 != plain ? 1 : 0;
  changed_by_other += round_to(y * 50000, fp16) / 50000 != plain ? 1 : 0;
}
say("Of {} normal values, 2^16 changes {} and 50000 changes {}.", looked_at, changed_by_power,
    changed_by_other);
expect(later > now, "a larger batch loses more");
expect(changed_by_power == 0 && changed_by_other > 0,
       "a power of two rounds as if there were no scale");

// %% tags=["program"]
}

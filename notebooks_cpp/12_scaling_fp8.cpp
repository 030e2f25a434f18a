// %% [markdown]
// # Scaling FP8: tensor, delayed, block, MX
//
// FP8 has so little range that a tensor must be moved into it: multiplied by a *scale* before the cast, divided by it
// afterwards. The question is whose scale. One for the whole tensor? Taken from this tensor, or from earlier steps? One
// for each block of 128 or 32 numbers? This lesson tries all of them on tensors of a real training run.

// %% tags=["folded"]
#include <algorithm>
#include <cmath>

#include "lesson.hpp"
#include "narrow/array/histogram.hpp"
#include "narrow/base/random.hpp"
#include "narrow/format/neighbours.hpp"
#include "narrow/scale/block_format.hpp"
#include "narrow/scale/delayed_scaling.hpp"
#include "narrow/scale/quantise.hpp"
#include "narrow/tensor/tensor_file.hpp"
#include "narrow/train/run/run.hpp"

using namespace narrow;
using namespace lesson;

constexpr Format e4m3 = "e4m3"_fmt, e5m2 = "e5m2"_fmt;
constexpr Cast saturate{.overflow = Overflow::saturate};
constexpr std::size_t rows = 128, cols = 256;

// A matrix of step 300 of a byte-level GPT.
std::vector<float> recorded(const char* name) {
  const TensorFile file = open_tensor_file(data_file("torch/step300.safetensors"));
  std::vector<float> values(rows * cols);
  read_values(*file.find(name), 0, values);
  return values;
}

float amax_of(const std::vector<float>& v) {
  float amax = 0;
  for (const float x : v) amax = std::max(amax, std::fabs(x));
  return amax;
}

// Signal to noise in decibel: 6 dB is one bit.
double sqnr(const std::vector<float>& exact, const std::vector<float>& got) {
  double signal = 0, noise = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double x = static_cast<double>(exact[i]), e = static_cast<double>(got[i]) - x;
    signal += x * x, noise += e * e;
  }
  return 10 * std::log10(signal / noise);
}

// %% tags=["program"]
// clang-format off: the cells below are the statements of main, written from the margin as a notebook has them.
int main() {

// %% [markdown]
// ## Without a scale
//
// E4M3 reaches from $2^{-9}$ to 448, E5M2 from $2^{-16}$ to 57344. Here are four kinds of tensors, and the share of
// their numbers that each format turns into zero.

// %%
struct Kind {
  const char* name;
  const char* tensor;
};
constexpr Kind kinds[] = {{"weights", "weight.blocks.3.up.weight"},
                          {"activations", "act.blocks.3.ln2"},
                          {"weight gradients", "grad.blocks.3.down.weight"},
                          {"activation gradients", "actgrad.blocks.3.up"}};
Table unscaled = new_table("Cast as they are", {text_column("kind"), real_column("largest", "", 3),
                                                fixed_column("zero in E4M3", "%", 1),
                                                fixed_column("zero in E5M2", "%", 1)});
const auto zero_share = [](const std::vector<float>& v, const Format& f, double scale) {
  const FormatCast to[] = {{f, saturate}};
  const Statistics s = statistics(std::span<const float>(v), to, scale);
  return static_cast<double>(s.formats[0].underflow) /
         static_cast<double>(s.input.count - s.input.zeros);
};
for (const Kind& kind : kinds) {
  const std::vector<float> v = recorded(kind.tensor);
  add_row(unscaled, kind.name, amax_of(v), 100 * zero_share(v, e4m3, 1),
          100 * zero_share(v, e5m2, 1));
}
table(unscaled);
const std::vector<float> gradients = recorded("actgrad.blocks.3.up"),
                         activations = recorded("act.blocks.3.ln2");
expect(zero_share(gradients, e4m3, 1) > 0.99,
       "unscaled E4M3 turns almost all activation gradients into zero");
expect(zero_share(gradients, e5m2, 1) > 0.5, "E5M2 has more range, and still loses most of them");

// %% [markdown]
// ## One scale for the tensor
//
// Find the largest magnitude, and scale it to the largest number that the format has:
//
// $$ S = \frac{448}{\max |x|}, \quad x_8 = \mathrm{cast}(x \cdot S), \quad x \approx \frac{x_8}{S} $$

// %% tags=["folded"]
const float amax = amax_of(gradients), scale_of_gradients = 448 / amax;
Panel before_after;
before_after.x = {"magnitude", "", AxisScale::exponent_of_two, -34.0, 18.0, {}, {}};
before_after.y = {"numbers", "%", AxisScale::linear, 0.0, {}, {}, {}};
const auto bars_of = [](const std::vector<float>& v, float scale, const char* name,
                        PlotColour colour) {
  std::vector<float> scaled = v;
  for (float& x : scaled) x *= scale;
  const ExponentHistogram h = exponent_histogram(scaled);
  Series s = new_series(name, Draw::bars, colour);
  for (int e = -34; e < 18; ++e)
    add_point(s, e + 0.5,
              100 * static_cast<double>(h.binade(e).total()) / static_cast<double>(v.size()));
  return s;
};
before_after.series = {
    bars_of(gradients, 1, "as they are", PlotColour::vermilion),
    bars_of(gradients, scale_of_gradients, "times 448 / amax", PlotColour::blue)};
before_after.bars = BarLayout::overlaid;
for (const auto& [name, f] : {std::pair{"E4M3", e4m3}, {"E5M2", e5m2}})
  before_after.rulers.push_back(
      {name,
       {{std::log2(smallest_positive(f)), std::log2(smallest_normal(f)), PlotColour::orange},
        {std::log2(smallest_normal(f)), std::log2(largest(f)), PlotColour::blue}}});
picture(
    new_plot(text("A scale of {:.3} moves the gradients into the range", scale_of_gradients),
             "Activation gradients by binade; rulers: subnormal and normal numbers of the format",
             {before_after}, 300));
say("With the scale, **{:.1f} %** become zero in E4M3 and {:.2f} % in E5M2.",
    100 * zero_share(gradients, e4m3, static_cast<double>(scale_of_gradients)),
    100 * zero_share(gradients, e5m2, 57344 / static_cast<double>(amax)));

// %% [markdown]
// `quantise` does the same with a block format that has one block:

// %%
const BlockFormat per_tensor = require_block_format("fp8_tensor_e4m3");
const Quantised q = quantise(gradients, rows, cols, per_tensor);
bool same = true;
for (std::size_t i = 0; i < gradients.size(); ++i)
  same = same && q.codes[i] == encode(gradients[i] * scale_of_gradients, e4m3, saturate);
expect(same, "per-tensor scaling is one multiplication and one cast");

// %% [markdown]
// ## E4M3 or E5M2?
//
// E5M2 has one bit less of precision and much more range. Which is better depends on how wide the tensor is spread; the
// usual *hybrid* recipe takes E4M3 forward and E5M2 for gradients. Signal to noise, in decibel:

// %%
Table hybrid =
    new_table("One scale a tensor",
              {text_column("kind"), fixed_column("E4M3", "dB", 1), fixed_column("E5M2", "dB", 1),
               fixed_column("zero in E4M3", "%", 2), fixed_column("zero in E5M2", "%", 2)});
for (const Kind& kind : kinds) {
  const std::vector<float> v = recorded(kind.tensor);
  const auto in = [&](const char* format) {
    return sqnr(v, dequantise(quantise(v, rows, cols, require_block_format(format))));
  };
  add_row(hybrid, kind.name, in("fp8_tensor_e4m3"), in("fp8_tensor_e5m2"),
          100 * zero_share(v, e4m3, 448 / static_cast<double>(amax_of(v))),
          100 * zero_share(v, e5m2, 57344 / static_cast<double>(amax_of(v))));
}
table(hybrid);
const auto e4m3_db = sqnr(activations, dequantise(quantise(activations, rows, cols, per_tensor)));
const auto e5m2_db =
    sqnr(activations,
         dequantise(quantise(activations, rows, cols, require_block_format("fp8_tensor_e5m2"))));
expect(e4m3_db - e5m2_db > 5, "for activations the extra bit of E4M3 is worth about 6 dB");

// %% [markdown]
// The decibels count large numbers most, and there the extra bit of E4M3 wins everywhere. E5M2 is chosen for gradients
// because of the last two columns: it keeps the small ones from vanishing. With a scale of its own, this tensor would
// be well off in E4M3 too; recipes with block scales use E4M3 for everything.
//
// ## Delayed scaling
//
// To know the largest magnitude one must read the whole tensor before casting it. *Delayed* scaling saves this pass: it
// takes the scale from the largest magnitude of the last steps. That is fine as long as the future is like the past.
// Here is a tensor that slowly shrinks, and is 50 times larger in one single step.

// %% tags=["folded"]
const TeDelayedScaling delayed{.history = 16};
DelayedState state = initial(delayed);
Panel history;
history.x = {"training step", "", AxisScale::linear, 0.0, 100.0, {}, {}};
history.y = {"magnitude", "", AxisScale::log10, {}, {}, {}, {}};
Series seen = new_series("largest magnitude of the tensor", Draw::steps, PlotColour::ink);
Series reach = new_series("largest that fits: 448 / scale", Draw::steps, PlotColour::blue);
Series cut = new_series("saturated", Draw::points, PlotColour::vermilion);
int saturated = 0, too_wide = 0;
for (int step = 0; step < 100; ++step) {
  const double size =
      0.01 * std::exp(-0.01 * step) *
      (1 +
       0.2 * static_cast<double>(random_bits(12, static_cast<std::uint64_t>(step)) % 1000) / 1000);
  const float now = static_cast<float>(step == 50 ? 50 * size : size);
  const double fits = 448 / static_cast<double>(scale(state));
  if (step > 0) {
    add_point(seen, step, static_cast<double>(now)), add_point(reach, step, fits);
    if (static_cast<double>(now) > fits)
      add_point(cut, step, static_cast<double>(now)), ++saturated;
    if (static_cast<double>(now) * 16 < fits) ++too_wide;
  }
  state = next(delayed, state, {.amax = now});
}
history.series = {seen, reach, cut};
picture(new_plot("Late twice: at the spike, and for the length of the history after it",
                 "Delayed scaling with a history of 16 steps", {history}, 280));
say("{} steps saturate: the spike, and what exceeds a history that is still short. After the spike "
    "the range is more than 16 times too wide for {} steps.",
    saturated, too_wide);
expect(saturated >= 1, "the spike itself is cut off: its scale comes from the steps before it");
expect(too_wide >= 14 && too_wide <= 16,
       "then the spike stays in the history until the window has passed");

// %% [markdown]
// ## Blocks
//
// One number that is much larger than the others pushes all of them towards zero. With a scale for each piece of a row
// it pushes its neighbours only. Make one in a thousand activations $2^k$ times larger and look at the *others*.

// %% tags=["folded"]
struct Way {
  const char* name;
  const char* format;
  PlotColour colour;
};
constexpr Way ways[] = {{"one scale a tensor", "fp8_tensor_e4m3", PlotColour::vermilion},
                        {"1 x 128", "fp8_1x128", PlotColour::orange},
                        {"MXFP8, 1 x 32", "mxfp8_e4m3", PlotColour::blue},
                        {"NVFP4, 1 x 16", "nvfp4", PlotColour::green}};
const auto beside_outliers = [&](const char* format, int larger) {
  std::vector<float> v = activations, others, got;
  std::vector<bool> is_outlier(v.size());
  for (std::size_t i = 0; i < v.size(); ++i)
    if (random_bits(7, i) % 1000 == 0) is_outlier[i] = true, v[i] = std::ldexp(v[i], larger);
  const std::vector<float> back = dequantise(quantise(v, rows, cols, require_block_format(format)));
  for (std::size_t i = 0; i < v.size(); ++i)
    if (!is_outlier[i]) others.push_back(v[i]), got.push_back(back[i]);
  return sqnr(others, got);
};
Panel outliers;
outliers.x = {"outliers are larger by", "", AxisScale::exponent_of_two, 0.0, 20.0, {}, {}};
outliers.y = {"signal to noise of the others", "dB", AxisScale::linear, 0.0, {}, {}, {}};
Table cost =
    new_table("What a block costs and buys",
              {text_column("scales"), fixed_column("bits a number", "", 2),
               fixed_column("no outliers", "dB", 1), fixed_column("outliers 2^10", "dB", 1),
               fixed_column("outliers 2^18", "dB", 1)});
for (const Way& way : ways) {
  Series s = new_series(way.name, Draw::line_points, way.colour);
  for (int larger = 0; larger <= 20; ++larger)
    add_point(s, larger, beside_outliers(way.format, larger));
  outliers.series.push_back(s);
  add_row(cost, way.name, require_block_format(way.format).bits_per_element(), s.y[0], s.y[10],
          s.y[18]);
}
picture(new_plot("The smaller the block, the fewer numbers an outlier spoils",
                 "Activations, one in a thousand made larger", {outliers}, 280));
table(cost);
expect(beside_outliers("fp8_tensor_e4m3", 10) > 31,
       "E4M3 has enough range of its own for outliers of 2^10");
expect(beside_outliers("mxfp8_e4m3", 18) > beside_outliers("fp8_tensor_e4m3", 18) + 6,
       "beyond that, blocks of 32 save what one scale loses");
expect(std::fabs(beside_outliers("mxfp8_e4m3", 0) - beside_outliers("fp8_tensor_e4m3", 0)) < 2,
       "without them it makes almost no difference");

// %% [markdown]
// This may surprise: for well-behaved tensors a block scale hardly helps an 8-bit *floating* format. Moving a number to
// another binade does not make it more precise. Blocks protect the range, not the precision.
//
// ## MX: the scale is a power of two
//
// The MX formats store the scale in eight bits, as a power of two. The standard takes $2^{\lfloor \log_2 \max |x|
// \rfloor - 8}$ for E4M3, where 8 is the exponent of 448. That rule has a hole: 448 is $1.75 \cdot 2^8$, and a block
// whose largest number is above $1.75 \cdot 2^e$ does not fit. It saturates.

// %%
std::vector<float> block(32, 1.0f);
block[0] = 500;
Table rules = new_table("A block whose largest number is 500",
                        {text_column("rule"), power_column("scale"),
                         real_column("500 becomes", "", 5), real_column("1 becomes", "", 5)});
for (const char* rule :
     {"mxfp8_e4m3:ocp_floor", "mxfp8_e4m3:cuda_round_up", "mxfp8_e4m3:torchao_even"}) {
  const Quantised coded = quantise(block, 1, 32, require_block_format(rule));
  const std::vector<float> back = dequantise(coded);
  add_row(rules, row_of(coded.format.rule).name, coded.scales[0], back[0], back[1]);
}
table(rules);
expect(dequantise(quantise(block, 1, 32, require_block_format("mxfp8_e4m3:ocp_floor")))[0] == 448,
       "the floor rule turns 500 into 448");
expect(
    dequantise(quantise(block, 1, 32, require_block_format("mxfp8_e4m3:cuda_round_up")))[0] == 512,
    "rounding the scale up keeps it: 512 is the nearest");

// %% [markdown]
// ## Does it train?
//
// Handwritten digits, 150 steps, FP8 in the matrix products. Only the scales differ. The second row is a recipe made on
// the spot, from JSON: E4M3 for gradients too, without any scale.

// %%
const train::Recipe all_e4m3 =
    train::parse_recipe(R"({"base": "fp8-noscale", "name": "e4m3-noscale",
"operations": {"linear": {"gradients": "e4m3"}, "logits": {"gradients": "e4m3"}}})",
                        "lesson 12");
std::vector<train::Recipe> recipes = {train::require_recipe("fp32"), all_e4m3};
for (const char* name : {"fp8-noscale", "fp8-current", "fp8-delayed", "fp8-block", "mxfp8"})
  recipes.push_back(train::require_recipe(name));
Table runs =
    new_table("Digits after 150 steps", {text_column("recipe"), fixed_column("final loss", "", 3),
                                         fixed_column("held-out accuracy", "%", 1)});
std::vector<double> losses;
for (const train::Recipe& recipe : recipes) {
  train::RunRequest request;
  request.recipe = recipe, request.steps = 150;
  const train::RunResult run = train::run_training(request);
  losses.push_back(run.final_loss);
  add_row(runs, recipe.name, run.final_loss, 100 * run.held_out_accuracy.value_or(0));
}
table(runs);
expect(losses[1] > losses[0] + 0.2, "E4M3 gradients without a scale do not learn properly");
for (std::size_t i = 3; i < losses.size(); ++i)
  expect(std::fabs(losses[i] - losses[0]) < 0.03, text("{} ends where FP32 ends", recipes[i].name));

// %% [markdown]
// Commands: `narrow stats grads.safetensors --formats e4m3,mxfp8_e4m3,nvfp4` for your own tensors, `narrow scale-trace`
// for the scalers step by step, `narrow run fp8_scaling -o out --fast` for the comparison on more tensors.
//
// ## Exercises
//
// 1. A margin of 3 makes the scale $2^3$ times smaller, to have room for spikes. What does it cost in precision? Guess
//    in decibel first.
// 2. A block has only zeros. What is its scale, and what comes back?
// 3. How many bits a number do MXFP8, MXFP4 and NVFP4 store, scales included? Work it out, then check.

// %% [markdown] tags=["solution"]
// **1.** Nearly nothing. In a floating format the relative error is the same in every binade; only numbers near the
// bottom lose. In INT8 the same margin would cost three bits, 18 dB.

// %% tags=["solution"]
const auto with_margin = [&](const Format& f, double limit) {
  std::vector<float> got = activations;
  const float s = static_cast<float>(limit) / amax_of(activations);
  for (float& x : got) x = round_to(x * s, f, saturate) / s;
  return sqnr(activations, got);
};
say("E4M3: {:.1f} dB without and {:.1f} dB with a margin of 3. INT8: {:.1f} and {:.1f} dB.",
    with_margin(e4m3, 448), with_margin(e4m3, 56), with_margin("int8"_fmt, 127),
    with_margin("int8"_fmt, 15.875));
expect(with_margin(e4m3, 448) - with_margin(e4m3, 56) < 1.5,
       "three bits of margin cost E4M3 almost nothing");
expect(with_margin("int8"_fmt, 127) - with_margin("int8"_fmt, 15.875) > 15,
       "and INT8 three bits");

// %% [markdown] tags=["solution"]
// **2.** There is no largest magnitude to divide by. Each rule has an answer: per-tensor scaling takes 1, MX takes its
// smallest power of two. Zero times any finite scale is zero. A rule that divides without looking makes $0 \cdot
// \infty$, which is NaN.

// %% tags=["solution"]
const std::vector<float> zeros(32, 0.0f);
for (const char* format : {"fp8_tensor_e4m3", "mxfp8_e4m3"}) {
  const Quantised coded = quantise(zeros, 1, 32, require_block_format(format));
  print("{:<16} scale {}", format, coded.scales[0]);
  expect(dequantise(coded) == zeros, "zeros come back as zeros");
}

// %% [markdown] tags=["solution"]
// **3.** MXFP8 has an 8-bit scale for 32 numbers: $8 + 8/32 = 8.25$. MXFP4: $4 + 8/32 = 4.25$. NVFP4 has an 8-bit scale
// for 16 numbers: $4 + 8/16 = 4.5$.

// %% tags=["solution"]
expect(require_block_format("mxfp8_e4m3").bits_per_element() == 8.25, "MXFP8 takes 8.25 bits");
expect(require_block_format("mxfp4").bits_per_element() == 4.25, "MXFP4 takes 4.25 bits");
expect(require_block_format("nvfp4").bits_per_element() == 4.5, "NVFP4 takes 4.5 bits");

// %% tags=["program"]
}

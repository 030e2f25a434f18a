// %% [markdown]
// # FP16 against BF16: range against precision
//
// Two formats of 16 bits compete in training. They differ by three bits: BF16 took them from the mantissa and gave
// them to the exponent. This lesson measures what that buys, what it costs, and on which numbers of a real network
// each one wins.

// %% tags=["folded"]
#include <cmath>

#include "lesson.hpp"
#include "narrow/array/statistics.hpp"
#include "narrow/base/random.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/round/round_to.hpp"
#include "narrow/tensor/tensor_file.hpp"

using namespace narrow;
using namespace lesson;

constexpr Format fp16 = "fp16"_fmt;
constexpr Format bf16 = "bf16"_fmt;
constexpr Format fp32 = "fp32"_fmt;

// The values of one tensor of a file.
std::vector<float> read(const std::string& file, const std::string& tensor) {
  const Tensor t = open_tensor(file + ":" + tensor);
  std::vector<float> values(static_cast<std::size_t>(t.values()));
  read_values(t, 0, std::span<float>(values));
  return values;
}

// %% tags=["program"]
// clang-format off: the cells below are the statements of main, written from the margin as a notebook has them.
int main() {

// %% [markdown]
// ## Three bits moved
//
// One third, in FP32 and in both of them. BF16 is the upper half of FP32, rounded; FP16 has its own, smaller
// exponent.

// %%
for (const Format& f : {fp32, bf16, fp16}) bits(encode(1.0 / 3, f), f);

// %% [markdown]
// So a BF16 code becomes an FP32 code by appending sixteen zeros. Nothing is computed. That holds for every one of
// them.

// %%
bool appended = true;
for (Code code = 0; code < 65536; ++code)
  if (!is_nan(code, bf16)) appended = appended && decode(code, bf16) == decode(code << 16, fp32);
expect(appended, "every BF16 code, with 16 zeros appended, is the FP32 code of the same number");

// %% [markdown]
// ## Range
//
// The range of a format runs from its smallest to its largest number. One tutorial gives FP16 "about 24 orders of
// magnitude". Let us count, in binades (factors of 2) and decades (factors of 10).

// %%
Table range = new_table("Range, subnormals included",
                        {text_column("format"), real_column("smallest", "", 3),
                         real_column("largest", "", 3), integer_column("binades"),
                         fixed_column("decades", "", 1)});
const auto decades = [](const Format& f) { return std::log10(largest(f) / smallest_positive(f)); };
for (const char* name : {"fp32", "bf16", "fp16"}) {
  const Format f = *find_format(name);
  add_row(range, name, smallest_positive(f), largest(f),
          f.max_exponent() - f.min_quantum_exponent() + 1, decades(f));
}
table(range);
expect(fp16.max_exponent() - fp16.min_quantum_exponent() + 1 == 40, "FP16 spans 40 binades");
expect(std::fabs(decades(fp16) - 12.04) < 0.01,
       "that is 12 decades: half of the 24 that one reads");

// %% [markdown]
// Beyond the range lies infinity. A number that is harmless by itself can leave the range of FP16 when it is squared,
// as every LayerNorm does with its inputs.

// %%
for (const double x : {200.0, 255.0, 256.0, 300.0})
  print("{}^2 = {:>6}   FP16 {:>6}   BF16 {}", x, x * x, round_to(x * x, fp16),
        round_to(x * x, bf16));
expect(std::isinf(round_to(256.0 * 256, fp16)), "the square of 256 is infinite in FP16");
expect(round_to(256.0 * 256, bf16) == 65536, "and exact in BF16");

// %% [markdown]
// ## Precision
//
// With 10 stored mantissa bits FP16 has a relative error of at most $2^{-11}$; BF16, with 7, of at most $2^{-8}$:
// eight times as much. Here is the worst error in each binade, over the sizes that numbers in training have.

// %% tags=["folded"]
const auto worst_error = [](int binade, const Format& f) {
  double worst = 0;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const double one_to_two = 1 + static_cast<double>(random_bits(4, i) >> 11) * 0x1p-53;
    const double x = std::ldexp(one_to_two, binade), y = round_to(x, f);
    worst = std::max(worst, std::isinf(y) ? 1.0 : std::fabs(y - x) / x);
  }
  return worst;
};
Panel sizes;
sizes.x = {"size of the number", "", AxisScale::exponent_of_two, -40.0, 24.0, {}, {}};
sizes.y = {"worst relative error", "%", AxisScale::log10, 0.02, 200.0, {}, {}};
Series half = new_series("FP16", Draw::steps, PlotColour::blue);
Series brain = new_series("BF16", Draw::steps, PlotColour::orange);
for (int k = -40; k <= 24; ++k) {
  add_point(half, k, 100 * worst_error(k, fp16));
  add_point(brain, k, 100 * worst_error(k, bf16));
}
sizes.series = {half, brain};
picture(new_plot("FP16 is eight times as precise as BF16, where it has numbers at all",
                 "Worst relative error in each binade; 100 % means lost or infinite",
                 {sizes}, 300));
expect(worst_error(0, bf16) <= 0x1p-8 && worst_error(0, fp16) <= 0x1p-11, "2^-8 against 2^-11");

// %% [markdown]
// Few bits show first where small things are added to large ones. Count to 4096 in each format: add 1, round, repeat.

// %%
const auto count_up = [](const Format& f) {
  double total = 0;
  for (int i = 0; i < 4096; ++i) total = round_to(total + 1, f);
  return total;
};
print("FP16 counts to {}", count_up(fp16));
print("BF16 counts to {}", count_up(bf16));
print("FP32 counts to {}", count_up(fp32));
expect(count_up(fp16) == 2048 && count_up(bf16) == 256,
       "the count stops at 2^11 in FP16, at 2^8 in BF16");

// %% [markdown]
// At 256 the BF16 numbers are 2 apart; $256 + 1$ is a tie, and goes back to 256. For ever. A sum over a batch, a loss
// over many tokens, a weight that gets many small updates: all of these are this loop, and this is why they are kept
// in FP32.
//
// ## On real numbers
//
// Now the numbers of a small GPT after 300 training steps, as recorded on a GPU. For each tensor and format: the
// share of the non-zero values that becomes zero, and the signal-to-noise ratio in decibels (each bit of precision is
// worth 6 dB).

// %%
const std::string file = data_file("torch/step300.safetensors");
Table measured = new_table("Recorded tensors in both formats",
                           {text_column("tensor"), real_column("largest", "", 3),
                            real_column("FP16 lost", "%", 3), fixed_column("FP16", "dB", 1),
                            real_column("BF16 lost", "%", 3), fixed_column("BF16", "dB", 1)});
const FormatCast both[] = {{fp16, {}}, {bf16, {}}};
double worst_lost = 0, least_gain = 1000;
for (const char* name : {"act.blocks.0.ln1", "act.blocks.3.gelu", "act.blocks.3.residual",
                         "grad.blocks.0.attn.qkv.weight", "grad.head.weight",
                         "actgrad.blocks.0.gelu", "actgrad.head"}) {
  const std::vector<float> values = read(file, name);
  const Statistics s = statistics(values, both);
  const auto lost = [&](std::size_t i) { return s.input.share(s.formats[i].underflow).of_nonzero; };
  add_row(measured, name, s.input.amax, 100 * lost(0), s.formats[0].sqnr_db(), 100 * lost(1),
          s.formats[1].sqnr_db());
  worst_lost = std::max(worst_lost, lost(0));
  if (std::string_view(name).starts_with("act."))
    least_gain = std::min(least_gain, s.formats[0].sqnr_db() - s.formats[1].sqnr_db());
}
table(measured);
say("On activations FP16 is better by {:.1f} dB or more, which is three bits. "
    "On gradients it loses up to {:.0f} % of the values; BF16 loses none.", least_gain,
    100 * worst_lost);
expect(least_gain > 17, "activations: FP16 has the three bits more that its name promises");
expect(worst_lost > 0.3, "gradients: FP16 alone loses a large share in some tensors");

// %% [markdown]
// That is the whole trade. FP16 needs help with small gradients (lesson 6 shows the help: loss scaling); BF16 needs
// none, and has the precision of a pocket calculator with two and a half digits. In practice both train well, when
// sums and master weights stay in FP32.
//
// ## Exercises
//
// 1. Which numbers do the two formats share? Count the FP16 codes whose value BF16 has as well.
// 2. Softmax gives probabilities between 0 and 1. Which of the two formats is better for them, and where does the
//    other win?
// 3. A weight is 1.0 and the update is 0.003. What happens in BF16, and what in FP16?

// %% [markdown] tags=["solution"]
// **1.** A value is shared when it needs no more than 8 significant bits. Among the normal FP16 numbers that is one
// in eight.
//
// **2.** FP16, by three bits, for every probability above $2^{-14}$. Below that its subnormals lose a bit a binade;
// at $2^{-17}$ both are alike, and for smaller ones BF16 is better.
//
// **3.** Around 1, BF16 has steps of $2^{-7} \approx 0.0078$ above and half of that below. $0.003$ is less than half
// a step: lost, every time. FP16 has steps of $2^{-10} \approx 0.001$ and takes it.

// %% tags=["solution"]
int shared = 0, finite = 0;
for (Code code = 0; code < 65536; ++code) {
  if (is_nan(code, fp16) || is_inf(code, fp16)) continue;
  ++finite;
  const double x = decode(code, fp16);
  shared += round_to(x, bf16) == x ? 1 : 0;
}
say("{} of {} finite FP16 codes, {:.1f} %.", shared, finite, 100.0 * shared / finite);
print("1 + 0.003: BF16 {}, FP16 {}", round_to(1.003, bf16), round_to(1.003, fp16));
expect(round_to(1.003, bf16) == 1 && round_to(1.003, fp16) > 1,
       "BF16 loses the update, FP16 takes it");
expect(worst_error(-17, fp16) < 1.01 * worst_error(-17, bf16) &&
           worst_error(-18, fp16) > 1.5 * worst_error(-18, bf16),
       "they are equally precise at 2^-17, and below it BF16 wins");

// %% tags=["program"]
}

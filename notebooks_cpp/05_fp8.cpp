// %% [markdown]
// # FP8: E4M3, E5M2, 448 or 240, and saturation
//
// Eight bits make 256 codes. That is so few that one can look at all of them, and this lesson does. It settles two
// questions on which tutorials disagree: what the largest E4M3 number is, and what happens beyond it.

// %% tags=["folded"]
#include <cmath>

#include "lesson.hpp"
#include "narrow/array/statistics.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/round/named_cast.hpp"
#include "narrow/round/round_to.hpp"
#include "narrow/tensor/tensor_file.hpp"
#include "narrow/text/text.hpp"

using namespace narrow;
using namespace lesson;

constexpr Format e4m3 = "e4m3"_fmt;
constexpr Format e5m2 = "e5m2"_fmt;

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
// ## Two ways to spend eight bits
//
// E4M3 has four exponent bits and three mantissa bits; E5M2 has five and two. The number 3.5 in both:

// %%
bits(encode(3.5, e4m3), e4m3);
bits(encode(3.5, e5m2), e5m2);

// %% [markdown]
// With $m$ mantissa bits there are $2^m$ numbers in a binade: eight in E4M3, four in E5M2. In decimal digits a format
// has about $(m + 1) \cdot \log_{10} 2$ of them.

// %%
Table two = new_table("The two formats of the OCP standard",
                      {text_column("format"), integer_column("a binade"),
                       fixed_column("digits", "", 1), fixed_column("error", "%", 2),
                       real_column("largest", "", 5), power_column("smallest normal"),
                       power_column("smallest"), text_column("Inf"), integer_column("NaN codes")},
                      "a binade: numbers in each; error: the largest relative one in the normal range");
const auto count_nan = [](const Format& f) {
  int count = 0;
  for (Code code = 0; code < 256; ++code) count += is_nan(code, f) ? 1 : 0;
  return count;
};
for (const char* name : {"e4m3", "e5m2"}) {
  const Format f = *find_format(name);
  add_row(two, name, 1 << f.mantissa_bits, f.significand_bits() * std::log10(2.0),
          100 * std::ldexp(1.0, -f.significand_bits()), largest(f), smallest_normal(f),
          smallest_positive(f), f.has_infinity() ? "yes" : "no", count_nan(f));
}
table(two);
expect(largest(e4m3) == 448 && largest(e5m2) == 57344, "448 and 57344");

// %% tags=["folded"]
Panel all;
all.x = {"value", "", AxisScale::log2, 0x1p-17, 65536.0, {}, {}};
for (const char* name : {"e5m2", "e4m3"}) {
  const Format f = *find_format(name);
  const auto place = static_cast<double>(all.y.categories.size());
  Series normal = new_series("normal", Draw::points, PlotColour::blue);
  Series small = new_series("subnormal", Draw::points, PlotColour::orange);
  for (Code code = 1; code <= f.max_code(); ++code)
    add_point(classify(code, f) == ValueClass::normal ? normal : small, decode(code, f), place);
  all.y.categories.push_back(name);
  all.series.push_back(normal);
  all.series.push_back(small);
}
picture(new_plot("E5M2 reaches further in both directions, E4M3 is denser",
                 "Every positive number of both formats, on a logarithmic axis", {all}, 170));

// %% [markdown]
// ## 448 or 240?
//
// IEEE 754 reserves the whole top exponent for infinity and NaN. A four-bit exponent has only 16 values, so that
// would cost E4M3 an entire binade: the largest number would be 240. The standard that accelerators follow (OCP,
// 2023) gives the top binade back, keeps a single NaN code per sign, and has no infinity: then the largest number is
// 448. A third family, *fnuz*, moves NaN to the code of minus zero and shifts the bias. Here is what the top codes
// mean in each.

// %%
Table top = new_table("The codes at the top", {text_column("code"), text_column("e4m3 (OCP)"),
                                               text_column("e4m3ieee"), text_column("e4m3fnuz")});
for (Code code = 0x75; code <= 0x80; ++code)
  add_row(top, to_hex_code(code, e4m3), to_decimal(code, e4m3), to_decimal(code, "e4m3ieee"_fmt),
          to_decimal(code, "e4m3fnuz"_fmt));
table(top);
expect(largest("e4m3ieee"_fmt) == 240, "240 is right for the IEEE-like reading");
expect(largest("e4m3fnuz"_fmt) == 240, "and for fnuz");
expect(largest(e4m3) == 448, "448 is right for the format that GPUs call E4M3");

// %% [markdown]
// So both numbers are right, each for its own format. A tensor that was written in one and is read in the other is
// wrong by a factor of two, or becomes NaN at the top. The name must say which it is.
//
// ## Beyond the top: NaN or 448
//
// What should a cast do with 1000? E4M3 has no infinity. It can answer NaN, or **saturate** to 448. That is not a
// property of the format; it is a choice of the *cast*, and systems choose differently.

// %%
const double inputs[] = {448, 460, 464, 465, 480, 1000, -1000, INFINITY};
Table casts = new_table("What systems make of large numbers in E4M3", {text_column("cast")});
for (const double x : inputs) casts.columns.push_back(text_column(text("{}", x)));
const auto shown = [](double x, const Format& f, const Cast& cast) {
  return to_decimal(encode(x, f, cast), f);
};
for (const char* system : {"torch", "cuda", "ml_dtypes"}) {
  const Cast cast = named_cast(system, e4m3);
  std::vector<std::string> row{system};
  for (const double x : inputs) row.push_back(shown(x, e4m3, cast));
  add_text_row(casts, row);
}
table(casts);
const Cast torch = named_cast("torch", e4m3), cuda = named_cast("cuda", e4m3);
expect(is_nan(encode(1000.0, e4m3, torch), e4m3), "PyTorch's cast gives NaN");
expect(decode(encode(1000.0, e4m3, cuda), e4m3) == 448, "CUDA's cast gives 448");
expect(round_to(464.0, e4m3) == 448,
       "464, half way to the 480 that is not there, still rounds to 448");

// %% [markdown]
// Which is better? A NaN is loud: one of them in a matrix poisons a row of the product, and the run stops learning.
// Saturation is quiet: the value is wrong by a bounded amount and training often survives. Debug with NaN, train with
// saturation, and above all scale the tensor so that neither is needed.
//
// ## A scale for every tensor
//
// E4M3 has 18 binades, subnormals included. A tensor fits only if it is multiplied by a suitable number first. Here
// is the signal-to-noise ratio of a recorded activation and a recorded gradient of a small GPT, against the scale.

// %% tags=["folded"]
const std::string file = data_file("torch/step300.safetensors");
const FormatCast both[] = {{e4m3, {.overflow = Overflow::saturate}},
                           {e5m2, {.overflow = Overflow::saturate}}};
Plot curves = new_plot("Each tensor has its own window of good scales; E4M3 is higher, E5M2 wider",
                       "Signal-to-noise ratio after rounding (saturating), against the scale", {},
                       280);
curves.columns = 2;
double best[2][2] = {};
for (int t = 0; t < 2; ++t) {
  const char* name = t == 0 ? "act.blocks.3.gelu" : "actgrad.blocks.0.gelu";
  const std::vector<float> values = read(file, name);
  Panel panel;
  panel.title = name;
  panel.x = {"scale", "", AxisScale::exponent_of_two, -10.0, 34.0, {}, {}};
  panel.y = {"SQNR", "dB", AxisScale::linear, 0.0, 36.0, {}, {}};
  Series lines[2] = {new_series("E4M3", Draw::line, PlotColour::green),
                     new_series("E5M2", Draw::line, PlotColour::purple)};
  for (int k = -10; k <= 34; ++k) {
    const Statistics s = statistics(values, both, std::ldexp(1.0, k));
    for (std::size_t f = 0; f < 2; ++f) {
      add_point(lines[f], k, s.formats[f].clipped_sqnr_db());
      best[t][f] = std::max(best[t][f], s.formats[f].clipped_sqnr_db());
    }
  }
  panel.series = {lines[0], lines[1]};
  curves.panels.push_back(panel);
}
picture(curves);
say("With its best scale the activation reaches {:.1f} dB in E4M3 and {:.1f} dB in E5M2; "
    "the gradient {:.1f} dB and {:.1f} dB.", best[0][0], best[0][1], best[1][0], best[1][1]);
expect(best[0][0] > best[0][1] + 4,
       "a third mantissa bit is worth about 6 dB, when the scale is right");

// %% [markdown]
// The curve of E4M3 is higher, because it has one mantissa bit more; the plateau of E5M2 is wider, because it has one
// exponent bit more. That is why recipes use E4M3 for weights and activations, whose scale is easy to find, and E5M2
// for gradients, which spread over more binades. How to choose the scale in practice is the subject of lesson 12.
//
// ## Exercises
//
// 1. Which number is the code `0x7E` in e4m3, in e4m3ieee and in e5m2?
// 2. Is every product of two E4M3 numbers an FP16 number? Is it a BF16 number? Try all pairs.
// 3. A tensor has the largest magnitude 0.02. Which power of two as scale brings it as close as possible to 448
//    without passing it?

// %% [markdown] tags=["solution"]
// **1.** `0 1111 110`: in e4m3 a finite number, 448; in e4m3ieee a NaN; in e5m2, where the same bits are
// `0 11111 10`, a NaN too.
//
// **2.** A product of two significands of 4 bits has at most 8 bits, which fits into the 8 significant bits of BF16
// and the 11 of FP16. But the largest products are beyond 65504, so FP16 makes them infinite. BF16 has them all.
//
// **3.** $448 / 0.02 = 22400$, and the largest power of two below is $2^{14} = 16384$.

// %% tags=["solution"]
print("e4m3 {}, e4m3ieee {}, e5m2 {}", to_decimal(0x7E, e4m3), to_decimal(0x7E, "e4m3ieee"_fmt),
      to_decimal(0x7E, e5m2));
int not_fp16 = 0, not_bf16 = 0;
for (Code a = 0; a < 256; ++a)
  for (Code b = 0; b < 256; ++b) {
    if (is_nan(a, e4m3) || is_nan(b, e4m3)) continue;
    const double product = decode(a, e4m3) * decode(b, e4m3);
    not_fp16 += round_to(product, "fp16"_fmt) == product ? 0 : 1;
    not_bf16 += round_to(product, "bf16"_fmt) == product ? 0 : 1;
  }
say("{} products are no FP16 number, {} are no BF16 number.", not_fp16, not_bf16);
expect(not_bf16 == 0 && not_fp16 > 0,
       "BF16 holds every product of two E4M3 numbers, FP16 does not");
expect(0.02 * 0x1p14 <= 448 && 0.02 * 0x1p15 > 448, "2^14 is the largest scale that fits");

// %% tags=["program"]
}

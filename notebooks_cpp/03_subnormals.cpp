// %% [markdown]
// # Subnormals and the bottom of FP16
//
// "FP16 cannot hold anything below $6 \cdot 10^{-5}$" is a sentence that many tutorials contain. It is wrong by a
// factor of a thousand, and the part in between is where the gradients of real networks live. This lesson goes down
// there.

// %% tags=["folded"]
#include <cmath>

#include "lesson.hpp"
#include "narrow/base/random.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/format/neighbours.hpp"
#include "narrow/round/round_to.hpp"
#include "narrow/text/text.hpp"

using namespace narrow;
using namespace lesson;

constexpr Format fp16 = "fp16"_fmt;
constexpr Format bf16 = "bf16"_fmt;
constexpr Cast flush{.subnormals = Subnormals::flush_results};

// %% tags=["program"]
// clang-format off: the cells below are the statements of main, written from the margin as a notebook has them.
int main() {

// %% [markdown]
// ## The last normal number
//
// Normal numbers have a hidden 1 before the point. The smallest exponent field for them is 1, so the smallest normal
// number is $2^{1-15} = 2^{-14}$. What comes below?

// %%
const Code normal = encode(smallest_normal(fp16), fp16);
bits(normal + 1, fp16);
bits(normal, fp16);
bits(normal - 1, fp16);
bits(normal - 2, fp16);
bits(1, fp16);
bits(0, fp16);
print("smallest normal    {:.6}", smallest_normal(fp16));
print("smallest subnormal {:.6}", smallest_positive(fp16));
expect(classify(normal, fp16) == ValueClass::normal, "2^-14 is the last normal number");
expect(classify(normal - 1, fp16) == ValueClass::subnormal, "the code before it is subnormal");
expect(smallest_positive(fp16) == 0x1p-24, "the smallest FP16 number is 2^-24, about 6e-8");

// %% [markdown]
// With exponent field 0 the hidden digit is 0 instead of 1, and the exponent stays at that of the smallest normal
// numbers:
//
// $$ x = 2^{-14} \cdot \frac{m}{2^{10}} = m \cdot 2^{-24} $$
//
// So the **subnormal** numbers are the multiples of $2^{-24}$, evenly spaced down to zero: there is no hole between
// the smallest normal number and zero. The price: they have fewer significant bits the smaller they are. The number
// $2^{-24}$ has a single one.

// %%
bool even_steps = true;
for (Code code = 0; code < normal; ++code)
  even_steps = even_steps && decode(code + 1, fp16) - decode(code, fp16) == 0x1p-24;
expect(even_steps, "from 0 to 2^-14 every step is 2^-24");

// %% [markdown]
// ## What precision is left
//
// How large can the relative error get? In the normal range it is bounded by $2^{-11}$ everywhere. Below $2^{-14}$
// the quantum no longer shrinks with the number, so each binade costs one bit. Here it is measured: the worst of
// 4,000 numbers in each binade.

// %%
const auto worst_error = [](int binade, const Format& f, const Cast& cast) {
  double worst = 0;
  for (std::uint64_t i = 0; i < 4000; ++i) {
    const double one_to_two = 1 + static_cast<double>(random_bits(3, i) >> 11) * 0x1p-53;
    const double x = std::ldexp(one_to_two, binade);
    worst = std::max(worst, std::fabs(round_to(x, f, cast) - x) / x);
  }
  return worst;
};
Table precision = new_table("FP16 by binade: the numbers from 2^k up to twice that",
                            {integer_column("k"), text_column("they are"),
                             real_column("worst error", "%", 3),
                             real_column("if flushed", "%", 3)});
for (const int k : {-12, -14, -15, -16, -18, -20, -22, -23, -24, -25, -26})
  add_row(precision, k,
          k >= -14   ? "normal"
          : k >= -24 ? "subnormal"
          : k == -25 ? "rounded up to 2^-24"
                     : "rounded to 0",
          100 * worst_error(k, fp16, {}), 100 * worst_error(k, fp16, flush));
table(precision);
expect(worst_error(-14, fp16, {}) <= 0x1p-11, "at 2^-14 the error is still at most 2^-11");
expect(worst_error(-20, fp16, {}) <= 0x1p-5,
       "at 2^-20, a millionth, it is at most 2^-5, about 3 %");
expect(worst_error(-26, fp16, {}) == 1, "below 2^-25 everything is lost");

// %% tags=["folded"]
Panel down;
down.x = {"size of the number", "", AxisScale::exponent_of_two, -30.0, -10.0, {}, {}};
down.y = {"worst relative error", "%", AxisScale::log10, 0.01, 200.0, {}, {}};
Series kept = new_series("FP16, subnormals kept", Draw::steps, PlotColour::blue);
Series flushed = new_series("FP16, subnormals flushed to zero", Draw::steps, PlotColour::vermilion);
Series wide = new_series("BF16", Draw::steps, PlotColour::orange);
for (int k = -30; k <= -10; ++k) {
  add_point(kept, k, 100 * worst_error(k, fp16, {}));
  add_point(flushed, k, 100 * worst_error(k, fp16, flush));
  add_point(wide, k, 100 * worst_error(k, bf16, {}));
}
down.series = {flushed, kept, wide};
down.marks = {{Along::x, -14.0, "smallest normal", PlotColour::grey},
              {Along::x, -24.0, "smallest subnormal", PlotColour::grey}};
picture(new_plot("Subnormals give FP16 ten more binades, each with one bit less",
                 "Worst relative error of 4,000 numbers in each binade", {down}, 320));

// %% [markdown]
// Two readings of this picture. First, FP16 keeps *something* down to $2^{-25} \approx 3 \cdot 10^{-8}$, and
// something good (under 1 %) down to about $2^{-18}$. Second, all of that is gone where hardware or a library
// **flushes** subnormals to zero. CPUs can be told to do that for FP32, and some programs do. NVIDIA's tensor cores
// read FP16 subnormals in full.
//
// ## Where exactly does zero begin?
//
// The smallest number is $2^{-24}$. Half of it is the middle between $2^{-24}$ and zero: a tie, and ties go to even.
// Zero is even.

// %%
const double half = 0x1p-25;
print("{:.8} becomes {}", half, round_to(half, fp16));
print("{:.8} becomes {:.8}", std::nextafter(half, 1.0), round_to(std::nextafter(half, 1.0), fp16));
expect(round_to(half, fp16) == 0, "2^-25 becomes zero");
expect(round_to(std::nextafter(half, 1.0), fp16) == 0x1p-24, "the next double above it survives");

// %% [markdown]
// ## One number, looked at closely
//
// A gradient of $10^{-7}$ is often given as an example of something that FP16 cannot hold.

// %%
const double gradient = 1e-7;
bits(encode(gradient, fp16), fp16);
const double held = round_to(gradient, fp16);
say("FP16 holds 1e-7 as **{:.4}**: not zero, but {:.0f} % too large.", held,
    100 * (held / gradient - 1));
say("Multiplied by 2^15 first, it is {:.4}, and the error is {:.3} %.", gradient * 0x1p15,
    100 * std::fabs(round_to(gradient * 0x1p15, fp16) / (gradient * 0x1p15) - 1));
expect(held == 2 * 0x1p-24, "1e-7 is held as two quanta, 1.19e-7");
expect(std::fabs(gradient * 0x1p15 - 3.2768e-3) < 1e-12, "1e-7 times 2^15 is 3.3e-3, not 3.3");

// %% [markdown]
// ## Subnormals make subtraction honest
//
// There is an older reason to have them. With subnormals, $x - y$ is zero only when $x = y$. Without them, two
// different small numbers can have a difference of "zero", and `if (x != y) z = 1 / (x - y);` divides by zero. All
// neighbours in FP16, tried out:

// %%
int zero_with = 0, zero_without = 0;
for (Code code = 1; code < fp16.max_code(); ++code) {
  const double difference = decode(code + 1, fp16) - decode(code, fp16);
  zero_with += round_to(difference, fp16) == 0 ? 1 : 0;
  zero_without += round_to(difference, fp16, flush) == 0 ? 1 : 0;
}
say("Differences of neighbours that come out as zero: **{}** with subnormals, **{}** without.",
    zero_with, zero_without);
expect(zero_with == 0, "with subnormals, different numbers have a difference");

// %% [markdown]
// `narrow show 1e-7 --formats fp16,bf16,e5m2` shows the class of a number in each format, and
// `narrow stats grads.safetensors --formats fp16` counts how much of a tensor is subnormal or lost.
//
// ## Exercises
//
// 1. How many FP16 codes are subnormal, and which share of all positive numbers is that?
// 2. A gradient is $2 \cdot 10^{-8}$. Does it survive in FP16? With which power of two must it be multiplied to
//    become a *normal* number?
// 3. E4M3 has the smallest normal number $2^{-6}$ and three mantissa bits. What is its smallest number, and how many
//    positive subnormals does it have? Work it out, then look.

// %% [markdown] tags=["solution"]
// **1.** With exponent field 0 there are $2^{10} - 1 = 1023$ positive ones (the mantissa 0 is zero itself).
//
// **2.** It lies below $2^{-25} \approx 2.98 \cdot 10^{-8}$, so it becomes zero.
// $2 \cdot 10^{-8} = 1.34 \cdot 2^{-26}$, so a factor of $2^{12}$ brings it to $2^{-14}$.
//
// **3.** The quantum of the subnormals is $2^{-6-3} = 2^{-9}$, which is also the smallest number; there are
// $2^3 - 1 = 7$.

// %% tags=["solution"]
int subnormals = 0;
for (Code code = 1; code <= fp16.max_code(); ++code)
  subnormals += classify(code, fp16) == ValueClass::subnormal ? 1 : 0;
say("{} positive subnormals, {:.1f} % of the positive numbers.", subnormals,
    100.0 * subnormals / static_cast<double>(fp16.max_code()));
expect(subnormals == 1023, "FP16 has 1023 positive subnormals");
expect(round_to(2e-8, fp16) == 0, "2e-8 is lost");
expect(2e-8 * 0x1p11 < smallest_normal(fp16) && 2e-8 * 0x1p12 >= smallest_normal(fp16),
       "2^12 is the smallest power of two that makes it normal");
expect(smallest_positive("e4m3"_fmt) == 0x1p-9, "the smallest E4M3 number is 2^-9");

// %% tags=["program"]
}

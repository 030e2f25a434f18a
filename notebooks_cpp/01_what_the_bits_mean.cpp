// %% [markdown]
// # What the bits mean
//
// A floating-point number is a small integer, read in a certain way. This lesson reads a few by hand, then lets the
// machine check every one of the 65,536 codes of FP16. After it you can look at `0x3C00` and say *one*, and you know
// why $0.1$ is not among the numbers that a computer has.
//
// Every number on this page was computed when the page was made. Each line with a check mark is a statement that the
// program behind the page has tested; had it been false, there would be no page.

// %% tags=["folded"]
#include <cmath>

#include "lesson.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/format/neighbours.hpp"
#include "narrow/round/round_to.hpp"
#include "narrow/text/text.hpp"

using namespace narrow;
using namespace lesson;

constexpr Format fp16 = "fp16"_fmt;
constexpr Format bf16 = "bf16"_fmt;

// %% tags=["program"]
// clang-format off: the cells below are the statements of main, written from the margin as a notebook has them.
int main() {

// %% [markdown]
// ## Three fields
//
// FP16 has 16 bits in three fields: one bit for the **sign** $s$, five for the **exponent** $e$, ten for the
// **mantissa** $m$. Here are four numbers as FP16 stores them.

// %%
for (const double x : {1.0, -2.0, 1.5, 0.15625}) bits(encode(x, fp16), fp16);

// %% [markdown]
// The sign is easy: 1 means negative. The exponent field is a number from 0 to 31, from which a fixed **bias** is
// taken: 15 in FP16, so that both large and small numbers have a place. The mantissa holds the digits *after* the
// binary point; the digit before the point is not stored, because in a normal number it is always 1. So the value is
//
// $$ x = (-1)^s \cdot 2^{e - 15} \cdot \left( 1 + \frac{m}{2^{10}} \right) $$
//
// Take the last number above. Its exponent field is `01100`, which is 12, and its mantissa is `0100000000`, which is
// 256: $2^{12-15} \cdot (1 + 256/1024) = \frac{1}{8} \cdot 1.25 = 0.15625$.
//
// One exponent field breaks the rule. With $e = 0$ there is no hidden 1, and the value is
//
// $$ x = (-1)^s \cdot 2^{-14} \cdot \frac{m}{2^{10}} $$
//
// These are zero and the *subnormal* numbers; they have a lesson of their own, the third. And $e = 31$, all ones, is
// kept for infinity ($m = 0$) and for NaN, "not a number" (every other $m$).

// %%
const auto by_hand = [](Code code) {
  const int sign = static_cast<int>(code >> 15), exponent = static_cast<int>(code >> 10 & 31);
  const double mantissa = static_cast<double>(code & 1023) / 1024;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -14) : std::ldexp(1 + mantissa, exponent - 15);
  return sign == 1 ? -magnitude : magnitude;
};
int agree = 0, special = 0;
for (Code code = 0; code < 65536; ++code) {
  if (is_inf(code, fp16) || is_nan(code, fp16)) ++special;
  else if (by_hand(code) == decode(code, fp16)) ++agree;
}
say("Read by hand, **{}** codes give the number that the library gives; "
    "the other {} are infinities and NaN.", agree, special);
expect(agree + special == 65536, "two formulas and one exception describe all codes of FP16");

// %% [markdown]
// ## The same bits, another meaning
//
// Nothing in the bits says where the fields end. That is the *format*, and it must be known. BF16 has 16 bits as
// well, but gives eight of them to the exponent (bias 127) and only seven to the mantissa. The same code then means
// something else.

// %%
bits(0x3C00, fp16);
bits(0x3C00, bf16);
say("`0x3C00` is {} in FP16 and {} in BF16.", decode(0x3C00, fp16), decode(0x3C00, bf16));
expect(decode(0x3C00, fp16) == 1 && decode(0x3C00, bf16) == 0x1p-7,
       "a code has no value until the format is known");

// %% [markdown]
// ## Where the numbers lie
//
// Between two neighbouring powers of two, a **binade**, every format has the same count of numbers, evenly spaced:
// $2^{10}$ of them in FP16. The next binade is twice as wide and has no more numbers, so the distance between
// neighbours doubles. That distance has a name: the **quantum**, or *unit in the last place*.

// %%
Table spacing = new_table("Distances in FP16",
                          {text_column("from"), text_column("to"), power_column("quantum"),
                           text_column("first number"), text_column("second number")});
for (const double start : {0.25, 0.5, 1.0, 2.0, 1024.0, 32768.0}) {
  const Code first = encode(start, fp16), second = next_up(first, fp16);
  add_row(spacing, power_text(start), power_text(2 * start),
          decode(second, fp16) - decode(first, fp16), to_decimal(first, fp16),
          to_decimal(second, fp16));
}
table(spacing);
expect(encode(2.0, fp16) - encode(1.0, fp16) == 1024, "from 1 to 2 there are 1024 numbers");
expect(encode(1024.0, fp16) - encode(512.0, fp16) == 1024, "and as many from 512 to 1024");
expect(decode(0x3C01, fp16) - 1 == 0x1p-10, "after 1, FP16 continues with 1 + 2^-10");
expect(decode(next_up(encode(2048.0, fp16), fp16), fp16) == 2050,
       "after 2048, FP16 has only even integers");

// %% [markdown]
// With only a few bits the whole set fits into a picture. Each mark is one number that the format has.

// %%
Panel line;
line.x.label = "value";
for (const char* name : {"e2m1", "e2m3", "e3m2", "e4m3"}) {
  const Format f = *find_format(name);
  const auto place = static_cast<double>(line.y.categories.size());
  Series marks = new_series("", Draw::points, PlotColour::blue);
  for (Code code = 0; code <= f.max_code(); ++code)
    if (decode(code, f) <= 8) add_point(marks, decode(code, f), place);
  line.y.categories.push_back(name);
  line.series.push_back(marks);
}
picture(new_plot("Dense near zero, sparse far from it: what a format can say between 0 and 8",
                 "Every value of four formats; E and M count exponent and mantissa bits",
                 {line}, 200));

// %% [markdown]
// ## Why 0.1 is not there
//
// The formula above only makes fractions whose denominator is a power of two. $0.1 = \frac{1}{10}$ is none, so every
// binary format stores a neighbour of it instead, and the fewer bits it has, the further away that neighbour lies.

// %%
Table tenth = new_table("0.1, stored", {text_column("format"), text_column("code"),
                                        text_column("what is stored, exactly"),
                                        real_column("off by", "%", 3)});
for (const char* name : {"fp32", "fp16", "bf16", "e4m3", "e5m2", "e2m1"}) {
  const Format f = *find_format(name);
  const Code code = encode(0.1, f);
  add_row(tenth, name, to_hex_code(code, f), to_decimal(code, f),
          100 * std::fabs(decode(code, f) / 0.1 - 1));
}
table(tenth);
expect(decode(encode(0.1, fp16), fp16) != 0.1, "FP16 has no 0.1");
expect(decode(encode(0.1, "fp32"_fmt), "fp32"_fmt) > 0.1,
       "FP32 has none either: what it stores is a little larger");

// %% [markdown]
// ## Codes are in order
//
// The exponent stands to the left of the mantissa for a reason: read as plain integers, the codes of positive numbers
// are in the order of their values. Adding 1 to the code gives the next number, even across a power of two, where the
// mantissa overflows into the exponent.

// %%
bits(0x3BFF, fp16);
bits(0x3BFF + 1, fp16);
bool ordered = true;
for (Code code = 0; code < fp16.infinity_code(); ++code)
  ordered = ordered && decode(code, fp16) < decode(code + 1, fp16);
expect(ordered, "for positive FP16 numbers, the next code is the next number, up to infinity");

// %% [markdown]
// ## The codes that are no ordinary numbers
//
// There are two zeros (they compare equal), two infinities, and many NaN: what comes out of $0/0$ or
// $\infty - \infty$, and then out of everything that is computed with it.

// %%
bits(fp16.zero_code(), fp16);
bits(fp16.zero_code(true), fp16);
bits(fp16.infinity_code(), fp16);
bits(fp16.nan_code(), fp16);
expect(decode(0x8000, fp16) == decode(0, fp16), "minus zero equals zero");

// %% [markdown]
// ## All limits follow from the fields
//
// Nothing but the widths of the fields, the bias, and what the top codes mean is needed to know the limits of a
// format. This table is computed from these few integers.

// %%
Table limits = new_table("Formats that training uses",
                         {text_column("format"), integer_column("bits"), integer_column("exponent"),
                          integer_column("mantissa"), real_column("largest", "", 5),
                          real_column("smallest normal", "", 3), real_column("smallest", "", 3),
                          power_column("step after 1")});
for (const char* name : {"fp32", "tf32", "fp16", "bf16", "e5m2", "e4m3", "e3m2", "e2m1"}) {
  const Format f = *find_format(name);
  add_row(limits, name, f.width(), f.exponent_bits, f.mantissa_bits, largest(f), smallest_normal(f),
          smallest_positive(f), epsilon(f));
}
table(limits);
expect(largest(fp16) == 65504, "the largest FP16 number is 65504");

// %% [markdown]
// ## On the command line
//
// `narrow show 0.1` prints one number in every format. Each line has what this lesson was about:
//
// - **code**: the bits as a hexadecimal integer, and at the end of the line as **fields**, sign, exponent and mantissa.
// - **value**: the number that is stored, with all its digits.
// - **error (ulp)**: how far that is from what was asked for, in quanta. To nearest it is never more than 0.5.
// - **class**: zero, subnormal, normal, inf or nan; **below** and **above**: the neighbours.
//
// `narrow show 0.1 --formats fp16,bf16` asks for some formats only, `narrow show 0x3C00 --from fp16` reads a code, and
// `narrow formats` prints the table above for all formats.
//
// ## Exercises
//
// 1. Which number is the FP16 code `0xC500`? Work it out on paper: write the 16 bits, cut them into fields, use the
//    formula.
// 2. Derive the largest FP16 number, 65504, from the formula.
// 3. Which share of all positive finite FP16 numbers lies below 1? Guess first.

// %% [markdown] tags=["solution"]
// **1.** `0xC500` is `1 10001 0100000000`: negative, $e = 17$, $m = 256$, so $-2^{17-15} \cdot 1.25 = -5$.
//
// **2.** The largest exponent field that is not reserved is 30 and the largest mantissa 1023:
// $2^{30-15} \cdot (1 + \frac{1023}{1024}) = 2^{16} - 2^5 = 65504$.
//
// **3.** The codes are in order, so it is enough to look at the code of 1: everything with a smaller code lies below.

// %% tags=["solution"]
bits(0xC500, fp16);
const double below = static_cast<double>(encode(1.0, fp16) - 1);
const double share = below / static_cast<double>(fp16.max_code());
say("{:.1f} % of the positive FP16 numbers lie below 1.", 100 * share);
expect(decode(0xC500, fp16) == -5, "0xC500 is -5");
expect(by_hand(0x7BFF) == 65504, "exponent field 30 and mantissa 1023 make 65504");
expect(share > 0.48 && share < 0.49, "almost half of the positive FP16 numbers lie below 1");

// %% tags=["program"]
}

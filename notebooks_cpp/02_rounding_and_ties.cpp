// %% [markdown]
// # Rounding, ties, and why nearest even
//
// The first lesson showed that a format has gaps. Almost every result of a computation falls into one, and then
// somebody must decide: the number below, or the number above? The rule for that decision is the *rounding mode*.
// This lesson shows all of them on one small example, and then why nearly every machine prefers the odd-sounding one
// called *nearest, ties to even*.

// %% tags=["folded"]
#include <cmath>

#include "lesson.hpp"
#include "narrow/arith/arith.hpp"
#include "narrow/base/random.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/round/round_to.hpp"
#include "narrow/text/text.hpp"

using namespace narrow;
using namespace lesson;

constexpr Format fp16 = "fp16"_fmt;
constexpr Format e4m3 = "e4m3"_fmt;

constexpr Cast with(Rounding mode) {
  Cast cast;
  cast.rounding = mode;
  return cast;
}

// %% tags=["program"]
// clang-format off: the cells below are the statements of main, written from the margin as a notebook has them.
int main() {

// %% [markdown]
// ## Two neighbours and a decision
//
// Between 2048 and 4096, FP16 has only the even integers: the quantum is 2. So an odd integer there lies exactly half
// way between two FP16 numbers. That is a **tie**. Everything else has a nearer neighbour.

// %%
Table modes = new_table("What each mode makes of a number in FP16", {text_column("mode")});
const double inputs[] = {2048.5, 2049, 2049.5, 2051, -2049, -2051};
for (const double x : inputs) modes.columns.push_back(integer_column(text("{}", x)));
for (const Rounding mode :
     {Rounding::nearest_even, Rounding::nearest_away, Rounding::nearest_to_zero,
      Rounding::toward_zero, Rounding::up, Rounding::down, Rounding::to_odd}) {
  std::vector<Cell> row{std::string(name_of(mode))};
  for (const double x : inputs)
    row.push_back(static_cast<std::int64_t>(round_to(x, fp16, with(mode))));
  modes.add(row);
}
table(modes);

// %% [markdown]
// The first three rows differ in one thing only: what they do with a tie. `nearest_away` goes away from zero, as
// people learn at school. `nearest_even` takes the neighbour whose last mantissa bit is 0: 2049 goes *down* to 2048,
// and 2051 goes *up* to 2052. The bits show it.

// %%
for (const double x : {2048.0, 2050.0, 2052.0}) bits(encode(x, fp16), fp16);
expect(round_to(2049.0, fp16) == 2048, "2049, between 2048 and 2050: to the even mantissa, down");
expect(round_to(2051.0, fp16) == 2052, "2051, between 2050 and 2052: to the even mantissa, up");

// %% [markdown]
// As a picture, every mode is a staircase. All nearest modes share the steps and differ in single points; the
// directed modes have the steps shifted by half a quantum.

// %% tags=["folded"]
Panel stairs;
stairs.x.label = "x";
stairs.y.label = "x rounded to FP16";
const std::pair<Rounding, PlotColour> drawn[] = {{Rounding::nearest_even, PlotColour::blue},
                                                 {Rounding::toward_zero, PlotColour::orange},
                                                 {Rounding::up, PlotColour::green}};
for (const auto& [mode, colour] : drawn) {
  Series s = new_series(std::string(name_of(mode)), Draw::steps, colour);
  for (double x = 2048; x <= 2056; x += 0.03125) add_point(s, x, round_to(x, fp16, with(mode)));
  stairs.series.push_back(s);
}
Series exact = new_series("no rounding", Draw::line, PlotColour::grey);
add_point(exact, 2048, 2048);
add_point(exact, 2056, 2056);
exact.dashed = true;
stairs.series.push_back(exact);
picture(new_plot("Rounding to nearest stays within half a step of the dashed line",
                 "FP16 between 2048 and 2056, where neighbours are 2 apart", {stairs}, 300));

// %% [markdown]
// ## How large can the error be?
//
// To nearest, never more than half a quantum. With $m$ mantissa bits the quantum of a number in $[2^k, 2^{k+1})$ is
// $2^{k-m}$, so for every normal number
//
// $$ \frac{|x_{\text{rounded}} - x|}{|x|} \le \frac{1}{2} \cdot \frac{2^{k-m}}{2^k} = 2^{-(m+1)} $$
//
// For FP16 that is $2^{-11}$, about 0.05 %. Let us look for the worst of a hundred thousand numbers.

// %%
double worst = 0;
for (std::uint64_t i = 0; i < 100'000; ++i) {
  const double x = 1 + static_cast<double>(random_bits(1, i) >> 11) * 0x1p-53;  // in [1, 2)
  worst = std::max(worst, std::fabs(round_to(x, fp16) - x) / x);
}
say("The worst relative error was {:.5f} %, of at most {:.5f} %.", 100 * worst, 100 * 0x1p-11);
expect(worst <= 0x1p-11, "the relative error of FP16 is at most 2^-11");
expect(worst > 0.99 * 0x1p-11, "and there are numbers that come close to it");

// %% [markdown]
// ## Why even?
//
// Ties are not rare: whenever two FP16 numbers of neighbouring binades are added, the sum has one bit too many, and
// in half of these cases that bit is a 1. A rule that always goes the same way makes every one of these errors point
// the same way, and errors that agree add up.
//
// Take numbers with just one bit too many, so that every second one is a tie, and average what rounding adds to them.

// %%
Table drift = new_table("Average of (rounded - exact), in quanta, over 1024 numbers from 2048 on",
                        {text_column("mode"), fixed_column("average error", "", 4)});
const auto average_error = [](Rounding mode) {
  double sum = 0;
  for (int i = 0; i < 1024; ++i) sum += round_to(2048.0 + i, fp16, with(mode)) - (2048.0 + i);
  return sum / 1024 / 2;
};
for (const Rounding mode : {Rounding::nearest_even, Rounding::nearest_away, Rounding::toward_zero,
                            Rounding::up})
  add_row(drift, name_of(mode), average_error(mode));
table(drift);
expect(average_error(Rounding::nearest_even) == 0, "ties to even: as often up as down, no drift");
expect(average_error(Rounding::nearest_away) == 0.25, "ties away: a quarter of a quantum upwards");

// %% [markdown]
// There is a sharper way to see it. Add a number $y$ and take it away again: $(x + y) - y$. Rounding may change $x$
// once. But do it again and again: with ties away, some pairs never come to rest. With ties to even the result never
// changes after the first time; that is a theorem, and an 8-bit format is small enough to try *every* pair.

// %%
const Format small = "e4m3ieee"_fmt;
const auto moves_on = [&](Code x, Code y, const Cast& cast) {
  const auto once = [&](Code from) { return sub(add(from, y, small, cast), y, small, cast); };
  const Code first = once(x), second = once(first);
  return !is_nan(second, small) && !is_inf(second, small) && first != second;
};
int wander_even = 0, wander_away = 0;
for (Code x = 0; x < 256; ++x)
  for (Code y = 0; y < 256; ++y) {
    wander_even += moves_on(x, y, with(Rounding::nearest_even)) ? 1 : 0;
    wander_away += moves_on(x, y, with(Rounding::nearest_away)) ? 1 : 0;
  }
say("Of 65536 pairs, **{}** keep moving with ties away from zero, and **{}** with ties to even.",
    wander_away, wander_even);
expect(wander_even == 0, "ties to even: ((x + y) - y) comes to rest at once, for every pair");
expect(wander_away > 0, "ties away: some pairs drift");

// %% [markdown]
// ## Round once
//
// Every rounding is right by itself, and two of them in a row can still be wrong. Take a number just above the middle
// of two E4M3 numbers and send it through FP16 first: FP16 rounds it *onto* the middle, and the second rounding no
// longer knows on which side it was.

// %%
const double just_above = 1.0625 + 0x1p-20;  // E4M3 has 1 and 1.125; the middle is 1.0625
const double direct = round_to(just_above, e4m3);
const double through = round_to(round_to(just_above, fp16), e4m3);
print("{}\n  straight to E4M3: {}\n  through FP16:     {}", just_above, direct, through);
expect(direct == 1.125 && through == 1, "rounding twice is not rounding once");

// %% [markdown]
// This is why the library casts from FP32 or double in one step, and why a system that goes through FP32 on its way
// has a named cast that says so.
//
// ## A coin that knows the distance
//
// *Stochastic rounding* throws a biased coin: a number that is a quarter of the way up goes up with probability one
// quarter. Each result is worse than nearest, but the *average* is right, and that can matter more: a thousand tiny
// updates that nearest would all drop are, on average, kept. The randomness is an argument, so every run gives the
// same bits.

// %%
const double target = 1.03;
double sum = 0;
const int throws = 10'000;
for (std::uint64_t i = 0; i < throws; ++i)
  sum += round_to(target, e4m3, with(Rounding::stochastic), random_bits(7, i));
say("{} rounds to {} in E4M3. Stochastic rounding gives 1 or 1.125; "
    "the average of {} is **{:.4f}**.", target, round_to(target, e4m3), throws, sum / throws);
expect(std::fabs(sum / throws - target) < 0.003,
       "the average of stochastic rounding is the number itself");

// %% [markdown]
// `narrow show 2049 --formats fp16 --rounding nearest_away` tries any mode on any number.
//
// ## Exercises
//
// 1. What does FP16 make of 2050.999? And of 2051.001?
// 2. The largest FP16 number is 65504, and the next one would be 65536. What happens to 65519.99, and to 65520?
// 3. `to_odd` looks useless: it takes the neighbour with the *odd* last bit whenever the number is not exact. Show
//    that it repairs rounding twice: use it for the step to FP16 above.

// %% [markdown] tags=["solution"]
// **1.** The neighbours are 2050 and 2052, the middle is 2051. Below it goes to 2050, above it to 2052.
//
// **2.** The middle between 65504 and 65536 is 65520. Below it the nearest is 65504. The tie itself goes to the even
// one, which would be 65536; FP16 does not have it, so the result is infinity.
//
// **3.** An odd last bit says "there was something more". FP16 then holds a number strictly above the middle, and the
// second rounding goes the right way. It works whenever the wider format has at least two bits more.

// %% tags=["solution"]
print("{} {}", round_to(2050.999, fp16), round_to(2051.001, fp16));
print("{} {}", round_to(65519.99, fp16), round_to(65520.0, fp16));
const double odd = round_to(just_above, fp16, with(Rounding::to_odd));
print("to_odd in FP16: {}, and then E4M3: {}", odd, round_to(odd, e4m3));
expect(std::isinf(round_to(65520.0, fp16)), "65520 is the first number that FP16 makes infinite");
expect(round_to(odd, e4m3) == direct, "to_odd first, then nearest: as if rounded once");

// %% tags=["program"]
}

// %% [markdown]
// # How a tensor core adds
//
// A tensor core takes a row of $A$, a column of $B$ and a number $c$ and returns $a \cdot b + c$. It does not do so by
// one rounded addition after the other: it adds 4 to 32 products *at once*, with a rule of its own that no standard
// describes and that changed from one generation to the next. The rule is known, and fits into twenty lines. This
// lesson writes them, measures the famous 25 and 13 bits by a probe that also works on real hardware, and shows what
// they mean for long sums.

// %% tags=["folded"]
#include <bit>
#include <cmath>

#include "lesson.hpp"
#include "narrow/base/random.hpp"
#include "narrow/dot/gemm.hpp"
#include "narrow/round/round_to.hpp"

using namespace narrow;
using namespace lesson;

constexpr Format fp32 = "fp32"_fmt, fp16 = "fp16"_fmt, e4m3 = "e4m3"_fmt;

const DotModel& machine(const char* name) { return *find_dot_model(name); }

// Numbers in, number out: a . b + c on the codes of a model.
double dot_of(const DotModel& m, const std::vector<double>& a, const std::vector<double>& b,
              double c = 0) {
  std::vector<Code> codes_a, codes_b;
  for (const double x : a) codes_a.push_back(encode(x, m.a.format));
  for (const double x : b) codes_b.push_back(encode(x, m.b.format));
  return decode(dot(m, codes_a, codes_b, encode(c, m.accumulator.format)), m.accumulator.format);
}

// %% tags=["program"]
// clang-format off: the cells below are the statements of main, written from the margin as a notebook has them.
int main() {

// %% [markdown]
// ## A sum that loses its tail
//
// Sixteen products: one is 1, the other fifteen are $2^{-13} \cdot 2^{-13} = 2^{-26}$. Their exact sum is $1 + 15 \cdot
// 2^{-26}$, which FP32 rounds to $1 + 2^{-22}$. A Hopper tensor core returns 1. All fifteen are gone.

// %%
std::vector<double> tail(16, 0x1p-13);
tail[0] = 1;
const DotModel& hopper = machine("hopper.wgmma.f32.f16.f16");
const double rounded_once = static_cast<double>(static_cast<float>(1 + 15 * 0x1p-26)),
             on_hopper = dot_of(hopper, tail, tail);
print("exact, rounded once  1 + {}", rounded_once - 1);
print("Hopper               1 + {}", on_hopper - 1);
expect(rounded_once == 1 + 0x1p-22, "the exact sum is 1 + 2^-22 after one rounding");
expect(on_hopper == 1, "a Hopper tensor core gives 1");

// %% [markdown]
// ## The rule
//
// One *step* takes $L$ products and the addend $c$.
//
// 1. Each product is exact: the mantissas are multiplied as integers, the exponents are added, nothing is normalised.
// 2. The largest exponent $E$ of all terms, $c$ among them, is found. Products that are zero do not count.
// 3. Each term is written as a multiple of $2^{E - F}$. What lies below is **cut**, from each term separately.
// 4. The integers are added. This is exact, so the order does not matter.
// 5. The sum is **cut** again to the bits of FP32: rounded toward zero.
//
// In the sum above $E = 0$ and $F = 25$: a term of $2^{-26}$ is less than one unit, and fifteen times nothing is
// nothing. As code:

// %%
const auto step_by_hand = [](const std::vector<Code>& a, const std::vector<Code>& b, float c,
                             int F) {
  struct Term {
    bool negative;
    std::uint64_t digits;
    int exponent, fraction;
  };
  std::vector<Term> terms;
  // digits * 2^(exponent - fraction), not normalised: a subnormal has the smallest exponent
  const auto split = [](Code code, const Format& f) -> Term {
    const int p = f.mantissa_bits;
    const int field = static_cast<int>(code >> p & ((1u << f.exponent_bits) - 1));
    const Code mantissa = code & ((Code{1} << p) - 1), hidden = field == 0 ? 0 : Code{1} << p;
    const bool negative = code >> (p + f.exponent_bits) != 0;
    return {negative, hidden | mantissa, std::max(field, 1) - f.bias, p};
  };
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Term x = split(a[i], fp16), y = split(b[i], fp16);
    terms.push_back({x.negative != y.negative, x.digits * y.digits, x.exponent + y.exponent, 20});
  }
  terms.push_back(split(std::bit_cast<std::uint32_t>(c), fp32));
  int E = -133;  // the hardware's floor
  for (const Term& t : terms)
    if (t.digits != 0) E = std::max(E, t.exponent);
  std::int64_t sum = 0;
  for (const Term& t : terms) {
    const int shift = t.exponent - t.fraction - (E - F);
    std::uint64_t kept = t.digits;
    if (shift >= 0) kept <<= shift;
    else kept = shift > -64 ? kept >> -shift : 0;  // the cut
    sum += t.negative ? -static_cast<std::int64_t>(kept) : static_cast<std::int64_t>(kept);
  }
  const double exact = std::ldexp(static_cast<double>(sum), E - F);
  return round_to(exact, fp32, Cast{.rounding = Rounding::toward_zero});
};

// %% [markdown]
// Does it hold? Take 20,000 vectors of random FP16 *bits*, subnormals and all, with a random addend, and compare with
// the library, whose model of this instruction gave the same bits as the silicon in every comparison that was made.

// %%
int compared = 0, equal = 0;
for (std::uint64_t trial = 0; trial < 20000; ++trial) {
  std::vector<Code> a(16), b(16);
  for (std::uint64_t i = 0; i < 16; ++i) {
    const std::uint64_t bits_of_both = random_bits(trial, i);
    a[i] = bits_of_both & 0xFFFF, b[i] = bits_of_both >> 16 & 0xFFFF;
    if (is_inf(a[i], fp16) || is_nan(a[i], fp16))
      a[i] = 0;  // special values have rules of their own
    if (is_inf(b[i], fp16) || is_nan(b[i], fp16)) b[i] = 0;
  }
  const float c = round_to(static_cast<float>(random_bits(trial, 99) % 2001) - 1000.0f, fp32);
  const double model = decode(dot(hopper, a, b, std::bit_cast<std::uint32_t>(c)), fp32);
  equal += step_by_hand(a, b, c, 25) == model ? 1 : 0;
  ++compared;
}
say("**{}** of {} sums are equal. Evidence for the library's model: *{}*, recorded in "
    "`data/golden`.",
    equal, compared, evidence_name(hopper.evidence));
expect(equal == compared, "five rules give every bit of a Hopper FP16 step");

// %% [markdown]
// ## The probe: how many bits are kept
//
// Add $1$, $2^{-k}$ and $-1$ in one step. In exact arithmetic the result is $2^{-k}$. On a tensor core it is $2^{-k}$
// as long as $k \le F$, and 0 afterwards. No other knowledge is needed, so the probe runs on any machine.

// %%
const auto probe = [](const DotModel& m) {
  int k = 0;
  for (;; ++k) {
    const double half = std::exp2(-(k + 1) / 2),
                 other = std::exp2(-(k + 1) + (k + 1) / 2);  // 2^-(k + 1) as a product
    if (dot_of(m, {1, half, -1}, {1, other, 1}) == 0) return k;
  }
};

// %% tags=["folded"]
Table kept = new_table(
    "What is kept below the largest term",
    {text_column("tensor core"), text_column("operands"), integer_column("products a step"),
     integer_column("fraction bits found"), text_column("model"), text_column("evidence")});
bool as_published = true;
Panel bars;
bars.y = {"fraction bits", "", AxisScale::linear, 0.0, 30.0, {}, {}};
Series found = new_series("", Draw::bars, PlotColour::blue);
struct Probed {
  const char* generation;
  const char* operands;
  const char* model;
  int published;  // what people who probed the hardware found
};
constexpr Probed probed[] = {{"Volta", "FP16", "volta.mma.f32.f16.f16.k4", 23},
                             {"Ampere", "FP16", "ampere.mma.f32.f16.f16.k16", 24},
                             {"Hopper", "FP16", "hopper.wgmma.f32.f16.f16", 25},
                             {"Ada", "FP8", "ada.mma.f32.e4m3.e4m3.k32", 13},
                             {"Hopper", "FP8", "hopper.wgmma.f32.e4m3.e4m3", 13},
                             {"Blackwell", "FP16", "blackwell.tcgen05.f32.f16.f16", 25},
                             {"Blackwell", "FP8", "blackwell.tcgen05.f32.e5m2.e5m2", 25}};
for (const Probed& p : probed) {
  const DotModel& m = machine(p.model);
  const int bits_found = probe(m);
  add_row(kept, p.generation, p.operands, m.products_per_step, bits_found, p.model,
          std::string(evidence_name(m.evidence)));
  add_point(found, static_cast<double>(bars.x.categories.size()), bits_found);
  bars.x.categories.push_back(text("{} {}", p.generation, p.operands));
  as_published = as_published && bits_found == p.published;
}
bars.series = {found};
bars.value_digits = 2;
picture(new_plot("FP8 on Ada and Hopper keeps 13 bits, everything else 23 to 25",
                 "Found by adding 1, 2^-k and -1 in one step of each model; the table says what it rests on",
                 {bars}, 240));
table(kept);
expect(as_published,
       "the probe finds the bits that were found on each machine: 23, 24, 25, and 13 for FP8 on "
       "Ada and Hopper");

// %% [markdown]
// ## Thirteen bits
//
// On the FP8 path of Ada and Hopper the result itself has only 13 mantissa bits as well, though it is handed over as an
// FP32 number: the last ten bits of the word are always zero.

// %%
const DotModel& hopper_fp8 = machine("hopper.wgmma.f32.e4m3.e4m3");
bits(encode(dot_of(hopper, {1, 0x1p-9}, {1, 0x1p-9}), fp32), fp32);
bits(encode(dot_of(hopper_fp8, {1, 0x1p-9}, {1, 0x1p-9}), fp32), fp32);
bool low_bits_zero = true;
for (std::uint64_t trial = 0; trial < 2000; ++trial) {
  std::vector<Code> a(32), b(32);
  for (std::uint64_t i = 0; i < 32; ++i)
    a[i] = random_bits(trial, i) % 127, b[i] = random_bits(trial, i + 50) % 127;
  low_bits_zero = low_bits_zero && (dot(hopper_fp8, a, b, 0) & 0x3FF) == 0;
}
expect(dot_of(hopper_fp8, {1, 0x1p-9}, {1, 0x1p-9}) == 1, "1 + 2^-18 is 1 on Hopper's FP8 path");
expect(low_bits_zero, "the last ten bits of an FP8 result are zero");

// %% [markdown]
// ## Order
//
// Inside a step the order of the products cannot matter. From step to step it does: the result of a step, cut to FP32,
// is the addend of the next one. Reverse 16 products and nothing changes; reverse 256 and the last bits do.

// %%
int same_in_step = 0, same_in_chain = 0;
for (std::uint64_t trial = 0; trial < 500; ++trial) {
  std::vector<Code> a(256), b(256);
  for (std::uint64_t i = 0; i < 256; ++i) {
    a[i] = encode(static_cast<double>(random_bits(trial, i) % 2000) / 1000 - 1, fp16);
    b[i] = encode(static_cast<double>(random_bits(trial, i + 300) % 2000) / 1000 - 1, fp16);
  }
  const std::vector<Code> back_a(a.rbegin(), a.rend()), back_b(b.rbegin(), b.rend());
  const auto first = [](const std::vector<Code>& v) { return std::span(v).first(16); };
  const auto last = [](const std::vector<Code>& v) { return std::span(v).last(16); };
  same_in_step +=
      dot(hopper, first(a), first(b), 0) == dot(hopper, last(back_a), last(back_b), 0) ? 1 : 0;
  same_in_chain += dot(hopper, a, b, 0) == dot(hopper, back_a, back_b, 0) ? 1 : 0;
}
say("Reversed, {} of 500 sums of 16 products keep their bits, and {} of 500 sums of 256.",
    same_in_step, same_in_chain);
expect(same_in_step == 500, "inside a step the order does not matter");
expect(same_in_chain < 400, "from step to step it does");

// %% [markdown]
// ## Long sums
//
// Cutting always goes toward zero, so a sum of positive terms comes out too small, and the more steps it takes, the
// more so. With 25 bits this is hardly seen. With 13 bits it is the reason why FP8 libraries *promote*: every 128
// products the partial sum is added to an FP32 number outside the tensor core, and the tensor core starts again from
// zero.

// %% tags=["folded"]
struct Way {
  const char* name;
  const char* model;
  const char* plan;
  PlotColour colour;
};
constexpr Way ways[] = {
    {"Hopper FP8, one chain", "hopper.wgmma.f32.e4m3.e4m3", "chain", PlotColour::vermilion},
    {"Hopper FP8, FP32 every 128", "hopper.wgmma.f32.e4m3.e4m3", "promote:128", PlotColour::green},
    {"Hopper FP16", "hopper.wgmma.f32.f16.f16", "chain", PlotColour::blue}};
const auto error_of =
    [](const Way& way,
       std::size_t k) {  // mean relative error of 16 x 16 sums of positive E4M3 numbers
      const DotModel& m = machine(way.model);
      std::vector<std::uint16_t> a(16 * k), b(16 * k);
      std::vector<std::uint32_t> d(256);
      for (std::size_t i = 0; i < a.size(); ++i) {
        a[i] = static_cast<std::uint16_t>(
            encode(decode(8 + random_bits(1, i) % 56, e4m3), m.a.format));
        b[i] = static_cast<std::uint16_t>(
            encode(decode(8 + random_bits(2, i) % 56, e4m3), m.b.format));
      }
      const MatrixView<const std::uint16_t> va{a.data(), 16, k},
          vb{b.data(), k, 16, 0, Layout::column_major}, none;
      const MatrixView<std::uint32_t> vd{d.data(), 16, 16};
      gemm(m, parse_plan(way.plan), va, vb, none, vd);
      return product_error(m, code_matrix(va), code_matrix(vb), code_matrix(none), code_matrix(vd),
                           fp32)
          .mean_relative;
    };
Panel growth;
growth.x = {"products in the sum, K", "", AxisScale::log2, {}, {}, {}, {}};
growth.y = {"mean relative error", "", AxisScale::log10, {}, {}, {}, {}};
for (const Way& way : ways) {
  Series s = new_series(way.name, Draw::line_points, way.colour);
  for (std::size_t k = 64; k <= 8192; k *= 2)
    add_point(s, static_cast<double>(k), error_of(way, k));
  growth.series.push_back(s);
}
const double chain = error_of(ways[0], 4096), promoted = error_of(ways[1], 4096);
picture(
    new_plot(text("At K = 4096 one FP8 chain is {:.2} % off; with FP32 every 128 products {:.2} %",
                  100 * chain, 100 * promoted),
             text("256 sums of positive E4M3 products, against the exact sum; Hopper's models: {}",
                  evidence_name(hopper_fp8.evidence)),
             {growth}, 300));
expect(chain > 4 * promoted, "promotion to FP32 makes long FP8 sums several times more accurate");
expect(chain > 0.01, "without it the error of a long sum passes one percent");

// %% [markdown]
// On the command line, `narrow dot --model hopper.wgmma.f32.f16.f16 --a 1,2^-13 --b 1,2^-13 --explain` shows a step
// from inside and in words, and `narrow models` lists all models with what each rests on.
//
// ## Exercises
//
// 1. The addend is $2^{24}$ and all sixteen products are 1. What does a chain of FP32 additions give, and what Hopper?
// 2. $2^{-24} \cdot 2^{15}$ and $2^{-9} \cdot 1$ are the same number, $2^{-9}$. Beside each of them put a second
//    product, $2^{-13} \cdot 2^{-12} = 2^{-25}$. Why do the two sums differ?
// 3. On Hopper, FP8 can also go through the older `mma.sync` instruction. Does it have 13 bits as well?

// %% [markdown] tags=["solution"]
// **1.** The quantum at $2^{24}$ is 2, so adding 1 is a tie and goes back to $2^{24}$, sixteen times. The tensor core
// keeps units of $2^{24-25}$, adds all sixteen exactly, and loses nothing. Fewer roundings can make a narrow rule the
// better one.

// %% tags=["solution"]
float one_by_one = 0x1p24f;
for (int i = 0; i < 16; ++i) one_by_one += 1;
const std::vector<double> ones(16, 1);
say("One by one: 2^24 + {}. Hopper: 2^24 + {}.", one_by_one - 0x1p24f,
    dot_of(hopper, ones, ones, 0x1p24) - 0x1p24);
expect(one_by_one == 0x1p24f && dot_of(hopper, ones, ones, 0x1p24) == 0x1p24 + 16,
       "here the tensor core beats FP32 additions");

// %% [markdown] tags=["solution"]
// **2.** $2^{-24}$ is a subnormal FP16 number; its exponent counts as $-14$, and the product's as $-14 + 15 = 1$
// although its value is $2^{-9}$. The unit is then $2^{1-25} = 2^{-24}$, and $2^{-25}$ is cut. Written as $2^{-9} \cdot
// 1$ the exponent is $-9$.

// %% tags=["solution"]
const double from_subnormal = dot_of(hopper, {0x1p-24, 0x1p-13}, {0x1p15, 0x1p-12}),
             from_normal = dot_of(hopper, {0x1p-9, 0x1p-13}, {1, 0x1p-12});
say("With the subnormal factor: 2^-9 + {}. With the normal one: 2^-9 + {}.",
    from_subnormal - 0x1p-9, from_normal - 0x1p-9);
expect(from_subnormal == 0x1p-9 && from_normal == 0x1p-9 + 0x1p-25,
       "a subnormal factor wastes bits of its step");

// %% [markdown] tags=["solution"]
// **3.** No. There the compiler turns FP8 into FP16 and uses the FP16 tensor core, with 25 bits. The same types,
// another instruction, other results.

// %% tags=["solution"]
const DotModel& old_way = machine("hopper.mma.f32.e4m3.e4m3.k32");
say("`mma.sync`: at least {} bits, and E4M3 has no smaller product to ask with. `wgmma`: {} "
    "bits.",
    probe(old_way), probe(hopper_fp8));
expect(probe(old_way) > 13, "FP8 through mma.sync is not cut to 13 bits on Hopper");

// %% tags=["program"]
}

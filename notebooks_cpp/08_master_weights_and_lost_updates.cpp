// %% [markdown]
// # Master weights and lost updates
//
// Training moves a weight by many small steps. In a narrow format a step can be so small that the weight, rounded
// again, is where it was before: the update is *lost*, and no error is reported. This lesson finds the exact border,
// watches a thousand updates arrive or not, and compares the three remedies: a **master copy** in FP32, **stochastic
// rounding**, and **Kahan's compensation**. At the end a small network is trained with each of them.

// %% tags=["folded"]
#include <cmath>

#include "lesson.hpp"
#include "narrow/base/random.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/format/neighbours.hpp"
#include "narrow/round/round_to.hpp"
#include "narrow/train/run/run.hpp"

using namespace narrow;
using namespace lesson;

constexpr Format fp32 = "fp32"_fmt, fp16 = "fp16"_fmt, bf16 = "bf16"_fmt;

// %% tags=["program"]
// clang-format off: the cells below are the statements of main, written from the margin as a notebook has them.
int main() {

// %% [markdown]
// ## One update
//
// A weight is 1, and the optimiser wants to add 0.001. BF16 has seven mantissa bits, so after 1 its next number is $1 +
// 2^{-7} = 1.0078125$. The sum 1.001 lies between the two, much closer to 1.

// %%
bits(encode(1.0, bf16), bf16);
bits(next_up(encode(1.0, bf16), bf16), bf16);
say("1 + 0.001 becomes {} in BF16, {} in FP16 and {} in FP32.", round_to(1.001, bf16),
    round_to(1.001, fp16), round_to(1.001f, fp32));
expect(round_to(1 + 0.001, bf16) == 1, "in BF16, 1 + 0.001 is 1: the update is lost");
expect(round_to(1 + 0.001, fp16) != 1, "in FP16 the weight moves, though not by 0.001");

// %% [markdown]
// ## Where the border lies
//
// To the nearest even, an update $u$ is lost when $w + u$ is nearer to $w$ than to its neighbour: when $|u|$ is less
// than half a quantum. For $w$ in $[2^e, 2^{e+1})$ and $p$ mantissa bits half a quantum is $2^{e-p-1}$, so that
//
// $$ \frac{|u|}{|w|} < \frac{2^{e-p-1}}{|w|} \quad \text{with} \quad 2^{-p-2} < \frac{2^{e-p-1}}{|w|} \le 2^{-p-1} $$
//
// There are two borders, then. Below $2^{-p-2}$ *every* update is lost; above $2^{-p-1}$ *none* is; in between it
// depends on the weight. Count it: all weights between 1 and 2 that a format has, each moved up and down.

// %%
const auto lost_share = [](const Format& f, double ratio) {
  int lost = 0, tried = 0;
  for (Code code = encode(1.0, f); code < encode(2.0, f); ++code)
    for (const double sign : {1.0, -1.0}) {
      const double w = decode(code, f);
      lost += round_to(w + sign * ratio * w, f) == w ? 1 : 0;
      ++tried;
    }
  return static_cast<double>(lost) / tried;
};
Panel borders;
borders.x = {"update / weight", "", AxisScale::log2, {}, {}, {}, {}};
borders.y = {"updates that are lost", "%", AxisScale::linear, 0.0, 105.0, {}, {}};
for (const auto& [name, colour] : {std::pair{"fp16", PlotColour::blue},
                                   {"bf16", PlotColour::orange},
                                   {"e4m3", PlotColour::green}}) {
  Series s = new_series(name, Draw::line_points, colour);
  for (int quarter = -4 * 14; quarter <= -4 * 2; ++quarter)
    add_point(s, std::exp2(quarter / 4.0),
              100 * lost_share(*find_format(name), std::exp2(quarter / 4.0)));
  borders.series.push_back(s);
}
picture(new_plot("One octave decides: from every update lost to none",
                 "All weights in [1, 2) of each format, moved up and down by a fixed ratio",
                 {borders}, 260));
for (const Format& f : {fp16, bf16}) {
  const int p = f.mantissa_bits;
  expect(lost_share(f, std::exp2(-p - 2) * 0.999) == 1,
         text("with {} mantissa bits every update below 2^{} is lost", p, -p - 2));
  expect(lost_share(f, std::exp2(-p - 1) * 1.001) == 0,
         text("with {} mantissa bits none above 2^{} is", p, -p - 1));
}

// %% [markdown]
// A common rule of thumb says that updates vanish in BF16 when they are a million times smaller than the weight. They
// vanish much earlier: below one part in 512, always; below one part in 256, sometimes. Adam's updates are about as
// large as the learning rate, whatever the gradient is. With a learning rate of $10^{-4}$, a BF16 weight of 0.1 does
// not move.

// %%
const double learning_rate = 1e-4;
double heaviest = 1;
while (round_to(heaviest + learning_rate, bf16) == heaviest) heaviest /= 2;
say("With updates of {}, powers of two from **{}** upward do not move in BF16.", learning_rate,
    2 * heaviest);
expect(2 * heaviest == 0x1p-5, "an Adam update of 1e-4 does not move a BF16 weight of 1/32");

// %% [markdown]
// ## A thousand updates
//
// One lost update is no harm. But the next one meets the same weight, and is lost again. Add 0.001 to 1 a thousand
// times; the sum should be 2.
//
// - **Plain**: the sum is rounded to the format each time.
// - **Master copy**: the sum is kept in FP32, and the format holds a rounded copy for the forward and backward pass.
// - **Stochastic rounding**: up with a probability that equals the rest. In 0.001 / 0.0078125 = 12.8 % of the cases the
//   weight moves by a whole quantum, else not at all: 0.001 *on average*.
// - **Kahan**: a second number of the format beside the weight keeps what the sum could not hold, and joins the next
//   update.

// %%
enum class Remedy { none, master, stochastic, kahan };
const auto walk = [](const Format& f, Remedy remedy, double update, int steps) {
  std::vector<double> path = {1.0};
  double w = 1, carry = 0;
  float master = 1;
  for (int i = 0; i < steps; ++i) {
    if (remedy == Remedy::none) w = round_to(w + update, f);
    if (remedy == Remedy::master)
      master += static_cast<float>(update), w = round_to(static_cast<double>(master), f);
    if (remedy == Remedy::stochastic)
      w = round_to(w + update, f, Cast{.rounding = Rounding::stochastic},
                   random_bits(8, static_cast<std::uint64_t>(i)));
    if (remedy == Remedy::kahan) {
      const double wanted = round_to(update + carry, f), sum = round_to(w + wanted, f);
      carry = round_to(wanted - (sum - w), f);  // what did not arrive
      w = sum;
    }
    path.push_back(w);
  }
  return path;
};

// %% tags=["folded"]
struct Way {
  const char* name;
  Remedy remedy;
  PlotColour colour;
};
constexpr Way ways[] = {{"plain BF16", Remedy::none, PlotColour::vermilion},
                        {"FP32 master copy", Remedy::master, PlotColour::ink},
                        {"stochastic rounding", Remedy::stochastic, PlotColour::green},
                        {"Kahan", Remedy::kahan, PlotColour::purple}};
Panel walks;
walks.x = {"updates of 0.001", "", AxisScale::linear, 0.0, 1000.0, {}, {}};
walks.y = {"weight", "", AxisScale::linear, 0.9, 2.2, {}, {}};
Table ends = new_table(
    "1 + 1000 x 0.001",
    {text_column("how"), real_column("weight in BF16", "", 6), fixed_column("arrived", "%", 1)});
for (const Way& way : ways) {
  Series s = new_series(way.name, Draw::steps, way.colour);
  const std::vector<double> path = walk(bf16, way.remedy, 0.001, 1000);
  for (std::size_t i = 0; i < path.size(); i += 4) add_point(s, static_cast<double>(i), path[i]);
  s.dashed = way.remedy == Remedy::kahan;
  walks.series.push_back(s);
  add_row(ends, way.name, path.back(), 100 * (path.back() - 1));
}
picture(new_plot("Plain BF16 never leaves 1; each remedy arrives",
                 "A weight of 1 and a thousand updates of 0.001", {walks}, 260));
table(ends);
expect(walk(bf16, Remedy::none, 0.001, 1000).back() == 1,
       "plain BF16 is still at 1 after a thousand updates");
expect(std::fabs(walk(bf16, Remedy::kahan, 0.001, 1000).back() - 2) <= 0x1p-6,
       "Kahan's sum is within a quantum of 2");
expect(std::fabs(walk(bf16, Remedy::stochastic, 0.001, 1000).back() - 2) < 0.2,
       "stochastic rounding arrives near 2");

// %% [markdown]
// FP16 has three more bits. It moves, but by whole quanta of $2^{-10}$ instead of 0.001: no update is lost, and yet
// every single one is wrong by the same amount in the same direction.

// %%
const double in_fp16 = walk(fp16, Remedy::none, 0.001, 1000).back();
say("Plain FP16 arrives at {}: {:.2f} % of the way.", in_fp16, 100 * (in_fp16 - 1));
expect(in_fp16 == 1 + 1000 * 0x1p-10, "FP16 adds 2^-10 each time where 0.001 was meant");

// %% [markdown]
// ## A network
//
// Now the real thing: a small network learns handwritten digits with AdamW at a learning rate of $10^{-4}$, 200 steps.
// The first recipe computes in FP32, the others in BF16; what matters is how each keeps its weights between two steps.

// %% tags=["folded"]
struct Kept {
  const char* recipe;
  const char* name;
  PlotColour colour;
};
constexpr Kept recipes[] = {
    {"fp32", "all in FP32", PlotColour::grey},
    {"bf16-amp", "BF16, FP32 master weights", PlotColour::ink},
    {"bf16-pure", "BF16 weights", PlotColour::vermilion},
    {"bf16-pure-stochastic", "BF16, stochastic rounding", PlotColour::green},
    {"bf16-pure-kahan", "BF16, Kahan", PlotColour::purple}};
train::RunRequest request;
request.steps = 200;
request.optimiser = train::settings_of(train::Task::digits).optimiser;
request.optimiser->learning_rate = learning_rate;
Table runs = new_table("Digits after 200 steps", {text_column("recipe"), text_column("weights"),
                                                  fixed_column("final loss", "", 3),
                                                  fixed_column("held-out accuracy", "%", 1)});
Panel curves;
curves.x = {"step", "", AxisScale::linear, 0.0, 200.0, {}, {}};
curves.y = {"training loss", "", AxisScale::linear, 1.8, 2.4, {}, {}};
std::vector<double> losses;
for (const Kept& kept : recipes) {
  request.recipe = train::require_recipe(kept.recipe);
  const train::RunResult run = train::run_training(request);
  Series s = new_series(kept.name, Draw::line, kept.colour);
  for (const train::StepRow& row : run.rows) add_point(s, static_cast<double>(row.step), row.loss);
  s.dashed = kept.colour == PlotColour::ink;
  curves.series.push_back(s);
  add_row(runs, kept.recipe, kept.name, run.final_loss, 100 * *run.held_out_accuracy);
  losses.push_back(run.final_loss);
}
const double start = std::log(10.0), learned = (start - losses[2]) / (start - losses[0]);
picture(
    new_plot(text("Without a remedy the network learns {:.0f} % of what it could", 100 * learned),
             "Handwritten digits, AdamW, learning rate 1e-4", {curves}, 300));
table(runs);
say("A network that knows nothing has a loss of ln 10 = {:.4}. Of what FP32 learned below that, "
    "plain BF16 learned **{:.0f} %**.",
    start, 100 * learned);
expect(learned < 0.3, "with BF16 weights alone, most of the learning is lost");
for (const std::size_t i : {1u, 3u, 4u})
  expect(std::fabs(losses[i] - losses[0]) < 0.01,
         text("{} ends where FP32 ends", recipes[i].recipe));

// %% [markdown]
// Nothing in the broken run looks broken: no NaN, no Inf, and the loss even falls. This is why master weights are the
// default of mixed precision, and why a larger learning rate can hide the problem: the updates are then larger too.

// %%
request.optimiser->learning_rate = 2e-3;
request.recipe = train::require_recipe("bf16-pure");
const double quick = train::run_training(request).final_loss;
request.recipe = train::require_recipe("fp32");
const double quick_fp32 = train::run_training(request).final_loss;
say("With a learning rate of 2e-3 the final losses are {:.3f} (plain BF16) and {:.3f} (FP32).",
    quick, quick_fp32);
expect(std::fabs(quick - quick_fp32) < 0.05,
       "at 2e-3 plain BF16 keeps up: the updates are above the border");

// %% [markdown]
// ## What it costs
//
// AdamW keeps two moments for each weight. This is the memory for one weight under each recipe; the activations, which
// are often the larger part, are not in it.

// %%
Table bytes =
    new_table("Bytes a weight",
              {text_column("recipe"), integer_column("weight"),
               integer_column("copy to compute with"), integer_column("gradient"),
               integer_column("moments"), integer_column("compensation"), integer_column("in all")},
              "gradients as wide as the copy; torch's autocast gives them in FP32, two bytes more");
const auto add_bytes = [&](const char* name, int weight, int copy, int gradient, int moments,
                           int compensation) {
  add_row(bytes, name, weight, copy, gradient, moments, compensation,
          weight + copy + gradient + moments + compensation);
  return weight + copy + gradient + moments + compensation;
};
const int all_fp32 = add_bytes("FP32", 4, 0, 4, 8, 0),
          amp = add_bytes("BF16 with master copy", 4, 2, 2, 8, 0);
const int stochastic = add_bytes("BF16, stochastic", 2, 0, 2, 4, 0),
          kahan = add_bytes("BF16, Kahan", 2, 0, 2, 4, 2);
table(bytes);
expect(amp == all_fp32,
       "with master weights the state of the optimiser is no smaller than in FP32");
expect(stochastic * 2 == all_fp32 && kahan < amp,
       "stochastic rounding halves it; Kahan costs two bytes more");

// %% [markdown]
// Elsewhere: `narrow train --task digits --recipe bf16-pure` makes such a run, and `narrow run master_weights -o out --fast`
// draws these pictures for more seeds.
//
// ## Exercises
//
// 1. A counter in BF16 starts at 0 and goes up by 1. Where does it stop? And in FP16?
// 2. `fp16-pure` keeps weights *and* moments in FP16, and AdamW divides by $\sqrt{v} + 10^{-8}$. What happens in the
//    first step?
// 3. Stochastic rounding adds noise. How large is the spread of the weight after 1000 updates of 0.001, and does theory
//    agree?

// %% [markdown] tags=["solution"]
// **1.** It stops when half a quantum is 1, so the quantum 2: that is from $2^{p+1}$ on, where $x + 1$ is a tie and
// goes to the even neighbour, which is $x$.

// %% tags=["solution"]
for (const Format& f : {bf16, fp16}) {
  double counter = 0;
  while (round_to(counter + 1, f) != counter) counter = round_to(counter + 1, f);
  say("With {} mantissa bits the counter stops at **{}**.", f.mantissa_bits, counter);
  expect(counter == std::exp2(f.mantissa_bits + 1),
         "a counter stops at 2 to the power of p + 1");
}

// %% [markdown] tags=["solution"]
// **2.** $10^{-8}$ is less than half of the smallest FP16 number, $2^{-24}$, so it becomes 0; so does $v$, the mean
// *square* of small gradients. Then $0 / 0$ is NaN, and the run is over.

// %% tags=["solution"]
request.recipe = train::require_recipe("fp16-pure");
const train::RunResult pure = train::run_training(request);
say("The run ended after step {}. First number that was none: **{}**.", *pure.broke,
    pure.first_nonfinite->text());
expect(round_to(1e-8, fp16) == 0, "AdamW's epsilon is zero in FP16");
expect(pure.broke == 0u, "all-FP16 AdamW breaks in its first step");

// %% [markdown] tags=["solution"]
// **3.** Each update moves the weight by one quantum $q$ with probability $r = 0.001 / q$. After $n$ such throws the
// standard deviation is $q \sqrt{n r (1 - r)}$.

// %% tags=["solution"]
double sum = 0, squares = 0;
const int walkers = 500;
for (int walker = 0; walker < walkers; ++walker) {
  double w = 1;
  for (int i = 0; i < 900; ++i)  // few enough: above 2 the quantum is another
    w = round_to(
        w + 0.001, bf16, Cast{.rounding = Rounding::stochastic},
        random_bits(100 + static_cast<std::uint64_t>(walker), static_cast<std::uint64_t>(i)));
  sum += w, squares += w * w;
}
const double mean = sum / walkers, spread = std::sqrt(squares / walkers - mean * mean);
const double r = 0.001 * 128, theory = 0x1p-7 * std::sqrt(900 * r * (1 - r));
say("After 900 updates: mean {:.4} (1.9 was meant), standard deviation {:.3}; theory says "
    "{:.3}.",
    mean, spread, theory);
expect(std::fabs(mean - 1.9) < 0.02, "stochastic rounding is right on average");
expect(std::fabs(spread / theory - 1) < 0.15,
       "and its spread is that of so many throws of a loaded coin");

// %% tags=["program"]
}

// %% [markdown]
// # Attention logits
//
// Attention compares every query with every key, and the result of the comparison goes into an exponential. That is the
// place of a transformer where numbers grow large most easily, and where large numbers do most harm. This lesson takes
// the queries and keys of a real training run, asks how far they are from FP16's limit of 65504, shows what softmax
// returns beyond it, and tries the remedies.

// %% tags=["folded"]
#include <cmath>
#include <numeric>

#include "lesson.hpp"
#include "narrow/base/random.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/round/round_to.hpp"
#include "narrow/tensor/tensor_file.hpp"
#include "narrow/train/run/run.hpp"

using namespace narrow;
using namespace lesson;

constexpr Format fp16 = "fp16"_fmt, bf16 = "bf16"_fmt;
constexpr std::size_t n = 256, d = 64;  // positions, and numbers in a query or key
constexpr double fp16_ends = 65520;     // from here on a number rounds to infinity

struct Head {
  std::vector<float> q, k;  // n x d each
};

// Two heads of a layer at a training step, as autocast held them.
std::vector<Head> read_heads(int step, int layer) {
  const TensorFile file = open_tensor_file(data_file(text("torch/step{}.safetensors", step)));
  std::vector<Head> heads(2, {std::vector<float>(n * d), std::vector<float>(n * d)});
  for (std::size_t h = 0; h < 2; ++h) {
    read_values(*file.find(text("act.blocks.{}.attn.q", layer)), h * n * d, heads[h].q);
    read_values(*file.find(text("act.blocks.{}.attn.k", layer)), h * n * d, heads[h].k);
  }
  return heads;
}

// q.k of query i and key j, and all of them that a position may see: row i has i + 1.
double score(const Head& head, std::size_t i, std::size_t j) {
  double sum = 0;
  for (std::size_t t = 0; t < d; ++t)
    sum += static_cast<double>(head.q[i * d + t]) * static_cast<double>(head.k[j * d + t]);
  return sum;
}
std::vector<std::vector<double>> scores(const Head& head) {
  std::vector<std::vector<double>> rows(n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j <= i; ++j) rows[i].push_back(score(head, i, j));
  return rows;
}
double largest(const std::vector<std::vector<double>>& rows) {
  double max = 0;
  for (const auto& row : rows)
    for (const double s : row) max = std::max(max, std::fabs(s));
  return max;
}
double root_mean_square(const std::vector<float>& v) {
  double sum = 0;
  for (const float x : v) sum += static_cast<double>(x) * static_cast<double>(x);
  return std::sqrt(sum / static_cast<double>(v.size()));
}

// %% tags=["program"]
// clang-format off: the cells below are the statements of main, written from the margin as a notebook has them.
int main() {

// %% [markdown]
// ## How large are they?
//
// The score of query $q_i$ and key $k_j$ is their dot product; softmax turns a row of scores into probabilities:
//
// $$ s_{ij} = q_i \cdot k_j, \quad p_{ij} = \frac{\exp(s_{ij} / \sqrt{d})}{\sum_j \exp(s_{ij} / \sqrt{d})} $$
//
// If the numbers in $q$ and $k$ were independent with spread $\sigma_q$ and $\sigma_k$, a score would have the spread
// $\sigma_q \sigma_k \sqrt{d}$. That is the reason for the division by $\sqrt{d}$. The largest of $N$ such scores is
// about $\sqrt{2 \log N}$ spreads away from 0. Here is what a small GPT has at the beginning and after 300 and 1000
// steps.

// %%
const double pairs = static_cast<double>(n * (n + 1) / 2);
const auto expected = [&](double sigma_q, double sigma_k) {
  return sigma_q * sigma_k * std::sqrt(static_cast<double>(d)) * std::sqrt(2 * std::log(pairs));
};
Table growth =
    new_table("Scores of a byte-level GPT",
              {integer_column("step"), integer_column("layer"), real_column("spread of q", "", 3),
               real_column("spread of k", "", 3), real_column("largest |q.k|", "", 4),
               real_column("if independent", "", 3), fixed_column("room left in FP16", "bits", 1)});
double at_start = 0, at_end = 0, excess = 0;
for (const int step : {0, 300, 1000})
  for (const int layer : {0, 3}) {
    const Head head = read_heads(step, layer)[0];
    const double q = root_mean_square(head.q), k = root_mean_square(head.k),
                 max = largest(scores(head));
    add_row(growth, step, layer, q, k, max, expected(q, k), std::log2(fp16_ends / max));
    if (step == 0) at_start = std::max(at_start, max);
    if (step == 1000)
      at_end = std::max(at_end, max), excess = std::max(excess, max / expected(q, k));
  }
table(growth);
expect(at_end > 10 * at_start, "training made the largest score more than ten times larger");
expect(at_end < fp16_ends, "this small model is still far from the end of FP16");

// %% [markdown]
// Two things make scores grow. The spreads grow, both of them, and a score grows with their *product*. And $q$ and $k$
// stop being independent: to learn what to look at *means* to line them up. After some training that estimate is too
// low.

// %%
say("After 1000 steps the largest score is up to {:.2} times what independent numbers of that "
    "spread would give.",
    excess);
say("It would pass 65504 if queries and keys were both **{:.0f}** times larger.",
    std::sqrt(fp16_ends / at_end));

// %% [markdown]
// Large models get there: they have wider heads, more layers, longer training. The estimate tells when.

// %%
Table when =
    new_table("Spread of q and k at which independent scores pass 65504",
              {integer_column("d"), integer_column("positions"), fixed_column("raw q.k", "", 1),
               fixed_column("with q / sqrt(d) first", "", 1)});
for (const double width : {64.0, 128.0, 256.0})
  for (const double positions : {2048.0, 131072.0}) {
    const double per_spread = std::sqrt(width) * std::sqrt(2 * std::log(positions * positions / 2));
    add_row(when, static_cast<int>(width), static_cast<int>(positions),
            std::sqrt(fp16_ends / per_spread),
            std::sqrt(fp16_ends * std::sqrt(width) / per_spread));
  }
table(when);

// %% [markdown]
// The sequence length hardly matters: it stands under a logarithm and a root. The spread of $q$ and $k$ is what counts.
//
// ## What softmax makes of infinity
//
// A score beyond 65520 becomes Inf in FP16. Softmax subtracts the largest score of the row first, so that no
// exponential can overflow; but $\infty - \infty$ is NaN, and one NaN in the sum makes the whole row NaN.

// %%
const auto softmax = [](std::vector<double> row) {
  double max = -HUGE_VAL, sum = 0;
  for (const double s : row) max = std::max(max, s);
  for (double& s : row) s = std::exp(s - max), sum += s;
  for (double& s : row) s /= sum;
  return row;
};
const std::vector<double> fine = softmax({10, 8, 3});
const std::vector<double> broken = softmax({round_to(70000.0, fp16), round_to(40000.0, fp16), 3});
print("scores    10,    8, 3  ->  {:.4} {:.4} {:.4}", fine[0], fine[1], fine[2]);
print("scores 70000, 4e4, 3  ->  {} {} {}", broken[0], broken[1], broken[2]);
expect(std::isnan(broken[0]) && broken[1] != 1, "one score beyond 65504 makes the row NaN");

// %% [markdown]
// ## From good to bad
//
// Take the recorded heads of the last layer and make all scores $2^k$ times larger, as if $q$ and $k$ had grown. Hold
// the scores in FP16, in FP16 with $q$ divided by $\sqrt{d} = 8$ *before* the product, and in BF16. Two things are
// measured against exact arithmetic: how many rows are NaN, and how wrong the probabilities of the other rows are.

// %%
std::vector<std::vector<double>> rows;
for (const Head& head : read_heads(1000, 3))
  for (auto& row : scores(head)) rows.push_back(std::move(row));
struct Damage {
  double nan_rows, error;
};
const auto damage = [&](const Format& f, bool scale_first, int larger) {
  double nan = 0, error = 0, counted = 0;
  for (std::size_t r = 0; r < rows.size(); r += 3) {
    std::vector<double> exact, held;
    for (const double s : rows[r]) {
      const double raw = std::ldexp(s, larger);
      exact.push_back(raw / 8);
      held.push_back(scale_first ? round_to(raw / 8, f) : round_to(round_to(raw, f) / 8, f));
    }
    const std::vector<double> right = softmax(exact), got = softmax(held);
    double worst = 0;
    for (std::size_t j = 0; j < got.size(); ++j)
      worst = std::max(worst, std::fabs(got[j] - right[j]));
    if (std::isnan(got[0])) ++nan;
    else error += worst, ++counted;
  }
  return Damage{nan / (nan + counted), counted == 0 ? HUGE_VAL : error / counted};
};

// %% tags=["folded"]
Panel nan_panel, error_panel;
nan_panel.title = "rows of softmax that are NaN";
error_panel.title = "largest error of a probability, mean over the other rows";
nan_panel.x = error_panel.x = {
    "scores larger than recorded by", "", AxisScale::exponent_of_two, 0.0, 14.0, {}, {}};
nan_panel.y = {"rows", "%", AxisScale::linear, 0.0, 100.0, {}, {}};
error_panel.y = {"error", "", AxisScale::log10, 1e-5, 0.1, {}, {}};
struct Way {
  const char* name;
  Format format;
  bool scale_first;
  PlotColour colour;
};
const Way ways[] = {{"FP16", fp16, false, PlotColour::vermilion},
                    {"FP16, q / sqrt(d) first", fp16, true, PlotColour::blue},
                    {"BF16", bf16, false, PlotColour::orange}};
for (const Way& way : ways) {
  Series nan = new_series(way.name, Draw::line_points, way.colour), error = nan;
  for (int larger = 0; larger <= 14; ++larger) {
    const Damage now = damage(way.format, way.scale_first, larger);
    add_point(nan, larger, 100 * now.nan_rows), add_point(error, larger, now.error);
  }
  nan_panel.series.push_back(nan), error_panel.series.push_back(error);
}
picture(new_plot("FP16 breaks, and BF16 is wrong long before",
                 "Softmax of recorded scores that were made larger", {nan_panel, error_panel},
                 230));
expect(damage(fp16, false, 14).nan_rows > 0.5 && damage(bf16, false, 14).nan_rows == 0,
       "FP16 ends in NaN, BF16 does not");
expect(damage(bf16, false, 3).error > 4 * damage(fp16, false, 3).error,
       "where FP16 holds, BF16 is several times less accurate");
expect(damage(fp16, true, 11).nan_rows < damage(fp16, false, 11).nan_rows,
       "scaling q first gives three more bits of room");

// %% [markdown]
// The lower panel is the less known half of the story. Long before the overflow the quantum of a large score becomes
// visible: it stands in an *exponent*. An error of $\epsilon$ in the score multiplies a probability by $e^{\epsilon /
// \sqrt{d}}$. (At the right end FP16 looks exact again: one score is so far above the others that its probability is 1,
// whatever the error.)

// %%
Table quanta =
    new_table("What half a quantum of the score does to a probability",
              {real_column("score", "", 5), real_column("FP16: half a quantum", "", 3),
               fixed_column("off by", "%", 2), real_column("BF16: half a quantum", "", 3),
               fixed_column("off by ", "%", 1)});
const auto half_quantum = [](double s, const Format& f) {
  return std::exp2(std::floor(std::log2(s)) - f.mantissa_bits - 1);
};
for (const double s : {10.0, 100.0, 1000.0, 10000.0}) {
  const double half16 = half_quantum(s, fp16), half_b = half_quantum(s, bf16);
  add_row(quanta, s, half16, 100 * std::expm1(half16 / 8), half_b, 100 * std::expm1(half_b / 8));
}
table(quanta);
expect(std::expm1(half_quantum(1000.0, bf16) / 8) > 0.25,
       "a BF16 score of 1000 leaves a probability uncertain by a quarter");

// %% [markdown]
// Fused attention kernels avoid both: the scores stay in the FP32 accumulator of the tensor core and are never rounded
// to 16 bits at all.
//
// ## Remedies that change the model
//
// **QK-norm** divides each query and key by its root mean square. Then no score exceeds $d$ (Cauchy and Schwarz), times
// the gain that the norm may learn. **Soft-capping** replaces $s$ by $c \cdot \mathrm{tanh}(s / c)$, which never
// exceeds $c$. Train a tiny transformer with a learning rate that is much too high and watch the largest score that
// softmax sees.

// %% tags=["folded"]
struct Variant {
  const char* name;
  bool qk_norm;
  double soft_cap;
  PlotColour colour;
};
constexpr Variant variants[] = {{"plain", false, 0, PlotColour::vermilion},
                                {"soft cap 20", false, 20, PlotColour::orange},
                                {"QK-norm", true, 0, PlotColour::blue}};
Panel logits;
logits.x = {"training step", "", AxisScale::linear, {}, {}, {}, {}};
logits.y = {"largest score, after 1/sqrt(d)", "", AxisScale::log2, {}, {}, {}, {}};
std::vector<double> largest_seen;
for (const Variant& v : variants) {
  train::RunRequest request;
  request.task = train::Task::lm;
  request.recipe = train::require_recipe("fp16-amp");
  request.shape = train::ModelShape{.kind = train::ModelKind::transformer,
                                    .layers = 2,
                                    .width = 32,
                                    .heads = 2,
                                    .qk_norm = v.qk_norm,
                                    .soft_cap = v.soft_cap,
                                    .context = 32};
  request.optimiser = train::settings_of(train::Task::lm).optimiser;
  request.optimiser->learning_rate = 0.03, request.optimiser->clip = 0;
  request.steps = 61, request.batch = 4, request.instrument_every = 5;
  Series s = new_series(v.name, Draw::line_points, v.colour);
  for (const train::StepRow& row : train::run_training(request).rows)
    if (std::isfinite(row.largest_logit))
      add_point(s, static_cast<double>(row.step), row.largest_logit);
  largest_seen.push_back(*std::max_element(s.y.begin(), s.y.end()));
  logits.series.push_back(s);
}
picture(new_plot(text("Scores reach {:.0f} when nothing holds them, {:.0f} with QK-norm",
                      largest_seen[0], largest_seen[2]),
                 "A transformer of width 32 with a learning rate of 0.03", {logits}, 260));
expect(largest_seen[1] <= 20, "a soft cap of 20 is never passed");
expect(largest_seen[0] > 4 * largest_seen[2],
       "QK-norm keeps the scores small where the plain model lets them grow");

// %% [markdown]
// `narrow run attention_overflow -o out --fast` does all this with more lengths, sizes and remedies, and for your own tensors;
// `narrow run attention_overflow d=128 n=4096 sigma=30` says for any size whether scores overflow, and at which they would.
//
// ## Exercises
//
// 1. A model has $d = 128$, 4096 positions, and $q$ and $k$ with spread 30. Does an FP16 score overflow? And with $q$
//    scaled first?
// 2. Why does it help to divide $q$ by $\sqrt{d}$ before the product, if the result is divided by the same number
//    anyway? And why is nothing lost by it when $d = 64$?
// 3. A mask sets scores to $-65504$ instead of $-\infty$. What becomes of a row in which *every* score is masked, under
//    each?

// %% [markdown] tags=["solution"]
// **1.** $30^2 \sqrt{128} \sqrt{2 \log(4096^2 / 2)}$:

// %% tags=["solution"]
const double estimate = 900 * std::sqrt(128.0) * std::sqrt(2 * std::log(4096.0 * 4096.0 / 2));
say("About **{:.0f}**: close to the end, and training lines vectors up, so yes. Scaled first: "
    "{:.0f}, no.",
    estimate, estimate / std::sqrt(128.0));
expect(estimate > 0.8 * fp16_ends && estimate / std::sqrt(128.0) < 0.1 * fp16_ends,
       "raw scores are at the end of FP16, scaled ones are not");

// %% [markdown] tags=["solution"]
// **2.** What overflows is the number *between* the product and the division. Scaled first, it never exists. For $d =
// 64$ the factor is $1/8$, a power of two: only the exponent of $q$ changes.

// %% tags=["solution"]
const Head trained = read_heads(1000, 3)[0];
bool exact_division = true;
for (const float x : trained.q)  // all but the smallest, which would become subnormal
  exact_division =
      exact_division && (std::fabs(x) < 0x1p-11f || round_to(x / 8, fp16) == x / 8);
expect(exact_division, "dividing these queries by 8 is exact in FP16");

// %% [markdown] tags=["solution"]
// **3.** With the large finite number all differences are 0 and the row is uniform: wrong perhaps, but finite. With
// $-\infty$ the largest score is $-\infty$ too, and $-\infty + \infty$ is NaN.

// %% tags=["solution"]
const auto finite_mask = softmax({-65504, -65504, -65504, -65504}),
           infinite_mask = softmax({-HUGE_VAL, -HUGE_VAL});
say("Finite mask: {}. Infinite mask: {}.", finite_mask[0], infinite_mask[0]);
expect(finite_mask[0] == 0.25 && std::isnan(infinite_mask[0]),
       "a row that is masked everywhere is NaN with -Inf");

// %% tags=["program"]
}

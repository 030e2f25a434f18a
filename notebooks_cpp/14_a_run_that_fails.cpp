// %% [markdown]
// # A training run that fails, diagnosed from its histograms
//
// A loss curve says *that* something is wrong. It rarely says what: too low a loss scale, too high a loss scale,
// gradients that fall out of the format, an optimiser that divides by zero, and a learning rate that is simply bad can
// all look alike. This lesson breaks a small network in four ways, looks at the numbers that training leaves behind,
// and ends with a doctor of a dozen lines.

// %% tags=["folded"]
#include <algorithm>
#include <cmath>

#include "lesson.hpp"
#include "narrow/array/histogram.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/format/neighbours.hpp"
#include "narrow/train/run/run.hpp"

using namespace narrow;
using namespace lesson;

constexpr Format fp16 = "fp16"_fmt, e4m3 = "e4m3"_fmt, e5m2 = "e5m2"_fmt;

// 120 steps on handwritten digits; every 20th step is watched in full.
train::RunResult run(const std::string& recipe_json, double learning_rate = 2e-3) {
  train::RunRequest request;
  request.recipe = train::parse_recipe(recipe_json, "lesson 14");
  request.optimiser = train::settings_of(train::Task::digits).optimiser;
  request.optimiser->learning_rate = learning_rate;
  request.steps = 120, request.instrument_every = 20;
  return train::run_training(request);
}

// One tensor of a watched step.
const train::TensorReport* find_tensor(const train::StepReport& report, const char* tensor,
                                       train::Role role) {
  for (const train::TensorReport& t : report.tensors)
    if (t.tensor == tensor && t.role == role) return &t;
  return nullptr;
}

Series bars_of(const ExponentHistogram& h, int low, int high, const char* name, PlotColour colour) {
  Series s = new_series(name, Draw::bars, colour);
  const double all = static_cast<double>(h.count() - h.zero.total());
  for (int e = low; e < high; ++e)
    add_point(s, e + 0.5, all == 0 ? 0 : 100 * static_cast<double>(h.binade(e).total()) / all);
  return s;
}
Ruler ruler_of(const char* name, const Format& f) {
  return {name,
          {{std::log2(smallest_positive(f)), std::log2(smallest_normal(f)), PlotColour::orange},
           {std::log2(smallest_normal(f)), std::log2(largest(f)), PlotColour::blue}}};
}

// %% tags=["program"]
// clang-format off: the cells below are the statements of main, written from the margin as a notebook has them.
int main() {

// %% [markdown]
// ## Five runs
//
// One is healthy. The recipes are written as JSON, as `narrow train --recipe mine.json` takes them.

// %%
struct Patient {
  const char* name;
  const char* recipe;
  PlotColour colour;
  train::RunResult result = {};
};
const char* e4m3_everywhere =
    R"({"base": "fp8-noscale", "operations": {"linear": {"gradients": "e4m3"}, )"
    R"("logits": {"gradients": "e4m3"}}})";
std::vector<Patient> patients = {
    {"healthy", R"({"base": "fp16-amp"})", PlotColour::ink},
    {"A", e4m3_everywhere, PlotColour::orange},
    {"B", R"({"base": "fp16-amp", "loss_scaler": "torch:init=2^-20"})", PlotColour::blue},
    {"C", R"({"base": "fp16-amp", "loss_scaler": "constant:init=2^30"})", PlotColour::vermilion},
    {"D", R"({"base": "fp16-pure"})", PlotColour::purple}};

// %% tags=["folded"]
Panel curves;
curves.x = {"step", "", AxisScale::linear, 0.0, 120.0, {}, {}};
curves.y = {"training loss", "", AxisScale::linear, 0.0, 2.8, {}, {}};
for (Patient& p : patients) {
  p.result = run(p.recipe);
  Series s = new_series(p.name, Draw::line, p.colour);
  for (const train::StepRow& row : p.result.rows)
    add_point(s, static_cast<double>(row.step), row.loss);
  s.dashed = p.colour == PlotColour::vermilion;
  curves.series.push_back(s);
}
picture(new_plot("One learns, one learns slowly, two are flat, and one has no curve",
                 "Handwritten digits, five recipes", {curves}, 280));
const train::RunResult &healthy = patients[0].result, &a = patients[1].result,
                       &b = patients[2].result, &c = patients[3].result, &d = patients[4].result;
expect(a.final_loss > 2 * healthy.final_loss, "A ends far above the healthy run");
expect(b.final_loss > 2.2 && c.final_loss > 2.2, "B and C learn nothing");

// %% [markdown]
// B and C have the same curve. They have opposite illnesses.
//
// ## First look: what each step reports
//
// Besides the loss, every step leaves the norm of the gradient, the loss scale, whether the step was skipped, and how
// much the parameters moved.

// %%
Table first = new_table(
    "Step 20",
    {text_column("run"), real_column("loss", "", 4), real_column("gradient norm", "", 3),
     power_column("loss scale"), integer_column("skipped"), text_column("first Inf or NaN")},
    "D: step 0, its last");
for (const Patient& p : patients) {
  const train::StepRow& row = p.result.rows[std::min<std::size_t>(20, p.result.rows.size() - 1)];
  add_row(first, p.name, row.loss, row.gradient_norm, static_cast<double>(row.scale),
          p.result.skipped, p.result.first_nonfinite ? p.result.first_nonfinite->text() : "none");
}
table(first);
expect(b.rows[20].gradient_norm == 0 && b.skipped == 0,
       "in B the gradient is exactly zero, and no step was skipped");
expect(c.skipped == c.rows.size(), "in C every step was skipped");
expect(d.broke.has_value() && !d.first_nonfinite->in_model,
       "in D the model is innocent: the optimiser made the NaN");

// %% [markdown]
// Three of four are nearly solved:
//
// - **B**: a gradient norm of exactly 0 is never real. The gradients were too small for the format.
// - **C**: every step is skipped. The gradients were too large for the format, the loss scale never comes down, and the
//   step is thrown away each time.
// - **D**: the first NaN appears in the update, not in the model: AdamW's $\epsilon$ of $10^{-8}$ is zero in FP16
//   (lesson 08).
//
// **A** looks healthy in this table, but for the loss. For that one we need the histograms.
//
// ## A: the histogram of the gradients
//
// In a watched step the trainer counts each tensor of each operation by binade, *before* it is rounded, and how many of
// its numbers became zero or too large.

// %%
const train::StepReport& report = a.reports[1];
Table lost = new_table(text("A at step {}: what rounding to E4M3 did", report.step),
                       {text_column("tensor"), text_column("role"), integer_column("numbers"),
                        real_column("largest", "", 3), fixed_column("became zero", "%", 1),
                        fixed_column("too large", "%", 1)});
for (const char* layer : {"layers.0", "layers.1", "layers.2"})
  for (const train::Role role :
       {train::Role::activations, train::Role::weights, train::Role::gradients})
    if (const train::TensorReport* t = find_tensor(report, layer, role)) {
      const double count = static_cast<double>(t->count);
      add_row(lost, layer, train::name_of(role), t->count, t->amax,
              100 * static_cast<double>(t->underflow) / count,
              100 * static_cast<double>(t->overflow) / count);
    }
table(lost);
const train::TensorReport& gradients = *find_tensor(report, "layers.0", train::Role::gradients);

// %% tags=["folded"]
Panel where;
where.x = {"magnitude", "", AxisScale::exponent_of_two, -30.0, 10.0, {}, {}};
where.y = {"numbers that are not zero", "%", AxisScale::linear, 0.0, {}, {}, {}};
where.series = {bars_of(find_tensor(report, "layers.0", train::Role::activations)->before, -30, 10,
                        "activations", PlotColour::grey),
                bars_of(gradients.before, -30, 10, "gradients", PlotColour::vermilion)};
where.bars = BarLayout::overlaid;
where.rulers = {ruler_of("E4M3", e4m3), ruler_of("E5M2", e5m2), ruler_of("FP16", fp16)};
picture(new_plot("A's gradients lie to the left of E4M3",
                 "First layer, before rounding; rulers: subnormal (orange) and normal numbers",
                 {where}, 300));
expect(gradients.underflow > gradients.count / 3,
       "a large part of the first layer's gradients becomes zero");
expect(
    find_tensor(report, "layers.0", train::Role::activations)->underflow < gradients.underflow / 10,
    "its activations are fine");

// %% [markdown]
// Diagnosis: activations and weights sit well inside the format, the gradients do not. They shrink on their way back,
// so the first layer, the last one that they reach, suffers most. The network learns mostly with its upper layers.
//
// ## The cure, computed before it is tried
//
// A histogram tells what *any* scale would do: multiplying by $2^k$ moves it by $k$ places. So we can look for the
// scale before running anything.

// %% tags=["folded"]
Panel shift;
shift.x = {"scale", "", AxisScale::exponent_of_two, 0.0, 20.0, {}, {}};
shift.y = {"gradients lost", "%", AxisScale::linear, 0.0, 100.0, {}, {}};
struct Choice {
  const char* name;
  Format format;
  PlotColour colour;
};
const Choice choices[] = {{"E4M3: zero", e4m3, PlotColour::orange},
                          {"E5M2: zero", e5m2, PlotColour::blue}};
const auto predicted = [&](const Format& f, int k) {
  return shares_from_histogram(gradients.before, {f}, k);
};
const double nonzero =
    static_cast<double>(gradients.before.count() - gradients.before.zero.total());
for (const Choice& choice : choices) {
  Series s = new_series(choice.name, Draw::line_points, choice.colour);
  for (int k = 0; k <= 20; ++k)
    add_point(s, k,
              100 * static_cast<double>(predicted(choice.format, k).underflow.upper) / nonzero);
  shift.series.push_back(s);
}
Series over = new_series("E4M3: too large", Draw::line_points, PlotColour::vermilion);
for (int k = 0; k <= 20; ++k)
  add_point(over, k, 100 * static_cast<double>(predicted(e4m3, k).overflow.upper) / nonzero);
shift.series.push_back(over);
int best = 0;
while (predicted(e4m3, best + 1).overflow.upper == 0) ++best;
shift.marks = {
    {Along::x, static_cast<double>(best), text("2^{}: nothing too large", best), PlotColour::grey}};
picture(new_plot(text("E4M3 would take a scale up to 2^{}; E5M2 would do without", best),
                 "Predicted from the histogram of one step, upper bounds", {shift}, 260));

// %% [markdown]
// Three cures follow: a format with more range (E5M2 for gradients, as the hybrid recipe has it), a scale for each
// tensor, or a loss scale, a little below the limit. Try them.

// %%
struct Cure {
  const char* name;
  std::string recipe;
};
const Cure cures[] = {
    {"E5M2 gradients", R"({"base": "fp8-noscale"})"},
    {"a scale for each tensor",
     R"({"base": "fp8-current", "operations": {"linear": {"gradients": )"
     R"({"format": "e4m3", "scaling": "tensor_current", "overflow": "saturate"}}}})"},
    {"a constant loss scale", text(R"({{"loss_scaler": "constant:init=2^{}", {})", best - 3,
                                   std::string(e4m3_everywhere).substr(1))}};
Table cured = new_table("A, treated", {text_column("cure"), fixed_column("final loss", "", 3),
                                       fixed_column("first layer's gradients lost", "%", 1)});
add_row(cured, "none", a.final_loss,
        100 * static_cast<double>(gradients.underflow) / static_cast<double>(gradients.count));
std::vector<train::RunResult> after;
for (const Cure& cure : cures) {
  after.push_back(run(cure.recipe));
  const train::TensorReport& t =
      *find_tensor(after.back().reports[1], "layers.0", train::Role::gradients);
  add_row(cured, cure.name, after.back().final_loss,
          100 * static_cast<double>(t.underflow) / static_cast<double>(t.count));
}
table(cured);
say("The healthy run ended at {:.3f}.", healthy.final_loss);
for (std::size_t i = 0; i < after.size(); ++i)
  expect(std::fabs(after[i].final_loss - healthy.final_loss) < 0.05,
         text("{} brings A to the healthy loss", cures[i].name));

// %% [markdown]
// ## B: the same question, the other format
//
// B's loss scale is $2^{-20}$. Nobody sets it so, but a dynamic scaler without a floor can fall that far when a few bad
// batches come in a row (lesson 07). The gradient of the loss itself, before it goes anywhere, shows it.

// %% tags=["folded"]
const train::TensorReport& of_b = *find_tensor(b.reports[1], "layers.2", train::Role::gradients);
const train::TensorReport& of_healthy =
    *find_tensor(healthy.reports[1], "layers.2", train::Role::gradients);
Panel two;
two.x = {"magnitude of the scaled gradient", "", AxisScale::exponent_of_two, -48.0, 18.0, {}, {}};
two.y = {"numbers that are not zero", "%", AxisScale::linear, 0.0, {}, {}, {}};
two.series = {bars_of(of_b.before, -48, 18, "B: loss scale 2^-20", PlotColour::vermilion),
              bars_of(of_healthy.before, -48, 18, "healthy: loss scale 2^16", PlotColour::blue)};
two.bars = BarLayout::overlaid;
two.rulers = {ruler_of("FP16", fp16)};
picture(new_plot("B's gradients vanish at the first layer that they meet",
                 "Gradient of the logits at step 20, before rounding to FP16", {two}, 260));
say("In B **{}** of {} gradients of the logits become zero; in the healthy run {}.", of_b.underflow,
    of_b.count, of_healthy.underflow);
expect(of_b.underflow == of_b.count - of_b.before.zero.total(),
       "in B every gradient is lost in the first rounding");

// %% [markdown]
// ## A doctor in a dozen lines
//
// The order of the questions matters: ask about NaN before you ask about zeros, and about zeros before you blame the
// learning rate.

// %%
const auto diagnose = [](const train::RunResult& r) -> std::string {
  const train::StepRow& last = r.rows.back();
  if (r.broke && !r.first_nonfinite->in_model)
    return "the optimiser divides by zero: keep its state in FP32";
  if (r.broke || !std::isfinite(r.final_loss))
    return text("overflow in the model: {}", r.first_nonfinite->text());
  if (r.skipped == r.rows.size())
    return "every step is skipped: the loss scale is too high and does not fall";
  if (last.gradient_norm == 0) return "all gradients are zero: the loss scale is too low";
  for (const train::StepReport& step : r.reports)
    for (const train::TensorReport& t : step.tensors)
      if (step.step > 0 && t.role == train::Role::gradients && t.underflow > t.count / 4)
        return text("gradients of {} vanish: more range, or a scale", t.tensor);
  return "nothing is lost: if it does not learn, it is not the precision";
};
Table answers = new_table("Diagnoses", {text_column("run"), text_column("answer")});
for (const Patient& p : patients) add_row(answers, p.name, diagnose(p.result));
for (std::size_t i = 0; i < after.size(); ++i)
  add_row(answers, text("A with {}", cures[i].name), diagnose(after[i]));
table(answers);
expect(diagnose(healthy).starts_with("nothing"), "the doctor leaves the healthy alone");
expect(diagnose(a).starts_with("gradients of"), "A: vanishing gradients");
expect(diagnose(b).starts_with("all gradients"), "B: loss scale too low");
expect(diagnose(c).starts_with("every step"), "C: loss scale too high");
expect(diagnose(d).starts_with("the optimiser"), "D: the optimiser");

// %% [markdown]
// `narrow train --task digits --recipe mine.json --instrument every=20 -o run` writes the same reports to files, and
// `narrow histogram` draws them for tensors of your own training.
//
// ## Exercises
//
// 1. Give the healthy recipe a learning rate of 0.2. What does the doctor say, and how do you confirm it?
// 2. Replace C's constant scale by PyTorch's dynamic scaler from the same $2^{30}$. How many steps are lost?
// 3. In the healthy run, how many of the first layer's gradients would vanish without any loss scale if the batch were
//    1024 times larger? Use the histogram, not a run.

// %% [markdown] tags=["solution"]
// **1.** Nothing is lost, so it is not the precision. FP32 confirms it: it fails as well.

// %% tags=["solution"]
const train::RunResult wild = run(R"({"base": "fp16-amp"})", 0.2),
                       wild_fp32 = run(R"({"base": "fp32"})", 0.2);
say("FP16: loss {:.3}, \"{}\". FP32: loss {:.3}.", wild.final_loss, diagnose(wild),
    wild_fp32.final_loss);
expect(wild.final_loss > 1 && wild_fp32.final_loss > 1,
       "with a learning rate of 0.2 both fail");
expect(diagnose(wild).starts_with("nothing"),
       "and the doctor finds no fault with the precision");

// %% [markdown] tags=["solution"]
// **2.** Each skipped step halves the scale, until the largest scaled gradient fits.

// %% tags=["solution"]
const train::RunResult dynamic =
    run(R"({"base": "fp16-amp", "loss_scaler": "torch:init=2^30"})");
say("{} steps are skipped; the scale settles at 2^{}, and the final loss is {:.3f}.",
    dynamic.skipped, std::log2(static_cast<double>(dynamic.rows.back().scale)),
    dynamic.final_loss);
expect(dynamic.skipped > 3 && dynamic.skipped < 20,
       "a dynamic scaler finds its way down in a few steps");
expect(static_cast<double>(dynamic.rows.back().scale) ==
           std::ldexp(0x1p30, -static_cast<int>(dynamic.skipped)),
       "one halving for each skipped step");

// %% [markdown] tags=["solution"]
// **3.** The loss is a mean over the batch, so each gradient would be 1024 times smaller. The recorded ones carry the
// loss scale of $2^{16}$ as well: move the histogram by $-16 - 10$ places.

// %% tags=["solution"]
const train::TensorReport& small =
    *find_tensor(healthy.reports[1], "layers.0", train::Role::gradients);
const Bounds now = shares_from_histogram(small.before, {fp16}, -16).underflow,
             then = shares_from_histogram(small.before, {fp16}, -26).underflow;
const double all = static_cast<double>(small.before.count() - small.before.zero.total());
say("Without a loss scale {:.1f} % vanish now, and {:.0f} % to {:.0f} % would with the larger "
    "batch.",
    100 * static_cast<double>(now.upper) / all, 100 * static_cast<double>(then.lower) / all,
    100 * static_cast<double>(then.upper) / all);
expect(then.lower > now.upper, "large batches need the loss scale more than small ones");

// %% tags=["program"]
}

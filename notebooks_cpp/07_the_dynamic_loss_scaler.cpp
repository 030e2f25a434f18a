// %% [markdown]
// # The dynamic loss scaler, step by step, and how it dies
//
// Lesson 6 multiplied the loss by $2^{16}$ and gradients stopped vanishing. But which number is right? It depends on
// the model and changes during training. So frameworks let a small state machine find it: *double when all is well,
// halve on overflow*. This lesson builds that machine in ten lines, checks it against recordings of the real one, and
// then looks at the three ways in which it fails.

// %% tags=["folded"]
#include <cmath>

#include "lesson.hpp"
#include "narrow/base/random.hpp"
#include "narrow/scale/scaler_table.hpp"
#include "narrow/scale/torch_scaler.hpp"
#include "narrow/train/run/run.hpp"
#include "recordings.hpp"

using namespace narrow;
using namespace lesson;

// %% tags=["program"]
// clang-format off: the cells below are the statements of main, written from the margin as a notebook has them.
int main() {

// %% [markdown]
// ## The machine
//
// The state is two numbers: the scale, and how many good steps came in a row. Before each step the loss is multiplied
// by the scale. After the backward pass the gradients are searched for infinity and NaN. If there is one, the step is
// *skipped* and the scale halved. If there has been none for 2000 steps, the scale is doubled.

// %%
struct Mine {
  float scale = 65536;
  int good_steps = 0;

  void after_step(bool found_inf, int growth_interval) {
    if (found_inf) {
      scale *= 0.5f;
      good_steps = 0;
    } else if (++good_steps == growth_interval) {
      scale *= 2;
      good_steps = 0;
    }
  }
};

// %% [markdown]
// The library has the scalers of PyTorch, Apex, DeepSpeed, Megatron, Keras and fairseq as pure functions: a state and
// an observation go in, the next state comes out. Does the little machine agree with the one called `torch`? A
// hundred thousand steps with random overflows, compared bit for bit.

// %%
Mine mine;
TorchScaler torch;
torch.growth_interval = 50;
TorchState state = initial(torch);
int agree = 0;
const int steps = 100'000;
for (std::uint64_t i = 0; i < steps; ++i) {
  const bool found_inf = random_bits(1, i) % 60 == 0;
  agree += mine.scale == scale(state) ? 1 : 0;
  mine.after_step(found_inf, 50);
  state = next(torch, state, {.found_inf = found_inf, .amax = 0});
}
say("{} of {} scales are equal, bit for bit.", agree, steps);
expect(agree == steps, "the rule above is the whole rule of torch.amp.GradScaler");

// %% [markdown]
// ## Against recordings
//
// Four training runs of a small GPT were recorded on a GPU with PyTorch's own `GradScaler`: from the usual start,
// from a scale that is far too large, from 1, and from one that is far too small. The growth interval was 20 to see
// more of it. We feed our model only what the scaler saw, *found_inf*, and predict the scale of every step.

// %%
const char* names[] = {"fp16 interval 20", "fp16 from 2^30", "fp16 from 2^0", "fp16 from 2^-10"};
const PlotColour colours[] = {PlotColour::ink, PlotColour::vermilion, PlotColour::blue,
                              PlotColour::orange};
Table predicted = new_table("GradScaler on a GPU, and the model of it",
                            {text_column("run"), integer_column("steps"), integer_column("skipped"),
                             integer_column("skipped at once"), power_column("last scale"),
                             integer_column("predicted right")});
Panel paths;
paths.x.label = "step";
paths.x.high = 400;
paths.y = {"loss scale", "", AxisScale::log2, {}, {}, {}, {}};
bool all_right = true;
std::size_t first_skips = 0;
for (std::size_t r = 0; r < 4; ++r) {
  const RecordedRun run = recorded_run(names[r]);
  TorchScaler scaler;
  scaler.init = run.init_scale;
  scaler.growth_interval = run.growth_interval;
  TorchState s = initial(scaler);
  Series line = new_series(names[r], Draw::steps, colours[r]);
  std::int64_t right = 0, skipped = 0;
  for (std::size_t i = 0; i < run.scale.size(); ++i) {
    right += static_cast<double>(scale(s)) == run.scale[i] ? 1 : 0;
    skipped += run.found_inf[i] ? 1 : 0;
    if (i <= 400) add_point(line, static_cast<double>(i), run.scale[i]);
    s = next(scaler, s, {.found_inf = run.found_inf[i], .amax = 0});
  }
  std::size_t at_once = 0;
  while (at_once < run.found_inf.size() && run.found_inf[at_once]) ++at_once;
  if (r == 1) first_skips = at_once;
  all_right = all_right && right == static_cast<std::int64_t>(run.scale.size());
  add_row(predicted, names[r], run.scale.size(), skipped, at_once, run.scale.back(), right);
  paths.series.push_back(line);
}
table(predicted);
expect(all_right, "every scale of every step is predicted exactly");

// %%
picture(new_plot("From above it takes a few steps, from below as long as the interval says",
                 "Recorded loss scales of four runs; growth interval 20", {paths}, 320));
say("The run that started at 2^30 skipped its first **{}** steps, halving each time, "
    "and was then well.", first_skips);
expect(first_skips >= 8, "a start that is far too large costs one skipped step per factor of two");

// %% [markdown]
// Two things to see. Coming down is fast: one step a factor of two, and the steps lost are the price. Going up is
// slow: one growth interval a factor of two. And once it has arrived, the scaler keeps probing: it doubles,
// overflows, skips one step, halves. With the usual interval of 2000 that costs one step in 2000.
//
// ## First death: the ground gives way
//
// The rule says nothing about a smallest scale. If *every* step overflows, because a weight has become NaN or the
// data are broken, the scaler halves for ever. No error is raised, and no step is taken. How long until the scale is
// zero?

// %%
TorchScaler usual;
TorchState falling = initial(usual);
Panel fall;
fall.x.label = "step, all of them overflow";
fall.y = {"loss scale", "", AxisScale::log2, {}, {}, {}, {}};
Series torch_line = new_series("torch", Draw::line, PlotColour::vermilion);
int until_zero = 0, until_lost = 0;
for (int step = 0; scale(falling) > 0; ++step) {
  add_point(torch_line, step, static_cast<double>(scale(falling)));
  falling = next(usual, falling, {.found_inf = true, .amax = 0});
  if (until_lost == 0 && std::isinf(inverse_scale(scale(falling)))) until_lost = step + 1;
  until_zero = step + 1;
}
fall.series = {torch_line};
fall.marks = {{Along::y, 0x1p-128, "below: 1/scale is infinite", PlotColour::grey}};
picture(new_plot(text("After {} steps the scale is zero, and nothing has been said", until_zero),
                 "torch.amp.GradScaler when every step overflows", {fall}, 260));
expect(until_zero == 166, "165 halvings from 2^16 end at the smallest float, the next one at zero");

// %% [markdown]
// It is worse than zero. Gradients are multiplied by $\frac{1}{\text{scale}}$. From $2^{-128}$ on that is infinite in
// FP32, and a gradient that is exactly zero becomes $0 \cdot \infty$, which is NaN. The search for infinity happens
// *before* that multiplication, so it finds nothing. The optimiser takes the step.

// %%
const float inverse = inverse_scale(0x1p-128f);
const Unscaled bad = unscale(0.0f, inverse);
print("after {} overflows: scale 2^-128, 1/scale = {}", until_lost, inverse);
print("a zero gradient becomes {}, and found_inf is {}", bad.value, bad.found_inf);
expect(until_lost == 144, "144 overflows in a row are enough");
expect(std::isnan(bad.value) && !bad.found_inf,
       "the NaN comes after the check, and goes into the weights");

// %% [markdown]
// So a scale that keeps falling is a symptom, not the disease: the loss scale did not break the model, the model
// broke the loss scale. Watch it, and stop the run when it passes 1.
//
// ## What others do about it
//
// Frameworks differ in exactly this. The same disaster, a hundred and seventy overflows in a row, in all of them:

// %%
Table floors = new_table("170 overflows in a row, and then 5000 good steps",
                         {text_column("policy"), power_column("start"),
                          text_column("after the overflows"), text_column("what happened last"),
                          text_column("after 5000 good steps")});
for (const char* name : {"torch", "apex", "deepspeed", "megatron", "keras", "fairseq"}) {
  NamedScaler s = make_scaler(name);
  const double start = static_cast<double>(s.scaler->scale());
  for (int i = 0; i < 170; ++i) s.scaler->observe({.found_inf = true, .amax = 0});
  const float low = s.scaler->scale();
  const std::string event(name_of(s.scaler->event()));
  for (int i = 0; i < 5000; ++i) s.scaler->observe({.found_inf = false, .amax = 0});
  add_row(floors, name, start, power_text(static_cast<double>(low)), event,
          power_text(static_cast<double>(s.scaler->scale())));
}
table(floors);
NamedScaler deepspeed = make_scaler("deepspeed");
for (int i = 0; i < 170; ++i) deepspeed.scaler->observe({.found_inf = true, .amax = 0});
expect(deepspeed.scaler->event() == ScaleEvent::ended,
       "DeepSpeed ends the run with an error at its floor");

// %% [markdown]
// An error at the floor is the honest answer: after twenty overflows in a row the fault is elsewhere.
//
// ## Second death: it never comes up
//
// Start at $2^{-10}$ with the default interval of 2000. The scaler has to climb 26 binades to $2^{16}$.

// %%
TorchScaler slow;
slow.init = 0x1p-10;
TorchState climbing = initial(slow);
int climb = 0;
while (scale(climbing) < 65536) {
  climbing = next(slow, climbing, {.found_inf = false, .amax = 0});
  ++climb;
}
const RecordedRun low = recorded_run("fp16 from 2^-10"), normal = recorded_run("fp16 from 2^0");
say("It takes **{}** steps. In the recorded run from 2^-10 (interval 20) the loss after 400 steps "
    "was {:.2f}, against {:.2f} for the run that started at 1.", climb, low.loss.back(),
    normal.loss.back());
expect(climb == 52'000, "26 doublings, 2000 steps each");
expect(low.loss.back() > normal.loss.back() + 1,
       "a start that is far too small costs real progress");

// %% [markdown]
// A start that is too large costs a few skipped steps; a start that is too small costs the training. That is why
// every framework starts high.
//
// ## Third death: the overflow that is not the scale's fault
//
// A spike in the data makes a single step overflow at any scale. The scaler halves although its scale was right, and
// then needs 2000 good steps to undo it. If spikes come more often than that, it sinks. *Hysteresis* (DeepSpeed,
// Megatron) forgives the first overflow.

// %%
const auto after_spikes = [](const char* policy, int every) {
  NamedScaler s = make_scaler(policy);
  for (int i = 1; i <= 20'000; ++i) s.scaler->observe({.found_inf = i % every == 0, .amax = 0});
  return static_cast<double>(s.scaler->scale());
};
Table spikes = new_table("The scale after 20,000 steps from 2^16, one spike every so often",
                         {text_column("policy"), power_column("every 3000"),
                          power_column("every 1500"), power_column("every 500")},
                         "nothing but the spikes overflows here, so scales may grow beyond use");
for (const char* policy : {"torch:init=2^16", "deepspeed:init=2^16", "megatron:init=2^16"})
  add_row(spikes, policy, after_spikes(policy, 3000), after_spikes(policy, 1500),
          after_spikes(policy, 500));
table(spikes);
expect(after_spikes("torch", 3000) >= 0x1p15, "spikes that are rarer than the interval do no harm");
expect(after_spikes("torch", 500) == 0x1p-24,
       "one spike in 500 steps drives torch's scale down by 40 binades");

// %% [markdown]
// ## Order matters: clipping before unscaling
//
// The scale is right and the run still learns nothing? Look at what stands between `backward` and `step`. Gradients are
// clipped when their norm passes a limit, and the limit is meant for true gradients $g$. Before
// `scaler.unscale_(optimizer)` the norm is that of $S g$: with $S = 65536$ and a limit of 1 all that is left is a
// gradient of norm $1/65536$. No error, no Inf. The same digits, both orders, two optimisers:

// %%
Table clipped = new_table("Clipping at 1, scale 2^16, 100 steps",
                          {text_column("optimiser"), text_column("clip"), real_column("norm held against 1", "", 3),
                           real_column("factor", "", 3), real_column("last loss", "", 3)},
                          "norm and factor of the first step");
double loss_of[2][2] = {};
train::StepRow first_of[2][2];
for (const int adamw : {0, 1})
  for (const int before : {0, 1}) {
    train::RunRequest request;
    request.recipe = train::require_recipe("fp16-amp");
    request.steps = 100;
    request.optimiser = train::settings_of(request.task).optimiser;
    request.optimiser->clip = 1;
    if (adamw == 0) {
      request.optimiser->kind = train::OptimiserKind::sgd;
      request.optimiser->learning_rate = 0.05;
    }
    request.clip_order =
        before == 1 ? train::ClipOrder::before_unscale : train::ClipOrder::after_unscale;
    const train::RunResult result = train::run_training(request);
    first_of[adamw][before] = result.rows.front();
    loss_of[adamw][before] = result.final_loss;
    add_row(clipped, adamw == 1 ? "AdamW" : "SGD", before == 1 ? "before unscaling" : "after unscaling",
            result.rows.front().clipped_norm, result.rows.front().clip_factor, result.final_loss);
  }
table(clipped);
expect(first_of[0][1].clipped_norm == 65536 * first_of[0][0].clipped_norm,
       "the wrong order holds the scaled norm against the limit");
expect(loss_of[0][1] > 2.2 && loss_of[0][0] < 1, "SGD learns nothing in the wrong order");
expect(loss_of[1][1] < 1 && loss_of[1][1] > loss_of[1][0],
       "AdamW hides most of it, and is worse all the same");

// %% [markdown]
// AdamW divides each gradient by the size it used to have, so a factor of $10^{-5}$ on all of them nearly cancels: only
// where gradients fall to the size of its epsilon, $10^{-8}$, steps become shorter. The mistake is hidden, not harmless.
//
// ## Order matters: skipped steps and the schedule
//
// `scheduler.step()` after a skipped `optimizer.step()` counts a step that never was. A scale that starts too high skips
// the first steps, and these are the warmup:

// %%
Panel rates;
rates.x.label = "step";
rates.y.label = "learning rate / largest";
double first_rate[2] = {};
std::uint64_t skipped_first = 0;
for (const int calls : {0, 1}) {
  train::RunRequest request;
  request.recipe = train::require_recipe("fp16-amp");
  request.recipe.loss_scaler = "torch:init=2^40";
  request.steps = 80;
  request.schedule = {train::ScheduleKind::cosine, 20,
                      calls == 1 ? train::ScheduleCounts::calls : train::ScheduleCounts::steps};
  Series line = new_series(calls == 1 ? "counts calls" : "counts steps taken", Draw::steps,
                           calls == 1 ? PlotColour::vermilion : PlotColour::blue);
  const double full = train::settings_of(request.task).optimiser.learning_rate;
  for (const train::StepRow& row : train::run_training(request).rows) {
    add_point(line, static_cast<double>(row.step), row.learning_rate / full);
    if (!row.skipped && first_rate[calls] == 0) first_rate[calls] = row.learning_rate / full, skipped_first = row.step;
  }
  rates.series.push_back(line);
}
picture(new_plot(text("{} skipped steps eat a warmup of 20", skipped_first),
                 "Learning rate by step; the first step is taken where blue begins to rise", {rates}, 260));
say("The first step that is taken has **{:.0f}** % of the learning rate when calls are counted, {:.0f} % when steps "
    "are.", 100 * first_rate[1], 100 * first_rate[0]);
expect(first_rate[0] == 0.05 && first_rate[1] > 0.9, "the warmup is over before the first step is taken");

// %% [markdown]
// In PyTorch: compare `scaler.get_scale()` before and after `scaler.update()`, and call `scheduler.step()` only when it
// did not shrink. `narrow run order_matters -o out --fast` has both, and the sum over micro-batches;
// `narrow train --recipe fp16-amp --clip 1 --clip-order before-unscale` and `--schedule-counts calls` are the mistakes
// as options.
//
// `narrow scale-trace --policy torch,deepspeed --events log.csv` replays any log through any policy;
// `narrow list-scaling` names them all.
//
// ## Exercises
//
// 1. A run starts at $2^{24}$ and its gradients allow $2^{14}$. How many steps are skipped at the start?
// 2. How many good steps in a row does torch need from there to find out that $2^{15}$ is too large, and what does
//    finding out cost?
// 3. Give the little machine a floor of 1 and let it report when it has hit it three times in a row.

// %% [markdown] tags=["solution"]
// **1.** One per factor of two: ten.
//
// **2.** 2000 good steps, then one doubling, then one overflow: one skipped step in 2001, for ever.
//
// **3.** Below: two lines more, and the run would have ended with a message instead of in silence.

// %% tags=["solution"]
TorchScaler high;
high.init = 0x1p24;
TorchState s = initial(high);
int skipped = 0;
for (; scale(s) > 0x1p14f; ++skipped) s = next(high, s, {.found_inf = true, .amax = 0});
struct Careful : Mine {
  int at_floor = 0;
  bool is_lost(bool found_inf) {
    after_step(found_inf, 2000);
    at_floor = found_inf && scale < 1 ? at_floor + 1 : 0;
    scale = std::max(scale, 1.0f);
    return at_floor >= 3;
  }
};
Careful careful;
int noticed = 1;
while (!careful.is_lost(true)) ++noticed;
say("{} skipped steps; the careful machine speaks up after {} overflows.", skipped, noticed);
expect(skipped == 10, "from 2^24 to 2^14 ten steps are skipped");
expect(noticed == 19, "16 halvings to 1, then three times at the floor");

// %% tags=["program"]
}

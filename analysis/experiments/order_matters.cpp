// What does it cost to clip before unscaling, to forget the mean over micro-batches, or to let skipped steps use up the
// schedule of the learning rate?
#include <algorithm>
#include <cmath>

#include "analysis/framework/experiment.hpp"
#include "analysis/framework/training_runs.hpp"

namespace analysis::of_order_matters {
namespace {

using namespace narrow;
using enum PlotColour;
using train::OptimiserKind;
using train::RunRequest;
using train::RunResult;
using train::StepRow;

// ---- Six ways, of which each second one is wrong, and two optimisers ----

struct Way {
  const char* what;
  const char* order;
  void (*set)(RunRequest&, const Parameters&);
};

void set_clip(RunRequest& r, const Parameters& p, train::ClipOrder order) {
  r.optimiser->clip = p.real("clip"), r.clip_order = order;
}
void set_parts(RunRequest& r, const Parameters& p, train::AccumulateAs how) {
  r.micro_batches = static_cast<std::size_t>(p.integer("parts")), r.accumulate = how;
}
void set_schedule(RunRequest& r, const Parameters& p, train::ScheduleCounts counts) {
  r.schedule = {train::ScheduleKind::cosine, static_cast<std::uint64_t>(p.integer("warmup")), counts};
  r.recipe.loss_scaler = train::checked_loss_scaler("torch:init=" + significant_text(p.real("first_scale"), 17));
}

using P = const Parameters&;
constexpr Way ways[] = {
    {"clip", "after unscaling", [](RunRequest& r, P p) { set_clip(r, p, train::ClipOrder::after_unscale); }},
    {"clip", "before unscaling", [](RunRequest& r, P p) { set_clip(r, p, train::ClipOrder::before_unscale); }},
    {"accumulate", "mean", [](RunRequest& r, P p) { set_parts(r, p, train::AccumulateAs::mean); }},
    {"accumulate", "sum", [](RunRequest& r, P p) { set_parts(r, p, train::AccumulateAs::sum); }},
    {"schedule", "counts steps taken", [](RunRequest& r, P p) { set_schedule(r, p, train::ScheduleCounts::steps); }},
    {"schedule", "counts all calls", [](RunRequest& r, P p) { set_schedule(r, p, train::ScheduleCounts::calls); }},
};
constexpr const char* optimiser_names[] = {"SGD", "AdamW"};

struct Tried {
  std::vector<RunResult> runs;  // one a seed
  LossSpread loss;
};

Tried try_way(const Way& way, bool adamw, const Parameters& p) {
  RunRequest request = request_of({.recipe = "fp16-amp", .steps = static_cast<std::uint64_t>(p.integer("steps"))});
  // The rate that `narrow train --optimiser sgd` takes.
  if (!adamw) request.optimiser->kind = OptimiserKind::sgd, request.optimiser->learning_rate = 0.05;
  way.set(request, p);
  Tried out;
  for (std::int64_t seed = 1; seed <= p.integer("seeds"); ++seed) {
    request.seed = static_cast<std::uint64_t>(seed);
    out.runs.push_back(run_training(request));
  }
  std::vector<const RunResult*> all;
  for (const RunResult& run : out.runs) all.push_back(&run);
  out.loss = spread_of(all);
  return out;
}

// Of the steps that were taken, of all seeds; NaN when there is none.
double median(const Tried& tried, double (*value)(const StepRow&)) {
  std::vector<double> values;
  for (const RunResult& run : tried.runs)
    for (const StepRow& row : run.rows)
      if (const double x = value(row); !row.skipped && !std::isnan(x)) values.push_back(x);
  if (values.empty()) return train::not_measured;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

const StepRow* first_taken(const RunResult& run) {
  for (const StepRow& row : run.rows)
    if (!row.skipped) return &row;
  return nullptr;
}

std::string loss_text(const Tried& t) {
  return t.loss.broke > 0 ? "Inf or NaN in " + std::to_string(t.loss.broke) + " of " + std::to_string(t.loss.runs) +
                                (t.loss.runs == 1 ? " run" : " runs")
                          : significant_text(t.loss.mean, 3);
}

Table orders_table(const Tried (&tried)[2][std::size(ways)]) {
  Table t{"orders",
          "The right order and the wrong one, with two optimisers",
          {text_column("optimiser"), text_column("what"), text_column("order"), real_column("final loss", "", 4),
           fixed_column("held out, right", "%", 1), real_column("norm held against the limit", "", 4),
           real_column("factor", "", 3), real_column("gradient norm", "", 4), real_column("update / parameters", "", 3),
           integer_column("skipped steps"), real_column("learning rate of the first step taken", "", 4)},
          {},
          "norms, factor and update / parameters: medians over the steps that were taken; gradient norm: unscaled and "
          "before clipping; skipped steps: of all seeds",
          {}};
  for (const std::size_t optimiser : {0u, 1u})
    for (std::size_t w = 0; w < std::size(ways); ++w) {
      const Tried& x = tried[optimiser][w];
      double right = 0;
      std::size_t measured = 0;
      std::int64_t skipped = 0;
      for (const RunResult& run : x.runs) {
        if (run.held_out_accuracy) right += 100 * *run.held_out_accuracy, ++measured;
        skipped += static_cast<std::int64_t>(run.skipped);
      }
      const StepRow* first = first_taken(x.runs.front());
      t.add({std::string(optimiser_names[optimiser]), std::string(ways[w].what), std::string(ways[w].order),
             x.loss.mean, measured == 0 ? Cell{} : Cell{right / static_cast<double>(measured)},
             median(x, [](const StepRow& r) { return r.clipped_norm; }),
             median(x, [](const StepRow& r) { return r.clip_factor; }),
             median(x, [](const StepRow& r) { return r.gradient_norm; }),
             median(x, [](const StepRow& r) { return r.update_ratio; }), skipped,
             first == nullptr ? Cell{} : Cell{first->learning_rate}});
    }
  return t;
}

Table steps_table(const RunResult& steps, const RunResult& calls) {
  Table t{"learning_rates",
          "Learning rate of each step when the schedule counts the steps taken, and when it counts all calls (AdamW)",
          {integer_column("step"), power_column("loss scale"), text_column("steps taken: skipped"),
           real_column("steps taken: learning rate", "", 4), text_column("all calls: skipped"),
           real_column("all calls: learning rate", "", 4)},
          {},
          "seed 1; loss scale: of the first of the two",
          {}};
  const auto word = [](const StepRow& r) { return std::string(r.skipped ? "yes" : "no"); };
  for (std::size_t i = 0; i < std::min(steps.rows.size(), calls.rows.size()); ++i) {
    const StepRow &a = steps.rows[i], &b = calls.rows[i];
    t.add({static_cast<std::int64_t>(i), static_cast<double>(a.scale), word(a), a.learning_rate, word(b),
           b.learning_rate});
  }
  return t;
}

Panel loss_panel(const std::string& title, const Tried (&tried)[2][std::size(ways)], std::size_t way) {
  Panel p;
  p.title = title;
  p.x = {"step", "", AxisScale::linear, {}, {}, {}, {}};
  const std::size_t window = std::min<std::size_t>(10, tried[0][way].runs[0].steps);
  p.y = {"loss, mean of " + std::to_string(window) + " steps", "", AxisScale::log10, {}, {}, {}, {}};
  for (const std::size_t optimiser : {0u, 1u})
    for (const std::size_t wrong : {0u, 1u}) {
      const Curve c = loss_curve(tried[optimiser][way + wrong].runs.front(), window);
      p.series.push_back({std::string(optimiser_names[optimiser]) + ", " + ways[way + wrong].order,
                          Draw::line,
                          c.x,
                          c.y,
                          {},
                          {},
                          {},
                          wrong == 0 ? blue : vermilion,
                          optimiser == 1});
    }
  return p;
}

Panel rate_panel(const RunResult& steps, const RunResult& calls) {
  Panel p;
  p.title = "learning rate of AdamW";
  p.x = {"step", "", AxisScale::linear, {}, {}, {}, {}};
  p.y = {"learning rate", "", AxisScale::linear, 0.0, {}, {}, {}};
  for (const RunResult* run : {&steps, &calls}) {
    const bool wrong = run == &calls;
    Series line{ways[wrong ? 5 : 4].order, Draw::line, {}, {}, {}, {}, {}, wrong ? vermilion : blue};
    Series skipped{wrong ? "" : "skipped", Draw::points, {}, {}, {}, {}, {}, grey};
    for (const StepRow& r : run->rows)
      for (Series* s : {&line, &skipped})
        if (s == &line || r.skipped) s->x.push_back(static_cast<double>(r.step)), s->y.push_back(r.learning_rate);
    p.series.push_back(line);
    if (!skipped.x.empty()) p.series.push_back(skipped);
  }
  return p;
}

Outcome run(const Parameters& parameters, Progress& progress) {
  train::check(train::Schedule{train::ScheduleKind::cosine,
                               static_cast<std::uint64_t>(parameters.integer("warmup")),
                               {},
                               static_cast<std::uint64_t>(parameters.integer("steps"))});
  const train::TaskSettings task = train::settings_of(train::Task::digits);
  train::check_batch(task.batch, 1, static_cast<std::size_t>(parameters.integer("parts")));
  Tried tried[2][std::size(ways)];
  for (const std::size_t optimiser : {0u, 1u})
    for (std::size_t w = 0; w < std::size(ways); ++w) {
      progress.at(static_cast<double>(optimiser * std::size(ways) + w) / (2 * std::size(ways)), ways[w].what);
      tried[optimiser][w] = try_way(ways[w], optimiser == 1, parameters);
    }
  const auto losses = [&](std::size_t way) {
    return "SGD ends at a loss of " + loss_text(tried[0][way + 1]) + " instead of " + loss_text(tried[0][way]) +
           ", AdamW at " + loss_text(tried[1][way + 1]) + " instead of " + loss_text(tried[1][way]);
  };
  const auto of_clip = [&](std::size_t way, double (*value)(const StepRow&)) {
    const double x = median(tried[0][way], value);
    return std::isnan(x) ? std::string("(no step taken)") : significant_text(x, 3);
  };
  const RunResult &steps = tried[1][4].runs.front(), &calls = tried[1][5].runs.front();
  const StepRow *right = first_taken(steps), *wrong = first_taken(calls);
  const auto norm = [](const StepRow& r) { return r.clipped_norm; };
  const auto factor = [](const StepRow& r) { return r.clip_factor; };

  Outcome out;
  out.data = "handwritten digits that come with narrow, trained here";
  out.tables = {orders_table(tried), steps_table(steps, calls)};
  out.plots = {{"orders",
                "Clipped before unscaling, SGD ends at " + loss_text(tried[0][1]) + " instead of " +
                    loss_text(tried[0][0]) + ", AdamW at " + loss_text(tried[1][1]) + " instead of " +
                    loss_text(tried[1][0]),
                "fp16-amp on digits, seed 1; blue: the right order, vermilion: the wrong one; dashed: AdamW",
                {loss_panel("clip", tried, 0), loss_panel("accumulate", tried, 2), rate_panel(steps, calls)},
                3,
                0,
                ""}};
  out.finding = "Clipped before unscaling, SGD holds a norm of " + of_clip(1, norm) + " against the limit instead of " +
                of_clip(0, norm) + " and multiplies gradients by " + of_clip(1, factor) + " instead of " +
                of_clip(0, factor) + " (medians): " + losses(0) + "; with " +
                std::to_string(parameters.integer("parts")) + " micro-batches summed instead of averaged " + losses(2) +
                "; ";
  out.finding += right == nullptr || wrong == nullptr
                     ? "every step was skipped, so that the schedule has nothing to show."
                     : "a schedule that counts " + std::to_string(wrong->step) +
                           (wrong->step == 1 ? " skipped call" : " skipped calls") + " at the start begins at " +
                           percent_text(wrong->learning_rate / task.optimiser.learning_rate) +
                           " of the learning rate instead of " +
                           percent_text(right->learning_rate / task.optimiser.learning_rate) + ": " + losses(4) + ".";
  out.notes = {
      "AdamW divides each gradient by the size that it used to have: a factor that all steps share cancels, except "
      "against epsilon (1e-8), and what is left of the harm is that and the change of the factor from step to step.",
      "Weight decay is not clipped: where next to nothing is left of the gradients it is what moves the parameters of "
      "SGD."};
  return out;
}

const Register entered([]() -> Experiment {
  return {"order_matters",
          "What does the wrong order of clipping, averaging and scheduling cost in mixed precision?",
          14,
          {integer_parameter("steps", {60, 300, 1000}, 2, 1e6, "training steps on digits"),
           integer_parameter("seeds", {1, 3, 5}, 1, 100, "runs of each"),
           real_parameter("clip", 1, 1e-6, 1e6, "largest norm of the gradients"),
           integer_parameter("parts", 4, 2, 64, "micro-batches of a batch of 64"),
           integer_parameter("warmup", 20, 1, 1e6, "steps over which the learning rate rises"),
           real_parameter("first_scale", 0x1p40, 1, 0x1p120,
                          "loss scale at the start of the runs with a schedule: too large, so that steps are skipped")},
          run};
});

}  // namespace
}  // namespace analysis::of_order_matters

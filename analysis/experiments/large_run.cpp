// Which recipe trains a model of real size, what breaks first, and which of its gradients does FP16 lose?
#include <algorithm>
#include <cmath>
#include <map>

#include "analysis/experiments/large_findings.hpp"
#include "analysis/experiments/large_gradients.hpp"
#include "analysis/framework/experiment.hpp"
#include "analysis/recordings/gradients.hpp"

namespace analysis::of_large_run {
namespace {

using enum PlotColour;

constexpr const char* usual_reference = "bf16-amp";  // every gradient in it has FP32's range
constexpr int coarse_bits = 11;                      // FP16's: a loss that was computed and logged in FP32 has more

// ---- All runs

Cell cell_of(double x) { return std::isfinite(x) ? Cell{x} : Cell{}; }

Table runs_table(const std::vector<RecordedRun>& runs, const RecordedRun* reference) {
  Table t{
      "runs",
      "Runs of one model under different recipes",
      {text_column("run"), text_column("arithmetic"), integer_column("losses"), fixed_column("final loss", "", 3),
       fixed_column("above " + std::string(reference == nullptr ? "the reference" : reference->name), "", 3),
       fixed_column("held out", "", 3), integer_column("skipped steps"), integer_column("first Inf or NaN", "step"),
       fixed_column("tokens a second", "", 0), fixed_column("peak memory", "GiB", 1)},
      {},
      "losses: that were logged; final loss: mean of the last 20; above: against that of as many losses of that run; "
      "emulated: FP8 and FP4 rounded by narrow in place of a GPU's own products, so that its speed says nothing; no "
      "speed: the machine had other work",
      {}};
  for (const RecordedRun& r : runs) {
    const double above = reference == nullptr || reference->losses.size() < r.losses.size()
                             ? std::nan("")
                             : r.final_loss() - reference->final_loss(r.losses.size());
    const auto broke = r.first_not_finite();
    t.add({r.name, r.arithmetic.empty() ? Cell{} : Cell{r.arithmetic}, static_cast<std::int64_t>(r.losses.size()),
           cell_of(r.final_loss()), cell_of(above), cell_of(r.held_out_loss), r.scaler ? Cell{r.skipped()} : Cell{},
           broke ? Cell{*broke} : Cell{}, r.was_busy ? Cell{} : cell_of(r.tokens_per_second), cell_of(r.peak_gib)});
  }
  return t;
}

PlotColour colour_of(const RecordedRun& r) {
  for (const auto& [name, colour] : {std::pair{"fp32", grey},
                                     {"tf32", ink},
                                     {"bf16-amp", orange},
                                     {"fp16-amp", blue},
                                     {"fp16-amp-noscale", vermilion},
                                     {"fp8-current", green},
                                     {"nvfp4", purple},
                                     {"fp16-amp-2^4", sky},
                                     {"fp16-amp-2^30", yellow}})
    if (r.recipe == name) return colour;
  return automatic;
}

// Means of ten steps. Several seeds of a recipe are a band behind the first of them.
Plot losses_plot(const std::vector<RecordedRun>& runs, const RecordedRun& reference, const std::string& about) {
  constexpr std::size_t window = 10, most = 9;
  const auto curve = [](const RecordedRun& r, Series& s) {
    for (std::size_t i = 0; i + window <= r.losses.size(); i += window) {
      double sum = 0;
      for (std::size_t k = i; k < i + window; ++k) sum += r.losses[k].loss;
      s.x.push_back(static_cast<double>(r.losses[i + window - 1].step)), s.y.push_back(sum / window);
    }
  };
  std::vector<const RecordedRun*> shown;
  for (const RecordedRun& r : runs)
    if (r.is_usual() || &r == &reference) shown.push_back(&r);
  // The farthest from the best are what a picture shows; the others lie on one line.
  std::stable_sort(shown.begin(), shown.end(), [](const RecordedRun* a, const RecordedRun* b) {
    const bool known_a = colour_of(*a) != automatic, known_b = colour_of(*b) != automatic;
    const auto end = [](const RecordedRun& r) { return std::isnan(r.final_loss()) ? -HUGE_VAL : r.final_loss(); };
    return known_a != known_b ? known_a : end(*a) > end(*b);
  });
  if (shown.size() > most) shown.resize(most);
  Panel p;
  p.x = {"training step", "", AxisScale::linear, {}, {}, {}, {}};
  p.y = {"training loss, mean of 10 steps", "nats", AxisScale::linear, {}, {}, {}, {}};
  for (const RecordedRun* r : shown) {
    Series band{r->recipe + ", other seeds", Draw::band, {}, {}, {}, {}, {}, colour_of(*r)}, line{r->name, Draw::line};
    line.colour = colour_of(*r);
    curve(*r, line);
    for (const RecordedRun& other : runs) {
      if (other.recipe != r->recipe || other.seed == r->seed || other.has_other_rate || other.remedy != "none")
        continue;
      Series s;
      curve(other, s);
      if (s.y.empty()) continue;
      if (band.x.empty()) band.x = line.x, band.low = band.high = line.y;
      const std::size_t common = std::min(band.x.size(), s.y.size());
      for (std::vector<double>* v : {&band.x, &band.low, &band.high}) v->resize(common);
      for (std::size_t i = 0; i < common; ++i)
        band.low[i] = std::fmin(band.low[i], s.y[i]), band.high[i] = std::fmax(band.high[i], s.y[i]);
    }
    if (line.x.empty()) continue;
    if (!band.x.empty()) p.series.push_back(std::move(band));
    p.series.push_back(std::move(line));
  }
  const RecordedRun *worst = nullptr, *best = nullptr;
  std::size_t longest = 0;
  for (const RecordedRun* r : shown) longest = std::max(longest, r->losses.size());
  for (const RecordedRun* r : shown) {
    if (std::isnan(r->final_loss()) || r->losses.size() < longest) continue;
    if (worst == nullptr || r->final_loss() > worst->final_loss()) worst = r;
    if (best == nullptr || r->final_loss() < best->final_loss()) best = r;
  }
  std::string title = "Losses of " + std::to_string(shown.size()) + (shown.size() == 1 ? " recipe" : " recipes");
  if (worst != nullptr && worst != best)
    title = best->name + " " + best->end_text() + ", " + worst->name + " at " + fixed_text(worst->final_loss(), 2);
  Plot plot{"losses", title, about, {p}, 2, 0, ""};
  if (best == nullptr) return plot;
  // Those that end near the best, from the middle on: there they differ by less than a line is wide.
  Panel near = p;
  near.title = "from the middle on, those within 0.5 of the best";
  const double middle = static_cast<double>(best->losses[best->losses.size() / 2].step), top = best->final_loss() + 0.5;
  for (Series& s : near.series) {
    const bool ends_near = !s.y.empty() ? s.y.back() < top : !s.high.empty() && s.high.back() < top;
    const auto first = static_cast<std::ptrdiff_t>(std::lower_bound(s.x.begin(), s.x.end(), middle) - s.x.begin());
    for (std::vector<double>* v : {&s.x, &s.y, &s.low, &s.high})
      if (!ends_near) v->clear();
      else if (!v->empty()) v->erase(v->begin(), v->begin() + first);
  }
  std::erase_if(near.series, [](const Series& s) { return s.x.empty(); });
  if (near.series.size() > 1 && near.series.size() < p.series.size()) plot.panels.push_back(std::move(near));
  return plot;
}

// ---- What the scalers did, and what was lost under them

struct HeldPart {
  std::uint64_t zero = 0, count = 0;
  double predicted = 0;  // zeros

  void add(const WatchedTensor& t, double expected) { zero += t.zero.total(), count += t.count, predicted += expected; }
  double share() const { return static_cast<double>(zero) / static_cast<double>(count); }
  double predicted_share() const { return predicted / static_cast<double>(count); }
  double surplus() const { return static_cast<double>(zero) - predicted; }
};
struct Held : HeldPart {
  std::map<std::string, HeldPart> parts;  // of a layer
};

// Activation gradients that a run held in FP16, beside what the reference's, at the same step and in a wider type,
// would have become at this run's scale.
std::map<std::int64_t, Held> held_in_fp16(
    const RecordedRun& r, const std::map<std::pair<std::int64_t, std::string>, ExponentHistogram>& wide) {
  std::map<std::int64_t, Held> by_step;
  const WatchedRun run(r.folder);
  run.for_each_tensor([&](const WatchedTensor& t) {
    if (t.role != "activation_gradient" || t.dtype != "fp16" || t.finite() != t.count) return;
    const auto found = wide.find({t.step, t.series()});
    const int k = std::isnan(t.unscaled(1)) ? 0 : std::ilogb(t.scale);
    if (found == wide.end() || std::ldexp(1.0, k) != t.scale || found->second.count() != t.count || t.count == 0)
      return;
    const ExponentHistogram& h = found->second;
    double expected = static_cast<double>(h.zero.total());
    if (nonzero_count(h) > 0) expected += zero_at(h, k) * static_cast<double>(nonzero_count(h));
    by_step[t.step].add(t, expected), by_step[t.step].parts[part_of(t.name)].add(t, expected);
  });
  return by_step;
}

// Where a run has zeros that the last rounding does not explain; empty where it has next to none.
std::string surplus_note(const RecordedRun& r, const Held& held) {
  constexpr double agrees = 0.02, most_of_it = 0.9;
  if (held.surplus() < agrees * static_cast<double>(held.zero)) return "";
  const auto most = std::max_element(held.parts.begin(), held.parts.end(), [](const auto& a, const auto& b) {
    return a.second.surplus() < b.second.surplus();
  });
  std::string text = r.name + " recorded " + percent_text(held.share()) +
                     " zeros at step 0 where the binades predict " + percent_text(held.predicted_share()) +
                     ": rounding of the results does not explain the others, "
                     "which were lost on the way to them";
  const double share = most->second.surplus() / held.surplus();
  if (share < most_of_it) return text + ", in several parts.";
  HeldPart rest = held;
  rest.zero -= most->second.zero, rest.count -= most->second.count, rest.predicted -= most->second.predicted;
  return text + (share > 0.995 ? ", all" : ", " + percent_text(share, 2)) + " of them to " + most->first + " (" +
         percent_text(most->second.share()) + " for " + percent_text(most->second.predicted_share()) +
         (rest.count == 0
              ? ")."
              : "; elsewhere " + percent_text(rest.share()) + " for " + percent_text(rest.predicted_share()) + ").");
}

void scaler_parts(const std::vector<RecordedRun>& runs, const RecordedRun& reference, const Reference& read,
                  Outcome& out) {
  Table check{"check",
              "Zeros among the activation gradients that a run held in FP16, and what " + reference.name +
                  "'s binades predict at its loss scale",
              {text_column("run"), integer_column("step"), integer_column("values"),
               real_column("zeros recorded", "%", 3), real_column("zeros predicted", "%", 3)},
              {},
              "at step 0 all have the same weights (fp16-pure's are rounded to FP16); later each follows its own path",
              {}};
  Table parts{"check_parts",
              "The same at step 0 by part of a layer",
              {text_column("run"), text_column("part"), integer_column("values"), real_column("zeros recorded", "%", 3),
               real_column("zeros predicted", "%", 3), integer_column("more than predicted")},
              {},
              "",
              {}};
  Panel scales, lost, both;
  scales.title = "loss scale", lost.title = "zeros recorded in FP16", both.title = "predicted and recorded, step 0";
  scales.x.label = lost.x.label = "training step";
  scales.y = {"loss scale", "", AxisScale::exponent_of_two, {}, {}, {}, {}};
  lost.y = {"zero", "% of the activation gradients", AxisScale::linear, 0.0, {}, {}, {}};
  both.y = {"zero", "% of the activation gradients", AxisScale::linear, 0.0, {}, {}, {}};
  Series predicted{"predicted", Draw::bars, {}, {}, {}, {}, {}, grey},
      recorded{"recorded", Draw::bars, {}, {}, {}, {}, {}, vermilion};
  const RecordedRun* most_lost = nullptr;
  double most_share = 0, farthest = 0;
  for (const RecordedRun& r : runs) {
    if (!r.is_usual()) continue;
    const bool may_hold = r.recipe.find("fp16") != std::string::npos;
    const auto held = may_hold ? held_in_fp16(r, read.wide) : std::map<std::int64_t, Held>{};
    if (r.scaler && !r.scaler->log.scale.empty()) {
      Series s{r.name, Draw::steps, {}, {}, {}, {}, {}, colour_of(r)};
      const GradientLog& log = r.scaler->log;
      for (std::size_t i = 0; i < log.scale.size(); ++i)
        if (i == 0 || i + 1 == log.scale.size() || log.scale[i] != log.scale[i - 1])
          s.x.push_back(static_cast<double>(log.steps[i])), s.y.push_back(std::log2(static_cast<double>(log.scale[i])));
      scales.series.push_back(std::move(s));
    }
    if (held.empty()) continue;
    Series s{r.name, Draw::line_points, {}, {}, {}, {}, {}, colour_of(r)};
    for (const auto& [step, h] : held) {
      s.x.push_back(static_cast<double>(step)), s.y.push_back(100 * h.share());
      check.add({r.name, step, static_cast<std::int64_t>(h.count), 100 * h.share(), 100 * h.predicted_share()});
    }
    lost.series.push_back(std::move(s));
    if (const Held& last = held.rbegin()->second; most_lost == nullptr || last.share() > most_share)
      most_lost = &r, most_share = last.share();
    if (const auto first = held.find(0); first != held.end()) {
      const auto place = static_cast<double>(both.x.categories.size());
      const double told = first->second.predicted_share();
      for (const auto& [part, p] : first->second.parts)
        parts.add({r.name, part, static_cast<std::int64_t>(p.count), 100 * p.share(), 100 * p.predicted_share(),
                   static_cast<std::int64_t>(p.surplus())});
      if (const std::string note = surplus_note(r, first->second); !note.empty()) out.notes.push_back(note);
      both.x.categories.push_back(r.name);
      predicted.x.push_back(place), predicted.y.push_back(100 * told);
      recorded.x.push_back(place), recorded.y.push_back(100 * first->second.share());
      farthest = std::max(farthest, std::fabs(told - first->second.share()));
    }
  }
  if (!check.rows.empty()) out.tables.push_back(std::move(check));
  if (!parts.rows.empty()) out.tables.push_back(std::move(parts));
  Plot scaler{"scales", "", "the loss scale of each run, and the zeros among its FP16 gradients", {}, 2, 0, ""};
  if (!scales.series.empty()) scaler.panels.push_back(std::move(scales));
  if (!lost.series.empty()) scaler.panels.push_back(std::move(lost));
  if (!scaler.panels.empty()) {
    scaler.title = most_lost == nullptr
                       ? "Loss scales of " + std::to_string(scaler.panels[0].series.size()) + " runs"
                       : most_lost->name + " has the most zeros at its last such step: " + percent_text(most_share) +
                             " of the activation gradients";
    out.plots.push_back(std::move(scaler));
  }
  if (both.x.categories.empty()) return;
  both.series = {predicted, recorded};
  out.plots.push_back({"predicted",
                       "Binades of " + reference.name + " predict the zeros of FP16 runs at step 0 to within " +
                           percent_text(farthest) + " of the gradients",
                       "activation gradients that autocast holds in FP16, on the GPU",
                       {both},
                       1,
                       0,
                       ""});
}

// ---- Attention scores: of this run, and of those in which they were made to grow, or kept from it

void score_parts(const std::vector<RecordedRun>& runs, const RecordedRun& reference, const Reference& read,
                 Outcome& out) {
  Panel p;
  p.x.label = "training step";
  p.y = {"largest attention score", "", AxisScale::exponent_of_two, {}, {}, {}, {}};
  Table t{"scores",
          "The largest attention score of each watched step",
          {text_column("run"), integer_column("step"), real_column("largest score", "", 3)},
          {},
          "as softmax takes them, before the mask; of one head and one row of every layer; Inf and NaN are left out",
          {}};
  const RecordedRun* highest = nullptr;
  double most = 0;
  bool is_bounded = false;
  std::vector<std::string> broke;
  const auto add = [&](const RecordedRun& r, const Scores& scores) {
    if (scores.broke_at >= 0) broke.push_back(r.name + " from step " + std::to_string(scores.broke_at) + " on");
    Series line{r.name, Draw::line_points, {}, {}, {}, {}, {}, automatic};
    for (const auto& [step, score] : scores.largest) {
      line.x.push_back(static_cast<double>(step)), line.y.push_back(std::log2(score));
      t.add({r.name, step, score});
      if (score > most) most = score, highest = &r, is_bounded = scores.is_bounded;
    }
    if (!line.x.empty()) p.series.push_back(std::move(line));
  };
  add(reference, read.scores);
  for (const RecordedRun& r : runs)
    if (&r != &reference && (r.remedy != "none" || r.has_other_rate)) add(r, read.grown.at(r.folder));
  if (highest == nullptr) return;
  p.marks = {{Along::y, 16.0, "FP16 ends", grey}};
  out.tables.push_back(std::move(t));
  const bool over = most >= fp16_overflows_from;
  std::string title = "The largest " + std::string(broke.empty() ? "" : "finite ") + "attention score is " +
                      (is_bounded ? "below " : "") + significant_text(most, 3) + ", in " + highest->name + ": " +
                      (over && is_bounded ? "it may be beyond FP16"
                       : over             ? "beyond FP16"
                              : significant_text(fp16_overflows_from / most, 2) + " times below FP16's limit");
  if (!broke.empty()) title += "; there are Inf or NaN in " + list_of(broke);
  out.plots.push_back({"scores", title, "one head and one row of every layer", {p}, 1, 0, ""});
}

// ---- The sentence

// What FP16 makes of the gradients of the last step.
std::string gradients_text(const GradientsByStep& g) {
  const Pool& last = g.last();
  const double zero = zero_at(last.h, 0);
  const Worst worst = worst_layer(g);
  const int limit = largest_scale_log2(last.amax);
  const std::string which =
      "of the gradients of step " + std::to_string(g.last_step()) + (g.in_fp16 ? " that FP16 had left" : "");
  std::string text = "at loss scale 1 FP16 turns ";
  if (zero == 0) text += "none " + which + " into zero";
  else
    text +=
        percent_text(zero) + " " + which + " into zero, most in " + worst.name + " (" + percent_text(worst.zero) + ")";
  if (last.least_amax >= fp16_overflows_from)
    text += ", and the largest, " + significant_text(last.amax, 3) + ", overflows";
  if (zero > 0 || last.least_amax >= fp16_overflows_from)
    text += ", at 2^" + std::to_string(limit) + ", the largest " + without_overflow(g.is_bounded) + ", " +
            percent_text(zero_at(last.h, limit)) + " are zero";
  if (last.h.nan.total() + last.h.inf.total() > 0) text += "; NaN and Inf among them are left out";
  if (g.broke_at >= 0)
    text += "; from the watched step " + std::to_string(g.broke_at) + " on no gradient is finite and not zero";
  return text;
}

std::string finding_of(const std::vector<RecordedRun>& runs, const RecordedRun* reference, const GradientsByStep& g) {
  std::string text;
  const RecordedRun *bare = find_run(runs, "fp16-amp-noscale"), *scaled = find_run(runs, "fp16-amp");
  const auto is_named = [&](const RecordedRun& r) { return &r == bare || &r == scaled || &r == reference; };
  if (bare != nullptr && scaled != nullptr)
    text =
        "FP16 autocast without a loss scale " + bare->end_text() + ", with PyTorch's scaler from 2^16 it " +
        scaled->end_text() +
        (reference == bare || reference == scaled ? "" : " (" + reference->name + " " + reference->end_text() + ")") +
        "; ";
  text += gradients_text(g);
  if (bare == nullptr || scaled == nullptr) text[0] = 'A';
  std::vector<std::string> broke;
  const RecordedRun* worst = nullptr;
  for (const RecordedRun& r : runs) {
    if (const auto step = r.first_not_finite()) broke.push_back(r.name + " (step " + std::to_string(*step) + ")");
    else if (r.is_usual() && !is_named(r) && reference != nullptr && std::isfinite(r.final_loss()) &&
             r.losses.size() == reference->losses.size() && (worst == nullptr || r.final_loss() > worst->final_loss()))
      worst = &r;
  }
  if (!broke.empty()) text += "; the loss becomes Inf or NaN in " + list_of(broke);
  if (worst != nullptr)
    text += "; of the runs not named yet " + worst->name + " ends highest, at " + fixed_text(worst->final_loss(), 2);
  return text + ".";
}

Outcome run(const Parameters& parameters, Progress& progress) {
  Outcome out;
  const std::string& folder = parameters.text("run");
  // A run of the user's stands alone; what else is recorded is then not even read.
  const bool is_own = !folder.empty() && !is_recorded(folder);
  const std::vector<RecordedRun> runs = is_own ? std::vector{recorded_run(folder)} : recorded_runs();
  if (runs.empty()) (void)find_data("gpt/runs/bf16-amp/run.json");  // says where it looked
  const RecordedRun* reference = find_run(runs, folder.empty() ? usual_reference : file_text(folder));
  if (reference == nullptr && !runs.empty()) reference = &runs[0];
  progress.at(0.2);
  Reference read = reference == nullptr ? made_reference() : read_reference(reference->folder);
  for (const RecordedRun& r : runs)
    if (r.remedy != "none" || r.has_other_rate) read.grown[r.folder] = scores_in(r.folder);
  const GradientsByStep& g = read.gradients;
  if (g.steps.empty())
    throw Error((reference == nullptr ? "the run" : reference->name) + ": no gradient is finite and not zero");
  progress.at(0.5);
  std::string about = "made gradients";
  if (reference == nullptr) {
    out.data = made_text;
    out.notes.push_back(no_recordings_note("these are two layers of made gradients"));
  } else {
    about = reference->name +
            (reference->parameters > 0 ? ", " + count_text(reference->parameters) + " parameters" : "") +
            (reference->tokens_per_step > 0 ? ", " + count_text(reference->tokens_per_step) + " tokens a step" : "");
    out.data = !is_own ? recorded_text("a GPT of " + count_text(reference->parameters) + " parameters, " +
                                       std::to_string(runs.size()) + " runs; gradients of " + reference->name)
                       : Source(file_text(folder));
    out.tables.push_back(runs_table(runs, reference));
    const auto has_losses =
        std::any_of(runs.begin(), runs.end(), [](const RecordedRun& r) { return r.losses.size() >= 10; });
    if (has_losses) out.plots.push_back(losses_plot(runs, *reference, about));
  }
  const Ranking ranking = rank(runs);
  comparison_parts(runs, ranking, out);
  gradient_parts(g, about, out);
  fp8_parts(read, about, out);
  fp8_check_parts(runs, out);
  if (reference != nullptr) zero_parts(runs, *reference, ranking, out);
  if (reference != nullptr) scaler_parts(runs, *reference, read, out);
  if (reference != nullptr) score_parts(runs, *reference, read, out);
  out.finding = finding_of(runs, reference, g);
  out.answers = answers_of(runs, reference, ranking, read);
  if (g.is_bounded) out.notes.push_back(bounded_note);
  if (g.in_fp16)
    out.notes.push_back(
        "Some gradients of this run were held in FP16: what it had lost by then is not among the shares.");
  out.notes.push_back(binades_note);
  for (const RecordedRun& r : runs)
    if (const int bits = r.loss_bits(); bits > 0 && bits <= coarse_bits)
      out.notes.push_back("No loss of " + r.name + " has more than " + std::to_string(bits) + " significant bit" +
                          (bits == 1 ? "" : "s") + ": smaller differences do not show.");
  if (runs.size() > 1)
    out.notes.push_back(ranking.seeds.is_known()
                            ? "What a seed changes is known of " + list_of(ranking.seeds.recipes) +
                                  (ranking.seeds.recipes.size() == 1
                                       ? " alone"
                                       : ", most of " + ranking.seeds.runs.front()->recipe + ", which is taken") +
                                  ", from " + std::to_string(ranking.seeds.runs.size()) +
                                  " seeds: a difference little larger may still be a seed's."
                            : "One seed a recipe: small differences of losses may be the seed's.");
  return out;
}

const Register entered([]() -> Experiment {
  return {"large_run",
          "At the size of a real model, which recipe trains, what breaks first, and where does FP16 hurt?",
          -1,
          {run_parameter()},
          run};
});

}  // namespace
}  // namespace analysis::of_large_run

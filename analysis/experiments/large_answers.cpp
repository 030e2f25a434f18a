// Answers to what a practitioner asks, in words, from the comparisons of large_findings.cpp.
#include <algorithm>
#include <cmath>

#include "analysis/experiments/large_findings.hpp"
#include "analysis/recordings/gradients.hpp"

namespace analysis::of_large_run {
namespace {

constexpr const char* nothing_to_compare = "There are no two runs to compare of which one ends in a number.";

std::string loss_text(double loss) { return std::isnan(loss) ? "NaN" : fixed_text(loss, 2); }
std::string loss_text(const RecordedRun& r) { return loss_text(r.final_loss()); }

std::string names_of(const std::vector<const RecordedRun*>& runs) {
  std::vector<std::string> names;
  for (const RecordedRun* r : runs) names.push_back(r->name);
  return list_of(names);
}

// A run that holds gradients in FP16 shows no more than what that has left.
std::string gradients_left(const GradientsByStep& g) {
  return g.in_fp16 ? "gradients that FP16 had left" : "gradients";
}

std::string speed_text(const RecordedRun& r) {
  return r.name + " (" + count_text(std::llround(r.tokens_per_second)) + " tokens a second)";
}

Answer which_recipe(const Ranking& ranking) {
  Answer a{"Which recipe?", ""};
  if (ranking.best == nullptr) return {a.question, nothing_to_compare};
  if (!ranking.seeds.is_known())
    return {a.question,
            ranking.best->name + " ends lowest (" + loss_text(*ranking.best) +
                "); whether the others are worse is not known, because no recipe was recorded at two seeds" +
                (ranking.worse.empty() ? "." : "; not " + names_of(ranking.worse) + ".")};
  // Speeds are those of the GPU's own arithmetic, on a machine with no other work.
  std::vector<const RecordedRun*> timed;
  for (const RecordedRun* r : ranking.good)
    if (r->arithmetic == "torch" && !r->was_busy && std::isfinite(r->tokens_per_second)) timed.push_back(r);
  std::stable_sort(timed.begin(), timed.end(), [](const RecordedRun* x, const RecordedRun* y) {
    return x->tokens_per_second > y->tokens_per_second;
  });
  if (!timed.empty()) {
    a.text = "The fastest that is not shown to end higher than the best: " + speed_text(*timed[0]);
    const double share = ranking.seeds.speed_share;
    std::vector<std::string> equal;
    for (std::size_t i = 1; i < timed.size() && std::isfinite(share); ++i)
      if (timed[i]->tokens_per_second * (1 + share) >= timed[0]->tokens_per_second)
        equal.push_back(speed_text(*timed[i]));
    if (!equal.empty())
      a.text += "; as fast within the " + percent_text(share, 2) + " by which " + seeds_text(ranking.seeds) +
                " differ: " + list_of(equal);
    a.text += ". ";
  }
  a.text += std::to_string(ranking.good.size()) + " recipes end as low as " + ranking.best->name +
            " or too near to tell: " + names_of(ranking.good) + ".";
  if (!ranking.worse.empty()) a.text += " Not " + names_of(ranking.worse) + ".";
  return a;
}

// What is no number first, then what ends highest.
Answer what_breaks(const Ranking& ranking) {
  const std::string question = "What breaks, and when?";
  if (ranking.best == nullptr) return {question, nothing_to_compare};
  std::vector<Break> breaks = breaks_of(ranking);
  std::stable_sort(breaks.begin(), breaks.end(), [](const Break& a, const Break& b) {
    return a.is_nan != b.is_nan ? a.is_nan : !a.is_nan && a.run->final_loss() > b.run->final_loss();
  });
  if (breaks.empty())
    return {question, ranking.seeds.is_known()
                          ? "Nothing: no run leaves " + ranking.best->name + " by more than seeds ever differ."
                          : "No loss becomes Inf or NaN; more takes a recipe at two seeds."};
  std::string text;
  bool some_leave = false;
  for (const Break& b : breaks) {
    text += (text.empty() ? "" : ", ") + b.run->name + " at step " + std::to_string(b.step) +
            (b.is_nan ? " (Inf or NaN)" : " (ends at " + loss_text(*b.run) + ")");
    some_leave = some_leave || !b.is_nan;
  }
  if (some_leave)
    text += "; a run leaves where its loss, as a mean of 10 steps, begins to stay above that of " + ranking.best->name +
            " by more than seeds ever differ";
  return {question, text + "."};
}

// The largest scale at which no watched step overflows, what is lost there, and what became of recorded scalers.
Answer which_scale(const std::vector<RecordedRun>& runs, const Reference& read) {
  int highest = 127;
  double lost = -1;
  std::int64_t worst_step = 0;
  for (const auto& [step, pool] : read.gradients.steps)
    if (nonzero_count(pool.h) > 0) highest = std::min(highest, largest_scale_log2(pool.amax));
  for (const auto& [step, pool] : read.gradients.steps)
    if (nonzero_count(pool.h) > 0 && zero_at(pool.h, highest) > lost)
      lost = zero_at(pool.h, highest), worst_step = step;
  std::string text = "2^" + std::to_string(highest) + " is the largest " + without_overflow(read.gradients.is_bounded) +
                     " at any watched step; there at most " + percent_text(lost) + " of the " +
                     gradients_left(read.gradients) + " are zero (step " + std::to_string(worst_step) + ")";
  std::vector<std::string> scalers;
  for (const RecordedRun& r : runs)
    if (r.is_usual() && r.scaler && !r.scaler->log.scale.empty()) {
      const std::vector<float>& scale = r.scaler->log.scale;
      const auto from = static_cast<double>(scale.front()), to = static_cast<double>(scale.back());
      scalers.push_back("from " + power_text(from) + (from == to ? "" : " to " + power_text(to)) + " it skipped " +
                        std::to_string(r.skipped()) + " of " + std::to_string(scale.size()) + " steps and " +
                        r.end_text());
    }
  if (!scalers.empty()) text += ". Recorded scalers: " + list_of(scalers);
  return {"Which loss scale for FP16?", text + "."};
}

Answer needs_scaling(const std::vector<RecordedRun>& runs, const Ranking& ranking, const GradientsByStep& g) {
  const std::string question = "Do I need loss scaling?";
  const RecordedRun *bare = find_run(runs, "fp16-amp-noscale"), *scaled = find_run(runs, "fp16-amp"),
                    *brain = find_run(runs, "bf16-amp");
  const double zero = zero_at(g.last().h, 0);
  const std::string lost =
      percent_text(zero) + " of the " + gradients_left(g) + " at step " + std::to_string(g.last_step());
  if (bare == nullptr || scaled == nullptr)
    return {question, "FP16 without a scale turns " + lost + " into zero; what that does to the loss takes two runs."};
  const Difference verdict = compare(*bare, *scaled, ranking.seeds).verdict;
  const std::string ends = "without a scale the run " + bare->end_text() + ", with a scaler it " + scaled->end_text();
  std::string text = verdict == Difference::above       ? "With FP16, yes: " + ends
                     : verdict == Difference::unknown   ? "With FP16, " + ends + " (one seed: no more can be said)"
                     : verdict == Difference::undecided ? "With FP16 it is not decided: " + ends
                                                        : "With FP16 it does not show here: " + ends;
  if (brain == nullptr || ranking.best == nullptr) return {question, text + "."};
  if (ranking.is_among(ranking.good, *brain))
    text += ". With BF16, no: " + brain->name + " has none and " + brain->end_text() +
            (brain == ranking.best
                 ? ", the lowest"
                 : ", not shown to be above the best, " + ranking.best->name + " (" + loss_text(*ranking.best) + ")");
  else if (ranking.is_among(ranking.worse, *brain))
    text += ". BF16, without one, " + brain->end_text() + ", above the best, " + ranking.best->name;
  return {question, text + "."};
}

// In the backward pass what becomes zero, in the forward pass what is near the end of the range.
Answer where_fp16_hurts(const Reference& read) {
  const GradientsByStep& g = read.gradients;
  std::vector<std::pair<double, std::string>> parts;
  for (const auto& [part, pool] : g.parts.at(g.last_step()))
    if (nonzero_count(pool.h) > 0) parts.emplace_back(zero_at(pool.h, 0), part);
  std::sort(parts.rbegin(), parts.rend());
  const std::string at = " at step " + std::to_string(g.last_step());
  std::string text = "Without a loss scale " + gradients_left(g) + " become zero" + at + ", by part of a layer: ";
  constexpr std::size_t few = 3;
  for (std::size_t i = 0; i < std::min(few, parts.size()); ++i)
    text += (i == 0 ? "" : ", ") + percent_text(parts[i].first) + " of " + parts[i].second;
  if (parts.size() > few) text += "; least, " + percent_text(parts.back().first) + ", of " + parts.back().second;
  if (parts.front().first == 0) text = "None of the " + gradients_left(g) + " becomes zero without a loss scale" + at;
  const WatchedTensor* largest = nullptr;
  bool is_finite = true;
  for (const WatchedTensor& t : read.last.tensors()) {
    if (t.role != "activation" && t.role != "score") continue;
    is_finite = is_finite && t.finite() == t.count;
    if (largest == nullptr || t.amax > largest->amax) largest = &t;
  }
  if (largest != nullptr && !is_finite)
    text += ". Forward there are Inf or NaN at step " + std::to_string(largest->step);
  else if (largest != nullptr && largest->amax > 0)
    text += ". Forward the largest value is " + std::string(largest->has_extremes ? "" : "below ") +
            significant_text(largest->amax, 3) + " (" + largest->name + ", step " + std::to_string(largest->step) +
            "), " +
            (largest->amax >= fp16_overflows_from
                 ? "beyond FP16's range"
                 : significant_text(fp16_overflows_from / largest->amax, 2) + " times below FP16's limit");
  return {"Where does FP16 hurt?", text + "."};
}

// What a scale a tensor cannot give back in FP8, by layer; what no recipe makes narrow is not known.
Answer which_layers(const std::vector<RecordedRun>& runs, const Ranking& ranking, const Reference& read) {
  const Worst plain = worst_layer(read.gradients);
  const Fp8Worst fp8 = worst_layer_in_fp8(read.last.tensors());
  std::string text = "In FP16 without a loss scale " +
                     (plain.zero > 0 ? plain.name + " loses most (" + percent_text(plain.zero) + ")"
                                     : "no layer loses any of the " + gradients_left(read.gradients));
  const int limit = std::clamp(largest_scale_log2(read.gradients.last().amax), 0, 127);
  double left = 0;
  std::string where;
  for (const auto& [layer, pool] : read.gradients.layers.at(read.gradients.last_step()))
    if (nonzero_count(pool.h) > 0 && zero_at(pool.h, limit) >= left) left = zero_at(pool.h, limit), where = layer;
  if (plain.zero > 0)
    text += ", at 2^" + std::to_string(limit) + (left > 0 ? " " + where + " (" + percent_text(left) + ")" : " none");
  if (!fp8.layer.empty())
    text += ". In FP8 with a scale a tensor " + fp8.layer + " loses most, " + percent_text(fp8.lost) + " of its " +
            fp8.kind;
  std::vector<std::string> costs, free, open;
  for (const auto& [keeper, word] :
       {std::pair{"softmax", "softmax"}, {"norm", "norms"}, {"residual", "the residual sum"}, {"logits", "logits"}}) {
    bool is_known = false;
    for (const char* base : {"fp8-current", "fp16-amp"}) {
      const RecordedRun *moved = find_run(runs, std::string(base) + "-" + keeper), *kept = find_run(runs, base);
      is_known = is_known || moved != nullptr;
      if (moved == nullptr || kept == nullptr) continue;
      const Difference verdict = compare(*moved, *kept, ranking.seeds).verdict;
      const std::size_t steps = std::min(moved->losses.size(), kept->losses.size());  // as compare
      (verdict == Difference::above ? costs : free)
          .push_back(moved->name + " (" + text_of(verdict) + ": " + loss_text(moved->final_loss(steps)) + " for " +
                     loss_text(kept->final_loss(steps)) + ")");
    }
    if (!is_known) open.emplace_back(word);
  }
  text += costs.empty() && free.empty()
              ? ". No recording makes softmax, norms, the residual sum or the logits narrow: whether they must stay "
                "wide is not known here."
              : ". Moved to the narrow format: " + list_of(costs.empty() ? free : costs) +
                    (costs.empty() || free.empty() ? "" : "; without harm that is shown: " + list_of(free)) +
                    (open.empty() ? "." : "; not recorded: " + list_of(open) + ".");
  return {"Which layers stay in higher precision?", text};
}

// Runs whose learning rate lets the scores grow, without a remedy and with each.
Answer what_tames_scores(const std::vector<RecordedRun>& runs, const Ranking& ranking, const Reference& read) {
  std::string text;
  for (const RecordedRun& wild : runs) {
    if (!wild.has_other_rate || wild.remedy != "none") continue;
    const auto largest = [&](const RecordedRun& r) {
      const Scores& scores = read.grown.at(r.folder);
      double most = 0;
      for (const auto& [step, score] : scores.largest) most = std::max(most, score);
      return (scores.broke_at >= 0 ? "become Inf or NaN at step " + std::to_string(scores.broke_at)
              : most == 0          ? "were not watched"
                          : std::string("reach ") + (scores.is_bounded ? "at most " : "") + significant_text(most, 3)) +
             " and the loss " + (std::isnan(r.final_loss()) ? "is NaN" : "ends at " + loss_text(r));
    };
    std::vector<std::string> remedies;
    for (const RecordedRun& r : runs)
      if (r.remedy != "none" && r.name == wild.name + "-" + r.remedy && r.losses.size() == wild.losses.size())
        remedies.push_back("with " + r.remedy + " they " + largest(r) + " (loss " +
                           text_of(compare(r, wild, ranking.seeds).verdict) + ")");
    if (remedies.empty()) continue;
    text += (text.empty() ? "" : " ") + std::string("In ") + wild.name + " scores " + largest(wild) + ", " +
            list_of(remedies) + ".";
  }
  return {"What keeps attention scores small?", text};
}

}  // namespace

std::vector<Answer> answers_of(const std::vector<RecordedRun>& runs, const RecordedRun* reference,
                               const Ranking& ranking, const Reference& read) {
  std::vector<Answer> answers = {needs_scaling(runs, ranking, read.gradients), where_fp16_hurts(read),
                                 which_scale(runs, read)};
  if (reference != nullptr) answers.push_back(which_recipe(ranking)), answers.push_back(what_breaks(ranking));
  answers.push_back(which_layers(runs, ranking, read));
  if (Answer scores = what_tames_scores(runs, ranking, read); !scores.text.empty()) answers.push_back(std::move(scores));
  return answers;
}

}  // namespace analysis::of_large_run

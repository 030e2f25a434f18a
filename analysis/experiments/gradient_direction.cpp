// Does the gradient that a recipe computes still point where the exact one points: cosine and signs, tensor by tensor,
// along a training run?
#include <algorithm>
#include <cmath>
#include <map>

#include "analysis/framework/experiment.hpp"
#include "analysis/framework/training_runs.hpp"
#include "narrow/scale/scaler_table.hpp"
#include "narrow/text/split.hpp"

namespace analysis::of_gradient_direction {
namespace {

using namespace narrow;
using enum PlotColour;
using train::Batch;
using train::Model;

// Two gradients of one tensor, or of all of them one after the other.
struct Compared {
  double dot = 0, exact_squares = 0, squares = 0;
  std::uint64_t signs = 0, flipped = 0, zeroed = 0;  // of the values whose exact gradient is not zero
  bool finite = true;

  void add(double exact, double x) {
    finite = finite && std::isfinite(x);
    dot += exact * x, exact_squares += exact * exact, squares += x * x;
    if (exact == 0) return;
    ++signs, zeroed += x == 0, flipped += exact < 0 ? x > 0 : x < 0;
  }
  void add(const Compared& c) {
    dot += c.dot, exact_squares += c.exact_squares, squares += c.squares, finite = finite && c.finite;
    signs += c.signs, flipped += c.flipped, zeroed += c.zeroed;
  }
  bool has_exact() const { return exact_squares > 0 && std::isfinite(exact_squares); }
  // NaN where one of the two is zero or not finite: there is no direction. Roots first: squares may be tiny.
  double cosine() const {
    if (!has_exact() || !finite || !(squares > 0)) return train::not_measured;
    return std::clamp(dot / std::sqrt(exact_squares) / std::sqrt(squares), -1.0, 1.0);
  }
};

// One recipe beside the run: a model of its own, whose parameters are put in before each step, and its loss scaler.
struct Follower {
  std::string name;
  std::unique_ptr<Model<float>> model;
  std::unique_ptr<Scaler> scaler;
  std::vector<std::vector<Compared>> seen;  // measured step, tensor

  void follow(const std::vector<train::Parameter<float>*>& leader, const Batch& batch, std::uint64_t seed,
              std::uint64_t step, const std::vector<train::Parameter<double>*>* exact) {
    const std::vector<train::Parameter<float>*> mine = model->parameters();
    for (std::size_t k = 0; k < mine.size(); ++k) mine[k]->value.data = leader[k]->value.data;
    model->set_step(seed, step);
    model->forward(batch);
    model->backward(scaler->scale());
    model->end_step();
    scaler->observe({train::unscale(mine, scaler->scale())});
    if (exact == nullptr) return;
    std::vector<Compared>& all = seen.emplace_back(mine.size());
    for (std::size_t k = 0; k < mine.size(); ++k)
      for (std::size_t i = 0; i < mine[k]->gradient.size(); ++i)
        all[k].add((*exact)[k]->gradient.data[i], static_cast<double>(mine[k]->gradient.data[i]));
  }
  Compared whole(std::size_t measured) const {
    Compared sum;
    for (const Compared& c : seen[measured]) sum.add(c);
    return sum;
  }
};

// Gradients that vanish by algebra, like that of the bias of keys, which moves all scores of a row alike and softmax
// does not see, are left with what rounding in double makes of them, some 2^-52 of the terms that cancel: noise, whose
// direction says nothing. Far below what any recipe resolves, they are taken as the zeros they are.
constexpr double noise = 0x1p-40;  // of the norm of all gradients together

void zero_noise(const std::vector<train::Parameter<double>*>& exact) {
  const auto squares = [](const train::Parameter<double>& p) {
    double sum = 0;
    for (const double g : p.gradient.data) sum += g * g;
    return sum;
  };
  double all = 0;
  for (const train::Parameter<double>* p : exact) all += squares(*p);
  for (train::Parameter<double>* p : exact)
    if (squares(*p) < noise * noise * all) std::fill(p->gradient.data.begin(), p->gradient.data.end(), 0.0);
}

// "blocks.1.mlp.up.weight" and "layers.1.bias" are of layer 1.
Cell layer_of(const std::string& name) {
  const std::size_t dot = name.find('.');
  const std::size_t digits = dot == std::string::npos ? name.size() : dot + 1;
  if (digits >= name.size() || name[digits] < '0' || name[digits] > '9') return {};
  return static_cast<std::int64_t>(std::stoll(name.substr(digits)));
}

double degrees(double cosine) { return std::acos(cosine) * 57.29577951308232; }
std::string cosine_text(double c) { return std::isnan(c) ? "undefined" : significant_text(c, c > 0.99 ? 6 : 3); }

struct Worst {
  const Follower* recipe = nullptr;
  std::size_t measured = 0, tensor = 0;
  double cosine = train::not_measured;
};

// The smallest cosine of a tensor: what has no direction takes no part.
Worst worst_of(const Follower& f) {
  Worst w;
  for (std::size_t m = 0; m < f.seen.size(); ++m)
    for (std::size_t k = 0; k < f.seen[m].size(); ++k)
      if (const double c = f.seen[m][k].cosine(); !std::isnan(c) && !(c >= w.cosine)) w = {&f, m, k, c};
  return w;
}

Outcome run(const Parameters& parameters, Progress& progress) {
  RunPlan plan = parameters.text("task") == "lm" ? small_lm("fp32", 1, 0) : RunPlan{};
  train::RunRequest request = request_of(plan);
  request.seed = static_cast<std::uint64_t>(parameters.integer("seed"));
  request.steps = static_cast<std::uint64_t>(parameters.integer("steps"));
  const auto every = static_cast<std::uint64_t>(parameters.integer("every"));
  train::Trainer leader(request);
  // The exact gradient: the same model in double, nothing rounded to a format.
  const std::unique_ptr<Model<double>> exact =
      train::make_model<double>(*leader.request().shape, train::Policy{}, request.seed);
  std::vector<Follower> followers;
  for (const std::string& name : narrow::words_of<std::string>(parameters.text("recipes"), "+")) {
    const train::Recipe recipe = train::require_recipe(name);
    followers.push_back({recipe.name,
                         train::make_model<float>(*leader.request().shape, recipe.policy, request.seed),
                         make_scaler(recipe.loss_scaler).scaler,
                         {}});
  }
  if (followers.empty()) throw Error("recipes= names none; `narrow train --list-recipes` has them");

  std::vector<std::uint64_t> measured;
  while (!leader.finished()) {
    const std::uint64_t step = leader.rows().size();
    progress.at(static_cast<double>(step) / static_cast<double>(*request.steps), "fp32");
    leader.step([&](Model<float>& model, Batch& batch) {
      const bool is_measured = step % every == 0;
      const std::vector<train::Parameter<float>*> now = model.parameters();
      const std::vector<train::Parameter<double>*> wide = exact->parameters();
      if (is_measured) {
        measured.push_back(step);
        for (std::size_t k = 0; k < now.size(); ++k)
          wide[k]->value.data.assign(now[k]->value.data.begin(), now[k]->value.data.end());
        exact->forward(batch);
        exact->backward(1);
        zero_noise(wide);
      }
      for (Follower& f : followers) f.follow(now, batch, request.seed, step, is_measured ? &wide : nullptr);
    });
  }

  std::vector<std::string> names;
  for (const train::Parameter<float>* p : leader.model().parameters()) names.push_back(p->name);
  Table recipes{
      "recipes",
      "Direction of each recipe's gradient against the exact one",
      {text_column("recipe"), real_column("cosine, all tensors, mean", "", 6), real_column("angle, mean", "degrees", 3),
       real_column("worst cosine of a tensor", "", 6), text_column("tensor"), integer_column("step"),
       real_column("signs flipped there", "%", 3), integer_column("directions lost"), integer_column("exact is zero")},
      {},
      "exact: the same model in double at the same parameters and batch; the parameters follow the FP32 run; "
      "directions lost: pairs of tensor and step where the recipe's gradient is zero, Inf or NaN, which no "
      "mean and no worst counts",
      {}};
  Table tensors{
      "tensors",
      "Cosine between the gradient of a recipe and the exact one, by tensor and step",
      {text_column("recipe"), text_column("tensor"), integer_column("layer"), integer_column("step"),
       real_column("cosine", "", 6), real_column("signs flipped", "%", 3), real_column("became zero", "%", 3)},
      {},
      "of the values whose exact gradient is not zero; a dash where a gradient is zero, Inf or NaN",
      {}};
  Panel whole, worst;
  whole.title = "all tensors together";
  whole.x = {"step", "", AxisScale::linear, {}, {}, {}, {}};
  whole.y = {"angle to the exact gradient", "degrees", AxisScale::log10, {}, {}, {}, {}};
  worst = whole;
  worst.title = "the worst tensor of each step";
  const std::map<std::string, PlotColour> colours = {{"fp32", ink},          {"bf16-amp", orange},
                                                     {"fp16-amp", blue},     {"fp16-amp-noscale", sky},
                                                     {"fp8-current", green}, {"fp8-noscale", vermilion}};
  Worst all;
  std::size_t all_lost = 0, all_zero = 0, pairs = 0;
  std::string broken;
  for (const Follower& f : followers) {
    const auto found = colours.find(f.name);
    const PlotColour colour = found == colours.end() ? automatic : found->second;
    Series together{f.name, Draw::line_points, {}, {}, {}, {}, {}, colour}, least = together;
    double cosines = 0, angles = 0;
    std::size_t with = 0, lost = 0, zero = 0;
    for (std::size_t m = 0; m < measured.size(); ++m) {
      const double c = f.whole(m).cosine();
      if (!std::isnan(c)) cosines += c, angles += degrees(c), ++with;
      double low = train::not_measured;
      for (std::size_t k = 0; k < names.size(); ++k) {
        const Compared& one = f.seen[m][k];
        const double cosine = one.cosine(),
                     share = one.signs == 0 ? train::not_measured : 100.0 / static_cast<double>(one.signs);
        tensors.add({f.name, names[k], layer_of(names[k]), static_cast<std::int64_t>(measured[m]), cosine,
                     one.finite ? share * static_cast<double>(one.flipped) : train::not_measured,
                     one.finite ? share * static_cast<double>(one.zeroed) : train::not_measured});
        low = std::fmin(low, cosine);
        zero += !one.has_exact(), lost += one.has_exact() && std::isnan(cosine), ++pairs;
      }
      for (const auto& [series, value] : {std::pair{&together, c}, {&least, low}})
        series->x.push_back(static_cast<double>(measured[m])), series->y.push_back(degrees(value));
    }
    const Worst w = worst_of(f);
    if (w.recipe != nullptr && !(w.cosine >= all.cosine)) all = w;
    if (lost > 0) broken += (broken.empty() ? "" : ", ") + f.name;
    all_lost += lost, all_zero += zero;
    const double mean = static_cast<double>(with);
    recipes.add({f.name, with == 0 ? Cell{} : Cell{cosines / mean}, with == 0 ? Cell{} : Cell{angles / mean}, w.cosine,
                 w.recipe == nullptr ? Cell{} : Cell{names[w.tensor]},
                 w.recipe == nullptr ? Cell{} : Cell{static_cast<std::int64_t>(measured[w.measured])},
                 w.recipe == nullptr ? Cell{}
                                     : Cell{100.0 * static_cast<double>(f.seen[w.measured][w.tensor].flipped) /
                                            static_cast<double>(f.seen[w.measured][w.tensor].signs)},
                 static_cast<std::int64_t>(lost), static_cast<std::int64_t>(zero)});
    whole.series.push_back(together), worst.series.push_back(least);
  }

  Outcome out;
  out.data = parameters.text("task") + std::string(", trained here in FP32");
  out.tables = {recipes, tensors};
  std::string where = "no gradient has a direction";
  if (all.recipe != nullptr) {
    const Compared& c = all.recipe->seen[all.measured][all.tensor];
    where = "the gradient of " + names[all.tensor] + " under " + all.recipe->name + " at step " +
            std::to_string(measured[all.measured]) + ": cosine " + cosine_text(all.cosine) + " (" +
            significant_text(degrees(all.cosine), 3) + " degrees), " +
            percent_text(static_cast<double>(c.flipped) / static_cast<double>(c.signs)) + " of the signs flipped";
    where = "farthest from the exact direction is " + where;
  }
  out.finding = "Of " + std::to_string(followers.size()) + (followers.size() == 1 ? " recipe " : " recipes ") + where +
                (all_lost == 0 ? "; none lost its direction"
                               : "; " + std::to_string(all_lost) + " of " + std::to_string(pairs - all_zero) +
                                     " gradients lost their direction: zero, Inf or NaN (" + broken + ")") +
                (all_zero == 0 ? "."
                               : "; " + std::to_string(all_zero) + (all_zero == 1 ? " more is" : " more are") +
                                     " zero in exact arithmetic.");
  out.plots = {{"angles",
                all.recipe == nullptr ? "No gradient has a direction"
                                      : "The worst: cosine " + cosine_text(all.cosine) + ", " + names[all.tensor] +
                                            " under " + all.recipe->name,
                out.data.text + "; gradients at the parameters of the FP32 run",
                {whole, worst},
                2,
                0,
                ""}};
  out.notes = {
      "The parameters are those of the FP32 run at every step, so that angles do not add up: a run of the "
      "recipe itself would go elsewhere. Loss scalers and the memory of delayed scaling see every step.",
      "An exact gradient below 2^-40 of all of them together counts as zero: it is what rounding in double "
      "leaves of one that cancels (as that of the bias of keys, which softmax does not see)."};
  return out;
}

const Register entered([]() -> Experiment {
  return {"gradient_direction",
          "Does the gradient of a recipe still point where the exact gradient points?",
          15,
          {choice_parameter("task", {"digits", "lm"}, "what is learned; lm: the small language model"),
           text_parameter("recipes", "fp32+bf16-amp+fp16-amp+fp16-amp-noscale+fp8-current+fp8-delayed+fp8-noscale",
                          "recipes of `narrow train --list-recipes` with + between"),
           integer_parameter("steps", {41, 201, 601}, 1, 1e6, "training steps in FP32"),
           integer_parameter("every", {10, 20, 50}, 1, 1e6, "steps between two measurements"),
           integer_parameter("seed", 1, 0, 1e15, "seed of the parameters and the batches")},
          run};
});

}  // namespace
}  // namespace analysis::of_gradient_direction

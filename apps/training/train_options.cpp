#include "training/train_options.hpp"

#include <cmath>
#include <set>

#include "cli/crew.hpp"
#include "narrow/cluster/wire.hpp"
#include "narrow/scale/scaler_table.hpp"
#include "narrow/text/exact_number.hpp"
#include "narrow/text/split.hpp"
#include "narrow/text/text.hpp"
#include "narrow/train/policy/framework_config.hpp"
#include "options/number_option.hpp"

namespace app {
namespace {

namespace train = narrow::train;

// The recipes that are compared when none is named: what works, what needs care, what breaks.
constexpr const char* default_recipes = "fp32,bf16-amp,fp16-amp,fp16-amp-noscale,fp16-pure,fp8-current";

// A finite number above 0, or 0 itself where that is allowed.
double parse_number(const std::string& text, const char* flag, bool may_be_zero = false) {
  const double x = blame(flag, [&] { return narrow::parse_scale_number(text); });
  if (std::isfinite(x) && (x > 0 || (may_be_zero && x == 0))) return x;
  throw narrow::Error(std::string(flag) + ": " + narrow::quote(text) + " is no finite number " +
                      (may_be_zero ? "of at least 0" : "above 0"));
}

std::vector<std::string> split(const std::string& list, const char* flag) {
  std::vector<std::string> words = narrow::parts_of<std::string>(list, ",");
  std::set<std::string> seen;
  for (const std::string& word : words) {
    if (word.empty()) throw narrow::Error(std::string(flag) + ": an empty word in " + narrow::quote(list));
    if (!seen.insert(word).second)
      throw narrow::Error(std::string(flag) + ": " + narrow::quote(word) + " is named twice");
  }
  return words;
}

// What their files set beside the precision. It holds for all runs, so that they differ in the recipe only.
train::RunSettings settings_of_all(const std::vector<train::Recipe>& recipes) {
  const train::Recipe* first = nullptr;
  for (const train::Recipe& r : recipes) {
    if (r.run.text.empty()) continue;
    if (first == nullptr) first = &r;
    if (r.run.text != first->run.text)
      throw narrow::Error("--recipe: " + first->name + " and " + r.name +
                          " set different things beside the precision (" + first->run.text + "; " + r.run.text +
                          "); compare them in two commands");
  }
  return first == nullptr ? train::RunSettings{} : first->run;
}

// The task's optimiser with what the files set.
train::OptimiserSettings with_settings(train::OptimiserSettings own, const train::RunSettings& run) {
  train::OptimiserSettings settings = run.optimiser.value_or(own);
  settings.learning_rate = run.learning_rate.value_or(own.learning_rate);
  settings.clip = run.clip.value_or(own.clip);
  return settings;
}

// A size of the model, where it is given; only models that have it.
void set_size(const std::optional<std::string>& text, const char* flag, std::size_t most, bool applies,
              std::size_t& size) {
  if (!text) return;
  if (!applies) throw narrow::Error(std::string(flag) + ": the model of this task has no such size");
  size = parse_count(*text, flag, 1, most);
}

bool has_blocks(const train::ModelShape& shape) {
  return shape.kind == train::ModelKind::transformer || shape.kind == train::ModelKind::vision;
}

// What keeps attention scores small, and the norm of the blocks.
void choose_attention(const TrainOptions& o, train::ModelShape& shape) {
  const char* flag = o.qk_norm ? "--qk-norm" : o.soft_cap ? "--soft-cap" : o.rms_norm ? "--rms-norm" : nullptr;
  if (flag == nullptr) return;
  if (!has_blocks(shape))
    throw narrow::Error(std::string(flag) +
                        ": the model of this task has no attention and no LayerNorm; lm and fashion-vit have");
  shape.qk_norm = o.qk_norm;
  shape.rms_norm = o.rms_norm;
  if (o.soft_cap) shape.soft_cap = parse_number(*o.soft_cap, "--soft-cap");
}

train::ModelShape choose_shape(const TrainOptions& o, train::ModelShape shape) {
  const bool has_layers = has_blocks(shape), has_context = shape.kind == train::ModelKind::transformer;
  set_size(o.layers, "--layers", 64, has_layers, shape.layers);
  set_size(o.width, "--width", 4096, has_layers, shape.width);
  set_size(o.heads, "--heads", 256, has_layers, shape.heads);
  set_size(o.context, "--context", 4096, has_context, shape.context);
  choose_attention(o, shape);
  if (o.hidden) {
    if (has_layers) throw narrow::Error("--hidden: the model of this task has no such sizes");
    shape.hidden.clear();
    for (std::size_t begin = 0; begin <= o.hidden->size();) {
      const std::size_t end = std::min(o.hidden->find(',', begin), o.hidden->size());
      shape.hidden.push_back(parse_count(o.hidden->substr(begin, end - begin), "--hidden", 1, 65536));
      begin = end + 1;
    }
  }
  blame(o.heads ? "--heads" : o.hidden ? "--hidden" : o.width ? "--width" : "--task", [&] { check(shape); });
  return shape;
}

train::OptimiserSettings choose_optimiser(const TrainOptions& o, train::OptimiserSettings settings,
                                          const train::RunSettings& theirs) {
  if (o.optimiser) settings.kind = parse_optimiser(*o.optimiser);
  if (o.optimiser && settings.kind == train::OptimiserKind::sgd && !theirs.learning_rate) settings.learning_rate = 0.05;
  if (o.rate) settings.learning_rate = parse_number(*o.rate, "--lr");
  if (o.clip) settings.clip = parse_number(*o.clip, "--clip", true);
  check(settings);
  return settings;
}

// What is done in which order between the backward pass and the optimiser, and the learning rate of each step.
void choose_order(const TrainOptions& o, train::RunRequest& r) {
  if (o.clip_order) {
    r.clip_order = parse_name<train::ClipOrder>(*o.clip_order, "--clip-order", train::clip_order_names);
    if (r.optimiser->clip == 0) throw narrow::Error("--clip-order: nothing is clipped; needs --clip above 0");
  }
  if (o.accumulate) {
    r.accumulate = parse_name<train::AccumulateAs>(*o.accumulate, "--accumulate", train::accumulate_names);
    if (r.micro_batches == 1) throw narrow::Error("--accumulate: needs --micro-batches of 2 or more");
  }
  train::Schedule& s = r.schedule;
  if (o.schedule) s.kind = parse_name<train::ScheduleKind>(*o.schedule, "--schedule", train::schedule_names);
  if (o.warmup) s.warmup = parse_count(*o.warmup, "--warmup", 0, 100000000);
  if (o.schedule_counts) {
    s.counts = parse_name<train::ScheduleCounts>(*o.schedule_counts, "--schedule-counts", train::schedule_count_names);
    if (s.kind == train::ScheduleKind::constant && s.warmup == 0)
      throw narrow::Error("--schedule-counts: the learning rate is constant; needs --schedule or --warmup");
  }
  if (s.kind != train::ScheduleKind::constant) s.length = *r.steps;
  blame(o.warmup ? "--warmup" : "--schedule", [&] { check(s); });
}

std::uint64_t parse_every(const std::string& text) {
  constexpr std::string_view key = "every=";
  return parse_count(text.starts_with(key) ? text.substr(key.size()) : text, "--instrument", 1, 1000000000);
}

}  // namespace

std::vector<train::Recipe> parse_recipe_list(const std::string& list) {
  // A comma may also stand inside fsdp:KEY=VALUE,KEY=VALUE.
  std::vector<std::string> words;
  for (const std::string& word : split(list, "--recipe")) {
    const bool goes_on = !words.empty() && words.back().starts_with("fsdp:") && word.find('=') != std::string::npos &&
                         word.find(':') == std::string::npos;
    if (goes_on) words.back() += "," + word;
    else words.push_back(word);
  }
  std::vector<train::Recipe> recipes;
  std::set<std::string> names;
  for (const std::string& word : words) {
    recipes.push_back(blame("--recipe", [&] { return train::require_recipe(word); }));
    if (const std::string& name = recipes.back().name; !names.insert(name).second)
      throw narrow::Error("--recipe: two recipes are called " + narrow::quote(name) +
                          "; change one \"name\" or file name");
  }
  return recipes;
}

train::OptimiserKind parse_optimiser(const std::string& name) {
  return parse_name<train::OptimiserKind, 2>(name, "--optimiser", {"sgd", "adamw"});
}

void TrainOptions::declare(Arguments& arguments) {
  arguments.option("--task", task, "TASK", "what is learned: digits, lm, fashion or fashion-vit (default digits)");
  arguments.option("--model", model, "NAME", "digits, fashion: cnn, with convolutions and batch norm (default mlp)");
  arguments.option("--recipe", recipes, "LIST",
                   "names of --list-recipes and .json files, also DeepSpeed's ds_config.json, "
                   "fsdp:param_dtype=bfloat16,reduce_dtype=float32 and 'megatron:--fp16 --hysteresis 4', with commas "
                   "(default fp32,bf16-amp,fp16-amp,fp16-amp-noscale,fp16-pure,fp8-current)");
  arguments.option("--steps", steps, "N", "steps of each run (default 300 for digits, 200 for lm, 1000 for fashion)");
  arguments.option("--seed", seeds, "LIST", "seeds, with commas; each recipe runs with each (default 1)");
  arguments.option("-o,--output", folder, "DIR",
                   "write a CSV of all steps and the last two checkpoints of every run there");
  arguments.flag("--resume", resume, "go on from the last checkpoints in DIR where they are, up to --steps in all");
  arguments.option("--batch", batch, "N", "examples a step (default 64; lm: 8 windows)");
  arguments.option("--text", text, "FILE", "what lm learns, - for standard input (default: this project's own text)");
  arguments.option("--optimiser", optimiser, "NAME", "adamw or sgd (default adamw)");
  arguments.option("--lr", rate, "X", "learning rate");
  arguments.option("--clip", clip, "X", "largest norm of the gradients, 0 for any");
  arguments.option("--clip-order", clip_order, "ORDER",
                   "the norm is that of the gradients, or of the scaled ones: after-unscale or before-unscale (default "
                   "after-unscale)");
  arguments.option("--schedule", schedule, "KIND",
                   "of the learning rate after the warmup, down to 0 over --steps: constant, linear or cosine (default "
                   "constant)");
  arguments.option("--warmup", warmup, "N", "the learning rate rises over the first N (default 0)");
  arguments.option("--schedule-counts", schedule_counts, "WHAT",
                   "those that were taken, or also those that the loss scaler skipped: steps or calls (default steps)");
  arguments.option("--loss-scaler", loss_scaler, "POLICY",
                   "of list-scaling, as NAME or NAME:PARAMETER=VALUE, instead of that of the recipes");
  arguments.option("--layers", layers, "N", "lm, fashion-vit: blocks");
  arguments.option("--width", width, "N", "lm, fashion-vit: width of the model");
  arguments.option("--heads", heads, "N", "lm, fashion-vit: heads; must divide the width");
  arguments.option("--context", context, "N", "lm: bytes that a prediction sees");
  arguments.flag("--qk-norm", qk_norm, "lm, fashion-vit: RMSNorm of every query and key");
  arguments.option("--soft-cap", soft_cap, "X", "lm, fashion-vit: attention scores become X tanh(score / X)");
  arguments.flag("--rms-norm", rms_norm, "lm, fashion-vit: RMSNorm instead of LayerNorm");
  arguments.option("--hidden", hidden, "LIST",
                   "digits, fashion: widths of the hidden layers, with commas; cnn: channels (default 8,16)");
  arguments.option("--instrument", instrument, "every=N",
                   "every N steps: counts and exponents of all tensors, into DIR and the columns of the CSV");
  arguments.option("--dump", dump, "STEP", "parameters, gradients and moments after this step, as safetensors in DIR");
  arguments.option("--micro-batches", micro_batches, "N", "gradients are summed over N parts of a batch");
  arguments.option("--accumulate", accumulate, "HOW", "what becomes of their gradients: mean or sum (default mean)");
  arguments.option(
      "--ranks", ranks, "N",
      "ranks that share a batch and reduce their gradients: simulated, or those of narrow-mpi where it has as many");
  arguments.option("--reduce", reduce, "FORMAT",
                   "what they send: a format or a block format as mxfp8_e5m2 (default: the recipe's)");
  arguments.flag("--error-feedback", error_feedback,
                 "what a rank's rounding for that sum lost is added to its next gradients");
  arguments.option(
      "--order", order, "ORDER",
      "of that sum: ring, tree, recursive-doubling, fp32-once or linear (default ring); narrow-mpi: also mpi");
  arguments.option("--print-recipe", print_recipe, "NAME", "print a recipe as JSON, as a start for one of your own");
  arguments.flag("--list-recipes", list_recipes, "print the recipes");
  arguments.flag("--json", json, "print JSON");
}

TrainPlan plan_training(const TrainOptions& o) {
  train::RunRequest common;
  common.task = blame("--task", [&] { return train::require_task(o.task.value_or("digits")); });
  const train::TaskSettings own = o.model ? blame("--model", [&] { return train::settings_of(common.task, *o.model); })
                                          : train::settings_of(common.task);
  if (o.text && common.task != train::Task::lm) throw narrow::Error("--text: only lm learns a text");
  if (o.resume && !o.folder) throw narrow::Error("--resume: needs -o DIR, where the checkpoints are");
  if ((o.instrument || o.dump) && !o.folder)
    throw narrow::Error(std::string(o.dump ? "--dump" : "--instrument") + ": needs -o DIR to write to");
  if (o.order && o.ranks.value_or("1") == "1") throw narrow::Error("--order: needs --ranks of 2 or more");
  if (o.error_feedback && o.ranks.value_or("1") == "1")
    throw narrow::Error("--error-feedback: needs --ranks of 2 or more");
  if (o.error_feedback && o.resume)
    throw narrow::Error("--error-feedback: what ranks hold back is not in a checkpoint; leave out --resume");
  common.error_feedback = o.error_feedback;
  if (o.reduce && o.ranks.value_or("1") == "1") throw narrow::Error("--reduce: needs --ranks of 2 or more");
  std::vector<train::Recipe> recipes = parse_recipe_list(o.recipes.value_or(default_recipes));
  train::RunSettings theirs = settings_of_all(recipes);
  common.steps = o.steps ? parse_count(*o.steps, "--steps", 1, 100000000) : own.steps;
  common.shape = choose_shape(o, own.shape);
  common.optimiser = choose_optimiser(o, with_settings(own.optimiser, theirs), theirs);
  common.text = o.text.value_or("");
  if (o.instrument) common.instrument_every = parse_every(*o.instrument);
  if (o.batch) theirs.batch = parse_count(*o.batch, "--batch", 1, 65536);
  if (o.micro_batches) theirs.micro_batches = parse_count(*o.micro_batches, "--micro-batches", 1, 65536);
  if (o.batch || o.micro_batches) theirs.micro_batch.reset();
  std::optional<std::size_t> ranks;
  if (o.ranks) ranks = parse_count(*o.ranks, "--ranks", 1, 4096);
  const train::Batches batches =
      blame("--recipe: " + theirs.where, [&] { return train::resolve_batches(theirs, ranks, own.batch); });
  common.batch = batches.batch, common.micro_batches = batches.micro_batches, common.ranks = batches.ranks;
  blame(o.micro_batches                   ? "--micro-batches"
        : o.ranks                         ? "--ranks"
        : o.batch || theirs.where.empty() ? "--batch"
                                          : "--recipe: " + theirs.where,
        [&] { train::check_batch(*common.batch, common.ranks, common.micro_batches); });
  if (o.order) {
    common.order = parse_name<narrow::cluster::Algorithm>(*o.order, "--order", narrow::cluster::algorithm_names);
    // Ranks that are processes may leave it to MPI.
    if (crew() == nullptr || crew()->size() == 1) blame("--order", [&] { narrow::cluster::check_order(common.order); });
  }
  choose_order(o, common);
  std::vector<std::uint64_t> seeds;
  for (const std::string& word : split(o.seeds.value_or("1"), "--seed"))
    seeds.push_back(parse_count(word, "--seed", 0, ~std::uint64_t{0}));

  TrainPlan plan;
  if (o.dump) plan.dump = parse_count(*o.dump, "--dump", 0, *common.steps - 1);
  common.data =
      blame(o.text ? "--text" : "--task", [&] { return train::open_dataset(common.task, *common.shape, common.text); });
  for (train::Recipe& recipe : recipes) {
    if (o.reduce)
      blame("--reduce", [&] {
        if (narrow::is_block_format_name(*o.reduce))
          common.reduce_blocks = narrow::cluster::require_wire(*o.reduce).blocks;
        else recipe.policy.training.reduction = {.format = narrow::require_format(*o.reduce)};
        check(recipe.policy);
      });
    if (o.loss_scaler)
      recipe.loss_scaler =
          blame("--loss-scaler", [&] { return train::checked_loss_scaler(train::expand_policy(*o.loss_scaler)); });
    plan.notes.insert(plan.notes.end(), recipe.notes.begin(), recipe.notes.end());
    for (const std::uint64_t seed : seeds) {
      plan.runs.push_back(common);
      plan.runs.back().recipe = recipe;
      plan.runs.back().seed = seed;
    }
  }
  return plan;
}

}  // namespace app

// The flags of `narrow train`, and the runs that they ask for.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "command.hpp"
#include "narrow/train/trainer.hpp"

namespace app {

// Names of the table and .json files, with commas, and each once. Throws narrow::Error about --recipe.
std::vector<narrow::train::Recipe> parse_recipe_list(const std::string& list);
narrow::train::OptimiserKind parse_optimiser(const std::string& name);  // throws narrow::Error about --optimiser

struct TrainOptions {
  std::optional<std::string> task, model, recipes, steps, seeds, folder, batch, text, rate, optimiser, clip,
      loss_scaler;
  std::optional<std::string> layers, width, heads, context, hidden, soft_cap, instrument, dump, ranks, reduce, order,
      micro_batches, accumulate, clip_order, schedule, warmup, schedule_counts;
  std::optional<std::string> print_recipe;
  bool resume = false, json = false, list_recipes = false, qk_norm = false, rms_norm = false;

  void declare(Arguments& arguments);
};

struct TrainPlan {
  std::vector<narrow::train::RunRequest> runs;  // recipe by recipe, each with all seeds; they share the data
  std::vector<std::string> notes;               // on the recipes
  std::optional<std::uint64_t> dump;            // the step after which tensors are written
};

// Throws narrow::Error: which flag, what is wrong with it, what would be right.
TrainPlan plan_training(const TrainOptions& options);

}  // namespace app

// The flags of `narrow train`, and the runs that they ask for.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/train/run/trainer.hpp"

namespace app {

// Names of the table and .json files, with commas, and each once. Throws narrow::Error about --recipe.
std::vector<narrow::train::Recipe> parse_recipe_list(const std::string& list);
narrow::train::OptimiserKind parse_optimiser(const std::string& name);  // throws narrow::Error about --optimiser

// One of the names, as their enumeration.
template <class Enum, std::size_t count>
Enum parse_name(const std::string& text, const char* flag, const std::array<std::string_view, count>& names) {
  std::string accepted;
  for (std::size_t i = 0; i < count; ++i) {
    if (text == names[i]) return static_cast<Enum>(i);
    accepted += " " + std::string(names[i]);
  }
  throw narrow::Error(std::string(flag) + ": " + narrow::quote(text) + " is unknown; accepted:" + accepted);
}

struct TrainOptions {
  std::optional<std::string> task, model, recipes, steps, seeds, folder, batch, text, rate, optimiser, clip,
      loss_scaler;
  std::optional<std::string> layers, width, heads, context, hidden, soft_cap, instrument, dump, ranks, reduce, order,
      micro_batches, accumulate, clip_order, schedule, warmup, schedule_counts;
  std::optional<std::string> print_recipe;
  bool resume = false, json = false, list_recipes = false, error_feedback = false, qk_norm = false, rms_norm = false;

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

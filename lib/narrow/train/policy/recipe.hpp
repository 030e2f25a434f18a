// A recipe: a precision policy and a loss scaler under a name, as people speak of them; also as a small JSON file.
//
//   const train::Recipe recipe = train::require_recipe("fp16-amp");
//   const std::string json = train::recipe_json(recipe);  // every operation and role, to be changed and read again
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "narrow/train/policy/policy.hpp"
#include "narrow/train/policy/settings.hpp"

namespace narrow::train {

// What a framework's own file says beside the precision. A run takes it when it is asked to; what is not given is the
// task's own.
struct RunSettings {
  // batch = micro_batch * micro_batches * ranks
  std::optional<std::size_t> batch = {}, micro_batch = {}, micro_batches = {};
  std::optional<OptimiserSettings> optimiser = {};  // all but the two that follow
  std::optional<double> learning_rate = {}, clip = {};
  std::string text = {}, where = {};  // all of it in words (empty: nothing is set), and the file
};

// A recipe, as a run takes it.
struct Recipe {
  std::string name;
  std::string what;  // one line
  Policy policy;
  std::string loss_scaler = "none";  // as narrow::make_scaler takes it: "torch", "torch:init=2^10", ...
  RunSettings run = {};
  std::vector<std::string> notes = {};  // lines on what of a framework's file has no meaning here
};

// Adding a recipe is one row in recipe_table.cpp.
struct RecipeRow {
  std::string_view name;
  std::string_view what;
  Policy (*policy)();
  std::string_view loss_scaler;
};
std::span<const RecipeRow> recipe_table();
const RecipeRow* find_recipe(std::string_view name);  // nullptr when there is none

// A name of the table, a file that ends in .json (a recipe, or a framework's file), or one of the texts of
// framework_config.hpp. Throws Error: what is unknown, and what is accepted.
Recipe require_recipe(const std::string& name_or_file);

// The text again when it names a loss scaler; Error when it names none, or a recipe for the scales of tensors.
std::string checked_loss_scaler(const std::string& text);

// The JSON of a recipe. Keys: "base" (a name of the table, "fp32" when not given), "name", "what", "loss_scaler",
// "operations" {operation: {role: precision, "forward" | "dgrad" | "wgrad": product}}, "training" {role: precision},
// "delayed". What is not said stays as in the base. `where` opens the messages.
Recipe parse_recipe(std::string_view json, const std::string& where);
// Every operation and role in full, so that any line can be changed and read again.
std::string recipe_json(const Recipe& recipe);

}  // namespace narrow::train

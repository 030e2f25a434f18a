// A recipe: a precision policy and a loss scaler under a name, as people speak of them; also as a small JSON file.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "narrow/train/policy.hpp"

namespace narrow::train {

struct Recipe {
  std::string name;
  std::string what;  // one line
  Policy policy;
  std::string loss_scaler = "none";  // as narrow::make_scaler takes it: "torch", "torch:init=2^10", ...
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

// A name of the table, or a file that ends in .json. Throws Error: what is unknown, and what is accepted.
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

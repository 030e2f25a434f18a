// The settings of other frameworks read as recipes: DeepSpeed's ds_config.json, FSDP's MixedPrecision, Megatron-LM's
// flags. Which keys there are and what they may be: rows in framework_keys.hpp.
#pragma once

#include "narrow/train/policy/recipe.hpp"

namespace narrow::train {

// "deepspeed:FILE", "fsdp:KEY=VALUE,KEY=VALUE", "fsdp:FILE", "megatron:--FLAG VALUE --FLAG", "megatron:FILE" (such
// flags in a file; # begins a comment); nothing for other texts. Throws Error: the file, the section, the key, what is
// wrong.
std::optional<Recipe> framework_recipe(const std::string& text);

// A JSON file whose keys are DeepSpeed's or FSDP's; nothing when they are those of a recipe. Throws Error.
std::optional<Recipe> parse_framework_json(std::string_view json, const std::string& path);

// The file as text. Throws Error.
std::string read_config_file(const std::string& path);

// A policy for make_scaler: "deepspeed:FILE", "megatron:FILE" and "megatron:FLAGS" become the policy with the settings
// that are given there, other texts stay. Throws Error, also when the file scales no loss.
std::string expand_policy(const std::string& text);

// The batch, its micro-batches and the ranks: by their equation, where some of them are given, else the task's batch.
// Throws Error when they do not fit.
struct Batches {
  std::size_t batch, micro_batches, ranks;
};
Batches resolve_batches(const RunSettings& settings, std::optional<std::size_t> ranks, std::size_t task_batch);

}  // namespace narrow::train

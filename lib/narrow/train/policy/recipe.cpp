#include "narrow/train/policy/recipe.hpp"

#include "narrow/base/error.hpp"
#include "narrow/scale/scaler_table.hpp"
#include "narrow/tensor/file_text.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/text.hpp"
#include "narrow/train/policy/framework_config.hpp"

namespace narrow::train {

namespace {

Recipe read_recipe(const std::string& path) {
  const std::string json = read_config_file(path);
  if (std::optional<Recipe> theirs = parse_framework_json(json, path)) return *std::move(theirs);
  return parse_recipe(json, quote_path(path));
}

}  // namespace

std::string checked_loss_scaler(const std::string& text) {
  if (make_scaler(text).row->kind == ScalerKind::loss_scaler) return text;
  std::string list;
  for (const ScalerRow& row : scaler_table())
    if (row.kind == ScalerKind::loss_scaler) list += " " + std::string(row.name);
  throw Error(quote(text) + " scales tensors, not losses; accepted:" + list);
}

const RecipeRow* find_recipe(std::string_view name) {
  if (name == "torch.backends.cuda.matmul.allow_tf32") name = "allow_tf32";
  for (const RecipeRow& row : recipe_table())
    if (row.name == name) return &row;
  return nullptr;
}

Recipe require_recipe(const std::string& name_or_file) {
  if (const RecipeRow* row = find_recipe(name_or_file))
    return {std::string(row->name), std::string(row->what), row->policy(), std::string(row->loss_scaler)};
  if (std::optional<Recipe> theirs = framework_recipe(name_or_file)) return *std::move(theirs);
  if (name_or_file.ends_with(".json")) return read_recipe(name_or_file);
  std::vector<std::string_view> names;
  std::string list;
  for (const RecipeRow& row : recipe_table()) {
    names.push_back(row.name);
    list += " " + std::string(row.name);
  }
  throw Error("recipe " + quote(name_or_file) + " is unknown; " +
              hint(name_or_file, names) + "accepted: a file that ends in .json, or" +
              list + ", deepspeed:FILE, fsdp:KEY=VALUE, megatron:FLAGS");
}

}  // namespace narrow::train

// Any text as a recipe or a framework's file; "megatron:--" and "fsdp:" open settings as words. What is accepted prints
// and reads again as the same.
#include "fuzz/read_all.hpp"
#include "narrow/train/policy/framework_config.hpp"

namespace {

narrow::train::Recipe read(const std::string& text) {
  using namespace narrow::train;
  const bool is_words = text.starts_with("megatron:--") || (text.starts_with("fsdp:") && !text.ends_with(".json"));
  std::optional<Recipe> theirs = is_words ? framework_recipe(text) : parse_framework_json(text, "a.json");
  return theirs ? *theirs : parse_recipe(text, "'a.json'");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  narrow::train::Recipe recipe;
  try {
    recipe = read(std::string(reinterpret_cast<const char*>(data), size));
  } catch (const narrow::Error& error) {
    fuzz::check_message(error.what());
    return 0;
  }
  const std::string printed = recipe_json(recipe);
  fuzz::require(recipe_json(narrow::train::parse_recipe(printed, "again")) == printed);
  return 0;
}

// Recipes as JSON: out in full, in as changes to a base. Every key is checked; an error names its path.
#include <algorithm>
#include <functional>

#include "narrow/base/error.hpp"
#include "narrow/text/text.hpp"
#include "narrow/train/policy/config_json.hpp"
#include "narrow/train/policy/recipe.hpp"

namespace narrow::train {

namespace {

constexpr std::pair<std::string_view, ProductPolicy OperationPolicy::*> product_roles[] = {
    {"forward", &OperationPolicy::forward}, {"dgrad", &OperationPolicy::dgrad}, {"wgrad", &OperationPolicy::wgrad}};

// --- in ---

// A new format begins without the cast and the scale of the old one.
Precision read_precision(const Node& node, Precision p) {
  bool names_overflow = false;
  if (node.value.is_string()) return {.format = node.parse(require_format)};
  if (node.value.is_object() && node.value.contains("format")) p = {};
  node.each({"format", "rounding", "overflow", "subnormals", "random_bits", "scaling", "rule"},
            [&](std::size_t key, const Node& child) {
              switch (key) {
                case 0: p.format = child.parse(require_format); break;
                case 1: p.cast.rounding = child.parse(parse_rounding); break;
                case 2: p.cast.overflow = child.parse(parse_overflow), names_overflow = true; break;
                case 3: p.cast.subnormals = child.parse(parse_subnormals); break;
                case 4: p.cast.random_bits = static_cast<int>(child.count(1, 64)); break;
                case 5:
                  p.scaling = static_cast<Scaling>(choose(child.where, "scaling", child.text(), scaling_names));
                  break;
                case 6: p.rule = require_scale_rule(child.where, child.text()); break;
              }
            });
  // Without the word the elements of a scaled role saturate; another word would be ignored.
  if (p.scaling != Scaling::none && names_overflow && p.cast.overflow != Overflow::saturate)
    node.fail("is scaled: its elements saturate; overflow must be saturate or left out");
  return p;
}

ProductPolicy read_product(const Node& node, ProductPolicy p) {
  node.each({"accumulation", "accumulator", "model", "plan", "hadamard"}, [&](std::size_t key, const Node& child) {
    switch (key) {
      case 0:
        p.accumulation =
            static_cast<Accumulation>(choose(child.where, "accumulation", child.text(), accumulation_names));
        break;
      case 1: p.accumulator = child.parse(require_format); break;
      case 2: p.model = require_dot_model(child.where, child.text()); break;
      case 3: p.plan = child.parse(parse_plan); break;
      case 4: p.hadamard = child.truth(); break;
    }
  });
  return p;
}

// Only what the operation has: a key that nothing reads would promise a rounding that does not happen.
void read_operation(const Node& node, Operation operation, OperationPolicy& p) {
  std::vector<std::string_view> keys;
  std::vector<std::function<void(const Node&)>> readers;
  const auto add = [&](std::string_view key, std::function<void(const Node&)> read) {
    keys.push_back(key);
    readers.push_back(std::move(read));
  };
  for (std::size_t r = 0; r < role_count; ++r) {
    Precision& precision = p.role(static_cast<Role>(r));
    if (has_role(operation, static_cast<Role>(r)))
      add(role_names[r], [&precision](const Node& child) { precision = read_precision(child, precision); });
  }
  if (has_arithmetic(operation))
    add("arithmetic", [&p](const Node& child) { p.arithmetic = read_precision(child, p.arithmetic); });
  for (const auto& [name, member] : product_roles) {
    ProductPolicy& product = p.*member;
    if (is_product(operation)) add(name, [&product](const Node& child) { product = read_product(child, product); });
  }
  node.each(keys, [&](std::size_t key, const Node& child) { readers[key](child); });
}

void read_training(const Node& node, TrainingPolicy& p) {
  std::vector<std::string_view> keys;
  for (const auto& [name, member] : training_roles) keys.push_back(name);
  keys.push_back("kahan");
  node.each(keys, [&](std::size_t key, const Node& child) {
    if (key == std::size(training_roles)) p.kahan = child.truth();
    else p.*training_roles[key].second = read_precision(child, p.*training_roles[key].second);
  });
}

void read_delayed(const Node& node, TeDelayedScaling& p) {
  node.each({"margin", "history", "most_recent"}, [&](std::size_t key, const Node& child) {
    if (key == 0) p.margin = child.count(0, 100);
    if (key == 1) p.history = child.count(1, 1 << 20);
    if (key == 2) p.most_recent = child.truth();
  });
}

// It becomes part of file names.
std::string read_name(const Node& node) {
  const std::string name = node.text();
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  };
  if (name.empty() || name.size() > 60 || name[0] == '.' || !std::all_of(name.begin(), name.end(), is_allowed))
    node.fail("must be 1 to 60 letters, digits and - _ . (not first)");
  return name;
}

// --- out ---

Json to_json(const Precision& p) {
  const Cast plain;
  Json fields = Json::object();
  fields["format"] = format_word(p.format);
  if (p.cast.rounding != plain.rounding) fields["rounding"] = name_of(p.cast.rounding);
  if (p.cast.overflow != plain.overflow) fields["overflow"] = name_of(p.cast.overflow);
  if (p.cast.subnormals != plain.subnormals) fields["subnormals"] = name_of(p.cast.subnormals);
  if (p.cast.random_bits != plain.random_bits) fields["random_bits"] = p.cast.random_bits;
  if (p.scaling != Scaling::none) fields["scaling"] = name_of(p.scaling);
  if (p.rule) fields["rule"] = row_of(*p.rule).name;
  return fields.size() == 1 ? fields["format"] : fields;
}

Json to_json(const ProductPolicy& p) {
  Json fields = Json::object();
  fields["accumulation"] = name_of(p.accumulation);
  if (p.accumulation == Accumulation::every_operation) fields["accumulator"] = format_word(p.accumulator);
  if (p.accumulation == Accumulation::model) {
    fields["model"] = p.model->name.view();
    fields["plan"] = plan_text(p.plan);
  }
  if (p.hadamard) fields["hadamard"] = true;
  return fields;
}

Json to_json(const OperationPolicy& p, Operation operation) {
  Json fields = Json::object();
  for (std::size_t r = 0; r < role_count; ++r)
    if (has_role(operation, static_cast<Role>(r)))
      fields[std::string(role_names[r])] = to_json(p.role(static_cast<Role>(r)));
  if (has_arithmetic(operation)) fields["arithmetic"] = to_json(p.arithmetic);
  if (is_product(operation))
    for (const auto& [name, member] : product_roles) fields[std::string(name)] = to_json(p.*member);
  return fields;
}

// An object with one line for each of its members.
std::string lines(const Json& object) {
  std::string text;
  for (const auto& [key, value] : object.items())
    text += (text.empty() ? "\n    " : ",\n    ") + Json(key).dump() + ": " + value.dump();
  return "{" + text + "\n  }";
}

}  // namespace

Recipe parse_recipe(std::string_view json, const std::string& where) {
  const Json tree = parse_config_json(json, where);
  const Node root{tree, where, true};
  Recipe recipe = require_recipe("fp32");
  if (tree.is_object() && tree.contains("base")) {
    const Node base{tree["base"], where + ": base"};
    std::vector<std::string_view> names;
    for (const RecipeRow& row : recipe_table()) names.push_back(row.name);
    recipe = require_recipe(std::string(names[choose(base.where, "recipe", base.text(), names)]));
  }
  recipe.name = "recipe";
  root.each({"base", "name", "what", "loss_scaler", "operations", "training", "delayed"},
            [&](std::size_t key, const Node& child) {
              switch (key) {
                case 1: recipe.name = read_name(child); break;
                case 2: recipe.what = child.text(); break;
                case 3: recipe.loss_scaler = child.parse(checked_loss_scaler); break;
                case 4:
                  child.each({operation_names.begin(), operation_names.end()}, [&](std::size_t o, const Node& n) {
                    read_operation(n, static_cast<Operation>(o), recipe.policy.operations[o]);
                  });
                  break;
                case 5: read_training(child, recipe.policy.training); break;
                case 6: read_delayed(child, recipe.policy.delayed); break;
              }
            });
  try {
    check(recipe.policy);
  } catch (const Error& error) {
    throw Error(where + ": " + error.what());
  }
  return recipe;
}

std::string recipe_json(const Recipe& recipe) {
  Json operations = Json::object(), training = Json::object();
  for (std::size_t o = 0; o < operation_count; ++o)
    operations[std::string(operation_names[o])] = to_json(recipe.policy.operations[o], static_cast<Operation>(o));
  for (const auto& [name, member] : training_roles)
    training[std::string(name)] = to_json(recipe.policy.training.*member);
  training["kahan"] = recipe.policy.training.kahan;
  const Json delayed = {{"margin", recipe.policy.delayed.margin},
                        {"history", recipe.policy.delayed.history},
                        {"most_recent", recipe.policy.delayed.most_recent}};
  return "{\n  \"name\": " + Json(recipe.name).dump() + ",\n  \"what\": " + Json(recipe.what).dump() +
         ",\n  \"base\": \"fp32\",\n  \"loss_scaler\": " + Json(recipe.loss_scaler).dump() +
         ",\n  \"operations\": " + lines(operations) + ",\n  \"training\": " + lines(training) +
         ",\n  \"delayed\": " + delayed.dump() + "\n}\n";
}

}  // namespace narrow::train

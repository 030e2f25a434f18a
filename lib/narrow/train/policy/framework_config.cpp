#include "narrow/train/policy/framework_config.hpp"

#include <cmath>

#include "narrow/base/random.hpp"
#include "narrow/scale/scaler_table.hpp"
#include "narrow/tensor/file_text.hpp"
#include "narrow/tensor/mapped_file.hpp"
#include "narrow/text/text.hpp"
#include "narrow/train/policy/framework_values.hpp"

namespace narrow::train {

namespace {

using namespace detail;

bool fits(const Json& value, Type type) {
  const auto is_between = [&](const Json& x) {
    const TypeRow& row = type_table[static_cast<int>(type)];
    return x.is_number() && x.get<double>() >= row.least && x.get<double>() <= row.most;
  };
  switch (type) {
    case Type::any: return true;
    case Type::section: return value.is_object();
    case Type::truth: return value.is_boolean();
    case Type::word: return value.is_string();
    case Type::format: return value.is_string() && find_type(value.get<std::string>());
    case Type::pair: return value.is_array() && value.size() == 2 && is_between(value[0]) && is_between(value[1]);
    case Type::stage:
    case Type::power:
    case Type::count: return is_between(value) && value.get<double>() == std::floor(value.get<double>());
    default: return is_between(value);
  }
}

[[noreturn]] void refuse_key(const Values& v, const std::string& section, const std::string& key) {
  std::string read;
  for (const KeyRow& row : v.framework.keys)
    if (row.section == section && row.use == Use::read)
      read += (read.empty() ? "read here: " : " ") + std::string(row.keys);
  const std::string help = hint(key, v.framework.known(section)) + read;
  v.fail(section,
         "key " + quote(key) + " is unknown to " + std::string(v.framework.title) + (help.empty() ? "" : "; " + help));
}

// None and the "auto" of HuggingFace's trainer are as if not given. What is off is no part that is missing here.
void read_values(const Json& tree, const std::string& section, Values& v) {
  for (const auto& [name, value] : tree.items()) {
    const std::string key = section.empty() && name == "bfloat16" ? "bf16" : name;  // as it was called before
    const std::string path = section.empty() ? key : section + "." + key;
    if (key != name && tree.contains(key)) v.fail(path, "is given twice: also as " + name);
    const KeyRow* row = v.framework.find(section, key);
    if (row == nullptr) refuse_key(v, section, key);
    if (value.is_null()) continue;
    if (value == "auto") {
      v.automatic.push_back(path);
      continue;
    }
    if (!fits(value, row->type)) v.fail(path, "must be " + std::string(type_table[static_cast<int>(row->type)].what));
    const bool is_off = value == false || (value.is_object() && value.contains("enabled") && value["enabled"] == false);
    if (row->use != Use::read) (row->use == Use::silent || is_off ? v.silent : v.uncomputed).push_back(path);
    if (row->type == Type::section) read_values(value, path, v);
    else v.given[path] = value;
  }
}

constexpr Framework frameworks[] = {{"deepspeed", "DeepSpeed", deepspeed_keys, read_deepspeed},
                                    {"fsdp", "FSDP", fsdp_keys, read_fsdp},
                                    {"megatron", "Megatron-LM", megatron_keys, read_megatron}};
const Framework* find_framework(std::string_view name) {
  for (const Framework& f : frameworks)
    if (f.name == name) return &f;
  return nullptr;
}

std::string settings_text(const RunSettings& s) {
  std::string text;
  const auto say = [&](const std::string& what) { text += (text.empty() ? "" : ", ") + what; };
  if (s.batch) say("batch " + std::to_string(*s.batch));
  if (s.micro_batch) say("micro-batches of " + std::to_string(*s.micro_batch));
  if (s.micro_batches) say(std::to_string(*s.micro_batches) + " micro-batches");
  if (s.optimiser) {
    const OptimiserSettings& o = *s.optimiser;
    say(o.kind == OptimiserKind::sgd ? "SGD with momentum " + in_words(o.momentum)
                                     : "AdamW with betas " + in_words(o.beta1) + " and " + in_words(o.beta2) +
                                           " and epsilon " + in_words(o.epsilon));
    say("weight decay " + in_words(o.weight_decay) + (o.weight_decay > 0 ? " (of matrices alone)" : ""));
  }
  if (s.learning_rate) say("learning rate " + in_words(*s.learning_rate));
  if (s.clip) say(*s.clip > 0 ? "gradients clipped at " + in_words(*s.clip) : "no clipping");
  return text;
}

void add_note(Recipe& r, const Values& v, const std::string& what, const std::vector<std::string>& keys) {
  if (keys.empty()) return;
  std::string line = v.where + ": " + what + ":";
  for (const std::string& key : keys) line += " " + key;
  r.notes.push_back(line);
}

// It becomes part of file names.
std::string name_from(std::string_view text) {
  std::string name;
  for (const char c : text) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    if (is_plain || (!name.empty() && name.back() != '-')) name += is_plain ? c : '-';
  }
  if (name.size() > 60) {  // two long texts stay two
    std::uint64_t hash = 0;
    for (const char c : text) hash = random_bits(hash, static_cast<unsigned char>(c));
    name = name.substr(0, 55) + "-" + std::to_string(hash % 10000);
  }
  while (name.ends_with('-')) name.pop_back();
  return name.empty() ? "recipe" : name;
}

Recipe build(const Framework& framework, const Json& tree, const std::string& where, std::string_view name) {
  Values v{framework, where};
  if (!tree.is_object()) v.fail("", "must be an object in braces");
  read_values(tree, "", v);
  Recipe r{.name = name_from(name), .what = {}, .policy = {}};
  try {
    framework.read(v, r);
    check(r.policy);
    checked_loss_scaler(r.loss_scaler);
  } catch (const Error& error) {
    const std::string message = error.what();
    throw Error(message.starts_with(where) ? message : where + ": " + message);
  }
  add_note(r, v, "has no effect on numbers here", v.silent);
  add_note(r, v, "not computed here", v.uncomputed);
  add_note(r, v, "\"auto\" is for HuggingFace's trainer to fill in and taken as not given", v.automatic);
  r.run.where = where;
  r.run.text = settings_text(r.run);
  if (!r.run.text.empty()) r.notes.push_back(where + ": sets for all runs, where no flag does: " + r.run.text);
  return r;
}

std::string stem_of(std::string_view path) {
  path.remove_prefix(path.find_last_of('/') + 1);
  return std::string(path.substr(0, path.find_last_of('.')));
}

// "--fp16 --loss-scale 128 --hysteresis=4", with \ and # as a shell has them.
Json flags_to_json(std::string_view text, const std::string& where) {
  std::vector<std::string> words;
  for (const std::string_view line : words_of(text, "\r\n"))
    for (const std::string_view word : words_of(line.substr(0, line.find('#')), " \t"))
      if (word != "\\") words.emplace_back(word);
  const Framework& megatron = *find_framework("megatron");
  Json tree = Json::object();
  for (std::size_t i = 0; i < words.size();) {
    const std::size_t equals = words[i].find('=');
    const std::string flag = words[i].substr(0, equals);
    if (!flag.starts_with("--") || flag.size() < 3)
      throw Error(where + ": " + quote(words[i]) + " is no flag of Megatron-LM");
    std::vector<std::string> values;
    if (equals != std::string::npos) values.push_back(words[i].substr(equals + 1));
    for (++i; i < words.size() && !words[i].starts_with("--"); ++i) values.push_back(words[i]);
    const KeyRow* row = megatron.find("", flag);
    if (row != nullptr && row->type != Type::any && values.size() != (row->type == Type::truth ? 0u : 1u))
      throw Error(where + ": " + flag + (row->type == Type::truth ? " takes no value" : " takes one value"));
    if (row == nullptr || row->type == Type::any || row->type == Type::truth) tree[flag] = true;
    else if (row->type == Type::word) tree[flag] = values[0];
    else try {
        tree[flag] = parse_scale_number(values[0]);
      } catch (const Error& error) {
        throw Error(where + ": " + flag + ": " + error.what());
      }
  }
  return tree;
}

// "param_dtype=bfloat16,keep_low_precision_grads=True"
Json assignments_to_json(std::string_view text, const std::string& where) {
  Json tree = Json::object();
  for (const std::string_view word : words_of(text, ", ")) {
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos) throw Error(where + ": " + quote(word) + " has no value; write KEY=VALUE");
    const std::string key(word.substr(0, equals)), value(word.substr(equals + 1));
    if (tree.contains(key)) throw Error(where + ": key " + quote(key) + " is given twice");
    if (is_listed("true True false False", value)) tree[key] = value[0] == 't' || value[0] == 'T';
    else tree[key] = value == "None" ? Json() : Json(value);
  }
  return tree;
}

}  // namespace

std::string read_config_file(const std::string& path) {
  constexpr std::size_t largest = 1 << 18;  // keys are looked up one by one
  const std::shared_ptr<const MappedFile> file = MappedFile::open(path);
  const std::span<const std::byte> bytes = file->bytes();
  if (bytes.size() > largest) throw Error(quote_path(path) + ": a recipe has at most 256 KiB");
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::optional<Recipe> framework_recipe(const std::string& text) {
  const std::size_t colon = text.find(':');
  const Framework* framework = colon == std::string::npos ? nullptr : find_framework(text.substr(0, colon));
  if (framework == nullptr) return std::nullopt;
  const std::string rest = text.substr(colon + 1);
  if (rest.empty()) throw Error(quote(text) + " names no " + (framework->name == "fsdp" ? "key" : "file"));
  if (framework->name == "megatron") {
    if (rest.starts_with("-")) return build(*framework, flags_to_json(rest, "megatron"), "megatron", text);
    return build(*framework, flags_to_json(read_config_file(rest), quote_path(rest)), quote_path(rest), stem_of(rest));
  }
  if (framework->name == "fsdp" && !rest.ends_with(".json"))
    return build(*framework, assignments_to_json(rest, "fsdp"), "fsdp", text);
  return build(*framework, parse_config_json(read_config_file(rest), quote_path(rest)), quote_path(rest),
               stem_of(rest));
}

std::optional<Recipe> parse_framework_json(std::string_view json, const std::string& path) {
  const Json tree = parse_config_json(json, quote_path(path));
  if (!tree.is_object()) return std::nullopt;
  constexpr std::string_view own = "base name what loss_scaler operations training delayed";
  std::map<std::string_view, std::string> found;  // a key of each
  for (const auto& [key, value] : tree.items()) {
    if (is_listed(own, key)) found.emplace("", key);
    for (const Framework& f : frameworks)
      if (f.find("", key) != nullptr || (f.name == "deepspeed" && key == "bfloat16")) found.emplace(f.name, key);
  }
  if (found.size() > 1)
    throw Error(quote_path(path) + ": keys of different files, " + quote(found.begin()->second) + " and " +
                quote(found.rbegin()->second) + "; it must be a recipe, DeepSpeed's configuration or FSDP's");
  if (found.empty() && !tree.empty() && did_you_mean(tree.begin().key(), words_of(own, " ")).empty())
    for (const Framework& f : frameworks)  // a key with a typing error tells, too
      if (!did_you_mean(tree.begin().key(), f.known("")).empty()) found.emplace(f.name, tree.begin().key());
  if (found.empty() || found.contains("")) return std::nullopt;
  return build(*find_framework(found.begin()->first), tree, quote_path(path), stem_of(path));
}

std::string expand_policy(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string name = text.substr(0, colon), rest = colon == std::string::npos ? "" : text.substr(colon + 1);
  const bool is_file = rest.find_first_of("./") != std::string::npos && rest.find('=') == std::string::npos;
  if ((name != "deepspeed" && name != "megatron") || !(is_file || rest.starts_with("--"))) return text;
  const std::optional<Recipe> recipe = framework_recipe(text);
  if (recipe->loss_scaler == "none" || recipe->loss_scaler == "constant:init=1")
    throw Error(quote(text) + " scales no loss: fp16 is not on, or its loss scale is 1");
  return recipe->loss_scaler;
}

Batches resolve_batches(const RunSettings& s, std::optional<std::size_t> ranks, std::size_t task_batch) {
  constexpr std::size_t most = 65536;
  const auto limit = [&](std::size_t n) {
    if (n > most) throw Error(std::to_string(n) + " is too large for a batch or a part of it; at most 65536");
    return n;
  };
  const std::size_t micro = limit(s.micro_batch.value_or(0)), parts = limit(s.micro_batches.value_or(1));
  Batches b{limit(s.batch.value_or(task_batch)), parts, ranks.value_or(1)};
  if (micro == 0) return b;
  if (!s.batch) return {limit(micro * parts * b.ranks), parts, b.ranks};
  // All but one of the equation's numbers are known, or all.
  if (!s.micro_batches) b.micro_batches = std::max<std::size_t>(1, b.batch / (micro * b.ranks));
  else if (!ranks) b.ranks = std::max<std::size_t>(1, b.batch / (micro * parts));
  if (b.batch != micro * b.micro_batches * b.ranks)
    throw Error("a batch of " + std::to_string(b.batch) + " is not " + std::to_string(b.micro_batches) +
                " micro-batches of " + std::to_string(micro) + " on " + std::to_string(b.ranks) +
                (b.ranks == 1 ? " rank" : " ranks"));
  return b;
}

}  // namespace narrow::train
#include "narrow/train/framework_config.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "narrow/base/random.hpp"
#include "narrow/scale/policy_table.hpp"
#include "narrow/tensor/file_text.hpp"
#include "narrow/tensor/mapped_file.hpp"
#include "narrow/text/names.hpp"
#include "narrow/train/config_json.hpp"
#include "narrow/train/framework_keys.hpp"
#include "narrow/train/recipe_parts.hpp"

namespace narrow::train {

namespace {

constexpr Format fp32 = "fp32"_fmt, fp16 = "fp16"_fmt, bf16 = "bf16"_fmt, e4m3 = "e4m3"_fmt, e5m2 = "e5m2"_fmt;

// --- the keys ---

std::vector<std::string_view> split(std::string_view text, std::string_view at) {
  std::vector<std::string_view> words;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find_first_of(at, begin), text.size());
    if (end > begin) words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}
bool is_listed(std::string_view list, std::string_view word) {
  for (const std::string_view w : split(list, " "))
    if (w == word || (w.ends_with('*') && word.starts_with(w.substr(0, w.size() - 1)))) return true;
  return false;
}

struct Values;
struct Framework {
  std::string_view name, title;
  std::span<const KeyRow> keys;
  void (*read)(Values& values, Recipe& recipe);

  const KeyRow* find(std::string_view section, std::string_view key) const {
    for (const KeyRow& row : keys)
      if (row.section == section && is_listed(row.keys, key)) return &row;
    return nullptr;
  }
  std::vector<std::string_view> known(std::string_view section) const {
    std::vector<std::string_view> all;
    for (const KeyRow& row : keys)
      for (const std::string_view word : split(row.section == section ? row.keys : "", " ")) all.push_back(word);
    return all;
  }
};

// --- the values ---

std::optional<Format> find_type(std::string_view word) {
  if (word.starts_with("torch.")) word.remove_prefix(6);
  for (const auto& [names, format] :
       {std::pair{std::string_view("fp32 float32 float"), fp32}, {"fp16 float16 half", fp16}, {"bf16 bfloat16", bf16}})
    if (is_listed(names, word)) return format;
  return std::nullopt;
}

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

// What a file gives, by path, each of its type.
struct Values {
  const Framework& framework;
  std::string where;
  std::map<std::string, Json, std::less<>> given = {};
  std::vector<std::string> silent = {}, uncomputed = {}, automatic = {};

  [[noreturn]] void fail(std::string_view path, const std::string& what) const {
    throw Error(where + ": " + (path.empty() ? "" : std::string(path) + ": ") + what);
  }
  template <class T = double>
  std::optional<T> get(std::string_view path) const {
    const auto it = given.find(path);
    return it == given.end() ? std::nullopt : std::optional(it->second.template get<T>());
  }
  // What is given of these and changes nothing beside the other settings.
  void ignore(const char* section, std::string_view keys) {
    for (const std::string_view key : split(keys, " "))
      if (const std::string path = section + std::string(key); given.contains(path)) silent.push_back(path);
  }
  bool truth(std::string_view path, bool otherwise = false) const { return get<bool>(path).value_or(otherwise); }
  Format format(std::string_view path, const Format& otherwise) const {
    const std::optional<std::string> word = get<std::string>(path);
    return word ? *find_type(*word) : otherwise;
  }
  std::size_t choice(std::string_view path, const char* otherwise, std::vector<std::string_view> accepted) const {
    return choose(where, path, get<std::string>(path).value_or(otherwise), accepted);
  }
};

[[noreturn]] void refuse_key(const Values& v, const std::string& section, const std::string& key) {
  std::string read;
  for (const KeyRow& row : v.framework.keys)
    if (row.section == section && row.use == Use::read)
      read += (read.empty() ? "read here: " : " ") + std::string(row.keys);
  const std::string close = did_you_mean(key, v.framework.known(section));
  const std::string help = (close.empty() ? "" : "did you mean '" + close + "'? ") + read;
  v.fail(section,
         "key " + quote(key) + " is unknown to " + std::string(v.framework.title) + (help.empty() ? "" : "; " + help));
}

// None and the "auto" of HuggingFace's trainer are as if not given. What is off is no part that is missing here.
void read_values(const Json& tree, const std::string& section, Values& v) {
  for (const auto& [name, value] : tree.items()) {
    const std::string key = section.empty() && name == "bfloat16" ? "bf16" : name;  // as it was called before
    const std::string path = section.empty() ? key : section + "." + key;
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

// --- what they mean ---

// model.half(): all tensors of the model in one format, kernels computing in FP32 inside; no list of exceptions as
// autocast has. The parameters between steps, the optimiser and the clipping stay FP32.
Policy cast_model(const Format& format) {
  Policy policy = pure(format);
  policy.training = {};
  return policy;
}

std::string type_text(const Format& format) { return format == fp32 ? "FP32" : format == fp16 ? "FP16" : "BF16"; }
std::string in_words(double x) { return narrow::detail::scale_text(x); }

void add_setting(std::string& text, std::string_view name, const std::optional<double>& value) {
  if (value) text += ":" + std::string(name) + "=" + in_words(*value);
}

void read_deepspeed_optimiser(Values& v, RunSettings& run) {
  run.clip = v.get("gradient_clipping").value_or(1);
  if (!v.get<std::string>("optimizer.type")) return;
  std::string type = *v.get<std::string>("optimizer.type");
  for (char& c : type) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 'a' - 'A') : c;
  const bool is_adamw = type == "adamw" || (type == "adam" && v.truth("optimizer.params.adam_w_mode", true));
  if (!is_adamw && type != "sgd") {
    v.uncomputed.push_back(type == "adam" ? "adam_w_mode false (the task's optimiser stays, with its learning rate)"
                                          : "optimizer (the task's stays, with its learning rate)");
    return;
  }
  // FusedAdam's and torch.optim.SGD's defaults.
  OptimiserSettings o{.kind = is_adamw ? OptimiserKind::adamw : OptimiserKind::sgd, .beta2 = 0.999};
  o.momentum = v.get("optimizer.params.momentum").value_or(0);
  if (const auto betas = v.get<std::vector<double>>("optimizer.params.betas"))
    o.beta1 = betas->front(), o.beta2 = betas->back();
  o.epsilon = v.get("optimizer.params.eps").value_or(1e-8);
  const bool is_torch = is_adamw && v.truth("optimizer.params.torch_adam");  // torch.optim.AdamW has another default
  o.weight_decay = v.get("optimizer.params.weight_decay").value_or(is_torch ? 0.01 : 0);
  run.optimiser = o;
  run.learning_rate = v.get("optimizer.params.lr").value_or(1e-3);
}

// All parameters of the model in FP16 or BF16; gradients are reduced and accumulated in the
// model's format where nothing else is said (engine.py communication_data_type, get_data_types).
void read_deepspeed(Values& v, Recipe& r) {
  const bool is_fp16 = v.truth("fp16.enabled"), is_bf16 = v.truth("bf16.enabled");
  if (is_fp16 && is_bf16) v.fail("", "fp16 and bf16 are both enabled; DeepSpeed takes one of them");
  for (const char* section : {"torch_autocast", "amp"})
    if (v.truth(std::string(section) + ".enabled"))
      v.fail(section, "is not read here; the recipes bf16-amp and fp16-amp are torch's autocast");
  const Format model = is_fp16 ? fp16 : is_bf16 ? bf16 : fp32;
  const Format sums = v.format("data_types.grad_accum_dtype", model);
  const bool has_zero = v.get("zero_optimization.stage").value_or(0) > 0;
  if (v.format("data_types.param_dtype", model) != model)
    v.fail("data_types.param_dtype", "is not the type that fp16.enabled or bf16.enabled sets");
  if (sums != model && !has_zero)
    v.fail("data_types.grad_accum_dtype", "other than the model's needs ZeRO stage 1 or more");
  const bool low_master = is_fp16   ? v.truth("fp16.fp16_master_weights_and_grads")
                          : is_bf16 ? v.truth("bf16.bf16_master_weights_and_grads")
                                    : false;
  const bool low_states = is_bf16 && v.truth("bf16.bf16_optimizer_states");
  if (low_master && !has_zero)
    v.fail(is_fp16 ? "fp16.fp16_master_weights_and_grads" : "bf16.bf16_master_weights_and_grads",
           "needs ZeRO stage 1 or more");
  if (low_states && !low_master) v.fail("bf16.bf16_optimizer_states", "needs bf16_master_weights_and_grads");

  r.policy = cast_model(model);
  r.policy.training.gradient_accumulation = {.format = sums};
  r.policy.training.reduction = {.format = v.format("communication_data_type", model)};
  r.policy.training.buffers = {.format = v.format("data_types.buffer_dtype", fp32)};
  if (low_master) r.policy.training.parameters = {.format = model};
  if (low_states) r.policy.training.optimiser_state = {.format = model};
  // BF16 scales nothing, but a step with Inf or NaN is skipped all the same.
  if (is_bf16 && v.truth("bf16.check_grad_overflow", true)) r.loss_scaler = "constant:init=1";
  if (const double fixed = v.get("fp16.loss_scale").value_or(0); is_fp16 && fixed > 0) {
    r.loss_scaler = "constant:init=" + in_words(fixed);
  } else if (is_fp16) {
    r.loss_scaler = "deepspeed";
    if (const std::optional<double> power = v.get("fp16.initial_scale_power"))
      r.loss_scaler += ":init=2^" + std::to_string(static_cast<int>(*power));
    add_setting(r.loss_scaler, "min", v.get("fp16.min_loss_scale"));
    add_setting(r.loss_scaler, "growth-interval", v.get("fp16.loss_scale_window"));
    add_setting(r.loss_scaler, "hysteresis", v.get("fp16.hysteresis"));
    if (v.truth("fp16.consecutive_hysteresis")) r.loss_scaler += ":consecutive-hysteresis=1";
  }
  constexpr std::string_view dynamic =
      "initial_scale_power min_loss_scale loss_scale_window hysteresis consecutive_hysteresis";
  if (r.loss_scaler != "deepspeed" && !r.loss_scaler.starts_with("deepspeed:")) v.ignore("fp16.", dynamic);
  if (!is_fp16) v.ignore("fp16.", "loss_scale fp16_master_weights_and_grads");
  if (!is_bf16) v.ignore("bf16.", "check_grad_overflow bf16_master_weights_and_grads bf16_optimizer_states");
  r.what = model == fp32 ? "DeepSpeed: everything in FP32"
                         : "DeepSpeed: the whole model in " + type_text(model) + " (norms and softmax too, unlike " +
                               "autocast), master weights in " + type_text(low_master ? model : fp32);
  r.run.batch = v.get<std::size_t>("train_batch_size");
  r.run.micro_batch = v.get<std::size_t>("train_micro_batch_size_per_gpu");
  r.run.micro_batches = v.get<std::size_t>("gradient_accumulation_steps");
  read_deepspeed_optimiser(v, r.run);
  if (!v.given.contains("gradient_clipping"))
    r.notes.push_back(v.where +
                      ": gradient_clipping is not given: 1, as DeepSpeed has it since 0.19.3 (nothing before)");
}

// FP32 shards, computed in param_dtype; gradients in reduce_dtype on the way, FP32 again for the optimiser.
void read_fsdp(Values& v, Recipe& r) {
  const Format model = v.format("param_dtype", fp32), reduce = v.format("reduce_dtype", model);
  r.policy = cast_model(model);
  r.policy.training.reduction = {.format = reduce};
  r.policy.training.buffers = {.format = v.format("buffer_dtype", fp32)};  // else FSDP leaves them as they are
  if (reduce == fp32) v.ignore("", "keep_low_precision_grads");
  if (v.truth("keep_low_precision_grads"))
    r.policy.training.gradient_accumulation = r.policy.training.clipping = {.format = reduce};
  if (v.given.contains("output_dtype"))
    set_all_roles(r.policy[Operation::loss], {.format = v.format("output_dtype", model)});
  r.what = "FSDP: FP32 shards, everything computed in " + type_text(model) +
           (model == fp32 ? "" : " (norms and softmax too, unlike autocast)") + ", gradients reduced in " +
           type_text(reduce);
  if (model == fp16)
    r.notes.push_back(v.where +
                      ": MixedPrecision scales no loss; --loss-scaler torch has the rule of ShardedGradScaler");
}

// Transformer Engine's recipes on the linears of the blocks (core/fp8_utils.py get_fp8_recipe).
void read_megatron_fp8(const Values& v, Policy& policy) {
  if (!v.given.contains("--fp8-format")) return;
  const bool is_hybrid = v.choice("--fp8-format", "", {"e4m3", "hybrid"}) == 1;
  constexpr Scaling scalings[] = {Scaling::tensor_delayed, Scaling::tensor_current, Scaling::block_1x128, Scaling::mx};
  const Scaling scaling =
      scalings[v.choice("--fp8-recipe", "delayed", {"delayed", "tensorwise", "blockwise", "mxfp8"})];
  const auto operand = [&](const Format& format, Scaling how) {
    Precision p{.format = format, .cast = {.overflow = Overflow::saturate}, .scaling = how};
    if (how == Scaling::mx) p.rule = ScaleRule::cuda_round_up;
    return p;
  };
  set_operands(policy[Operation::linear],
               operand(e4m3, scaling == Scaling::block_1x128 ? Scaling::block_128x128 : scaling),
               operand(e4m3, scaling), operand(is_hybrid ? e5m2 : e4m3, scaling));
  policy.delayed.history = static_cast<std::int64_t>(v.get<std::size_t>("--fp8-amax-history-len").value_or(1));
  policy.delayed.margin = static_cast<std::int64_t>(v.get("--fp8-margin").value_or(0));
  if (policy.delayed.margin < 0) v.fail("--fp8-margin", "must be at least 0");
  policy.delayed.most_recent = v.choice("--fp8-amax-compute-algo", "most_recent", {"most_recent", "max"}) == 0;
}

// Float16Module: the model in FP16 or BF16, the loss in FP32. 1/sqrt(width of a head) is the alpha of the product Q K^T
// (core/transformer/dot_product_attention.py), so scores are rounded once, after it.
void read_megatron(Values& v, Recipe& r) {
  const bool is_fp16 = v.truth("--fp16"), is_bf16 = v.truth("--bf16");
  if (is_fp16 && is_bf16) v.fail("", "--fp16 and --bf16 are both given; Megatron-LM takes one of them");
  const Format model = is_fp16 ? fp16 : is_bf16 ? bf16 : fp32;
  // BF16 accumulates and reduces in FP32 unless --grad-reduce-in-bf16; FP16 does where it is told to.
  const bool wide = is_bf16 ? !v.truth("--grad-reduce-in-bf16") : v.truth("--accumulate-allreduce-grads-in-fp32");
  if (is_bf16 && !wide && v.truth("--accumulate-allreduce-grads-in-fp32"))
    v.fail("", "--accumulate-allreduce-grads-in-fp32 and --grad-reduce-in-bf16 are both given");
  r.policy = cast_model(model);
  r.policy.training.buffers = {.format = model};  // the module is cast with its buffers
  r.policy[Operation::loss] = {};
  r.policy[Operation::scores].output = r.policy[Operation::scale].activations = {};
  if (v.truth("--fp32-residual-connection")) {
    r.policy[Operation::residual] = {};
    for (const Role role : {Role::activations, Role::input_gradients}) r.policy[Operation::norm].role(role) = {};
    for (const Role role : {Role::output, Role::gradients}) r.policy[Operation::embedding].role(role) = {};
  }
  r.policy.training.gradient_accumulation = r.policy.training.reduction = {.format = wide ? fp32 : model};
  // The fused product adds weight gradients to the FP32 buffer before they are rounded.
  if (wide && !v.truth("--no-gradient-accumulation-fusion"))
    for (const Operation o : {Operation::linear, Operation::logits}) r.policy[o].weight_gradients = {};
  read_megatron_fp8(v, r.policy);
  if (v.given.contains("--loss-scale") && (is_fp16 || is_bf16)) {
    r.loss_scaler = "constant:init=" + in_words(*v.get("--loss-scale"));
  } else if (is_fp16) {
    r.loss_scaler = "megatron";
    add_setting(r.loss_scaler, "init", v.get("--initial-loss-scale"));
    add_setting(r.loss_scaler, "min", v.get("--min-loss-scale"));
    add_setting(r.loss_scaler, "growth-interval", v.get("--loss-scale-window"));
    add_setting(r.loss_scaler, "hysteresis", v.get("--hysteresis"));
  }
  if (!r.loss_scaler.starts_with("megatron"))
    v.ignore("", "--initial-loss-scale --min-loss-scale --loss-scale-window --hysteresis");
  if (!is_fp16 && !is_bf16) v.ignore("", "--loss-scale");
  r.what = "Megatron-LM: the model in " + type_text(model) +
           ", the loss and master weights in FP32, gradients summed in " + type_text(wide ? fp32 : model) +
           (v.given.contains("--fp8-format") ? ", FP8 linears" : "");
  r.run.batch = v.get<std::size_t>("--global-batch-size");
  r.run.micro_batch = v.get<std::size_t>("--micro-batch-size");
  r.run.clip = v.get("--clip-grad").value_or(1);
  r.run.learning_rate = v.get("--lr");
  const std::string optimiser = v.get<std::string>("--optimizer").value_or("adam");
  if (optimiser != "adam" && optimiser != "sgd") {
    v.uncomputed.push_back("--optimizer (the task's optimiser stays)");
    return;
  }
  r.run.optimiser = OptimiserSettings{.kind = optimiser == "adam" ? OptimiserKind::adamw : OptimiserKind::sgd,
                                      .momentum = v.get("--sgd-momentum").value_or(0.9),
                                      .beta1 = v.get("--adam-beta1").value_or(0.9),
                                      .beta2 = v.get("--adam-beta2").value_or(0.999),
                                      .epsilon = v.get("--adam-eps").value_or(1e-8),
                                      .weight_decay = v.get("--weight-decay").value_or(0.01)};
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
  for (const std::string_view line : split(text, "\r\n"))
    for (const std::string_view word : split(line.substr(0, line.find('#')), " \t"))
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
  for (const std::string_view word : split(text, ", ")) {
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
  if (found.empty() && !tree.empty() && did_you_mean(tree.begin().key(), split(own, " ")).empty())
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

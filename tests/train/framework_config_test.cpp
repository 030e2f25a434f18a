// Defaults are those of DeepSpeed 0.19.6, PyTorch's MixedPrecision and Megatron-LM d98e8a6, read in their sources.
#include "narrow/train/policy/framework_config.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "narrow/train/policy/framework_keys.hpp"
#include "tensor/files.hpp"
#include "support/contains.hpp"

using namespace narrow::train;
using narrow::Format;
using narrow::operator""_fmt;
using test::error_of;

namespace {

constexpr Format fp32 = "fp32"_fmt, fp16 = "fp16"_fmt, bf16 = "bf16"_fmt, e4m3 = "e4m3"_fmt, e5m2 = "e5m2"_fmt;

Recipe read(const std::string& json) { return parse_framework_json(json, "d/c.json").value(); }
Recipe megatron(const std::string& flags) { return framework_recipe("megatron:" + flags).value(); }
std::string refused(const std::string& json) {
  return error_of([&] { read(json); });
}
std::string notes_of(const Recipe& r) {
  std::string all;
  for (const std::string& note : r.notes) all += note + "\n";
  return all;
}

// All operations but those on the list have every role in the format, and nothing inside is rounded.
void check_model(const Policy& policy, const Format& format, const std::vector<Operation>& but = {}) {
  for (std::size_t i = 0; i < operation_count; ++i) {
    const auto o = static_cast<Operation>(i);
    if (std::find(but.begin(), but.end(), o) != but.end()) continue;
    CAPTURE(std::string(name_of(o)));
    for (std::size_t r = 0; r < role_count; ++r)
      CHECK(policy[o].role(static_cast<Role>(r)) == Precision{.format = format});
    CHECK(policy[o].arithmetic.format == fp32);
  }
}

std::string value_for(Type type) {
  const char* values[] = {"{\"x\": [1]}", "{}",   "false", "\"SGD\"",    "\"fp32\"", "1", "4", "3",
                          "0.5",          "0.25", "0.5",   "[0.5, 0.75]"};
  return values[static_cast<int>(type)];
}

}  // namespace

TEST_CASE("train: DeepSpeed's defaults cast the whole model and keep FP32 master weights") {
  const Recipe half = read(R"({"fp16": {"enabled": true}})");
  CHECK(half.name == "c");
  CHECK(half.loss_scaler == "deepspeed");  // 2^16, 1000, 2, 1 are the policy's own
  check_model(half.policy, fp16);
  const TrainingPolicy& t = half.policy.training;
  CHECK(t.reduction.format == fp16);
  CHECK(t.gradient_accumulation.format == fp16);
  for (const Precision* p : {&t.parameters, &t.optimiser_state, &t.update, &t.clipping}) CHECK(p->format == fp32);
  CHECK(half.run.clip == 1);
  CHECK_FALSE(half.run.optimiser);

  const Recipe brain = read(R"({"bfloat16": {"enabled": true}})");
  check_model(brain.policy, bf16);
  CHECK(brain.loss_scaler == "constant:init=1");  // nothing is scaled, a step with Inf or NaN is skipped
  CHECK(read(R"({"bf16": {"enabled": true, "check_grad_overflow": false}})").loss_scaler == "none");
  const Recipe off = read(R"({"fp16": {"enabled": false, "loss_scale": 4}})");
  check_model(off.policy, fp32);
  CHECK(off.loss_scaler == "none");
}

TEST_CASE("train: each of DeepSpeed's keys sets what it says") {
  const Recipe r = read(R"({"fp16": {"enabled": true, "loss_scale": 0.0, "initial_scale_power": 12, "hysteresis": 3,
      "loss_scale_window": 2e1, "min_loss_scale": 4, "consecutive_hysteresis": true,
      "fp16_master_weights_and_grads": true},
    "communication_data_type": "bf16", "data_types": {"grad_accum_dtype": "fp32"}, "gradient_clipping": 0,
    "train_batch_size": 32, "gradient_accumulation_steps": 4, "zero_optimization": {"stage": 2},
    "optimizer": {"type": "Adam", "params": {"lr": 0.01, "betas": [0.5, 0.75], "eps": 1e-6, "weight_decay": 0.25}}})");
  CHECK(r.loss_scaler == "deepspeed:init=2^12:min=4:growth-interval=20:hysteresis=3:consecutive-hysteresis=1");
  CHECK(r.policy.training.parameters.format == fp16);
  CHECK(r.policy.training.optimiser_state.format == fp32);
  CHECK(r.policy.training.reduction.format == bf16);
  CHECK(r.policy.training.gradient_accumulation.format == fp32);
  CHECK(*r.run.batch == 32);
  CHECK(*r.run.micro_batches == 4);
  CHECK(r.run.clip == 0);
  CHECK(r.run.learning_rate == 0.01);
  const OptimiserSettings& o = *r.run.optimiser;
  CHECK((o.beta1 == 0.5 && o.beta2 == 0.75 && o.epsilon == 1e-6 && o.weight_decay == 0.25));
  CHECK(read(R"({"fp16": {"enabled": true, "loss_scale": 128}})").loss_scaler == "constant:init=128");
  const Recipe low = read(R"({"bf16": {"enabled": true, "bf16_master_weights_and_grads": true,
    "bf16_optimizer_states": true}, "zero_optimization": {"stage": 1}})");
  CHECK(low.policy.training.parameters.format == bf16);
  CHECK(low.policy.training.optimiser_state.format == bf16);
  const Recipe adam = read(R"({"optimizer": {"type": "AdamW", "params": {}}})");  // FusedAdam's defaults
  CHECK(
      (adam.run.optimiser->beta2 == 0.999 && adam.run.optimiser->weight_decay == 0 && adam.run.learning_rate == 1e-3));
}

TEST_CASE("train: FSDP computes everything in param_dtype and reduces in reduce_dtype") {
  const Recipe r = framework_recipe("fsdp:param_dtype=torch.bfloat16,reduce_dtype=float32").value();
  check_model(r.policy, bf16);  // norms and softmax too
  CHECK(r.policy.training.parameters.format == fp32);
  CHECK(r.policy.training.reduction.format == fp32);
  CHECK(r.loss_scaler == "none");
  CHECK(r.run.text.empty());
  CHECK(contains(r.what, "norms and softmax too, unlike autocast"));
  const Recipe half =
      read(R"({"param_dtype": "float16", "keep_low_precision_grads": true, "output_dtype": "float32"})");
  check_model(half.policy, fp16, {Operation::loss});
  CHECK(half.policy[Operation::loss].activations.format == fp32);
  CHECK(half.policy.training.reduction.format == fp16);  // of param_dtype where it is not given
  CHECK(half.policy.training.clipping.format == fp16);
  CHECK(contains(notes_of(half), "scales no loss"));
  check_model(framework_recipe("fsdp:reduce_dtype=bf16,param_dtype=None")->policy, fp32);
  CHECK(r.policy.training.buffers.format == fp32);
  CHECK(framework_recipe("fsdp:buffer_dtype=float16")->policy.training.buffers.format == fp16);
}

TEST_CASE("train: Megatron's flags set what they say") {
  const std::vector<Operation> own = {Operation::loss, Operation::scores, Operation::scale, Operation::linear,
                                      Operation::logits};
  const Recipe half = megatron("--fp16");
  check_model(half.policy, fp16, {Operation::loss, Operation::scores, Operation::scale});
  CHECK(half.policy[Operation::loss].activations.format == fp32);
  CHECK(half.policy[Operation::scores].output.format == fp32);  // rounded once, after 1/sqrt(width)
  CHECK(half.policy[Operation::scale].output.format == fp16);
  CHECK(half.loss_scaler == "megatron");  // 2^32, 1000, 2, 1
  CHECK(half.policy.training.reduction.format == fp16);
  CHECK(half.run.clip == 1);
  CHECK((half.run.optimiser->beta2 == 0.999 && half.run.optimiser->weight_decay == 0.01 && !half.run.learning_rate));
  CHECK(megatron("--fp16 --accumulate-allreduce-grads-in-fp32").policy.training.reduction.format == fp32);
  CHECK(megatron("--fp16 --loss-scale=128").loss_scaler == "constant:init=128");
  const test::Folder folder;
  const std::string file = folder.write("args.txt",
                                        "# a comment\n--fp16 \\\n --initial-loss-scale 4096 --min-loss-scale 0.5\n"
                                        "--loss-scale-window 1e2 --hysteresis 4 --lr 3e-4 --clip-grad 0.5\n");
  const Recipe from_file = megatron(file);
  CHECK(from_file.name == "args");
  CHECK(from_file.loss_scaler == "megatron:init=2^12:min=0.5:growth-interval=100:hysteresis=4");
  CHECK((from_file.run.learning_rate == 3e-4 && from_file.run.clip == 0.5));
  CHECK(expand_policy("megatron:" + file) == from_file.loss_scaler);

  const Recipe brain = megatron("--bf16");
  check_model(brain.policy, bf16, own);
  CHECK(brain.loss_scaler == "none");
  CHECK(brain.policy.training.gradient_accumulation.format == fp32);  // without being told
  CHECK(brain.policy[Operation::linear].weight_gradients.format == fp32);
  CHECK(megatron("--bf16 --no-gradient-accumulation-fusion").policy[Operation::linear].weight_gradients.format == bf16);
  CHECK(megatron("--bf16 --grad-reduce-in-bf16").policy.training.reduction.format == bf16);
  CHECK(megatron("--bf16 --fp32-residual-connection").policy[Operation::residual].output.format == fp32);

  const std::pair<const char*, Scaling> recipes[] = {{"delayed", Scaling::tensor_delayed},
                                                     {"tensorwise", Scaling::tensor_current},
                                                     {"blockwise", Scaling::block_1x128},
                                                     {"mxfp8", Scaling::mx}};
  for (const auto& [name, scaling] : recipes) {
    const Policy p = megatron("--bf16 --fp8-format hybrid --fp8-recipe " + std::string(name)).policy;
    const OperationPolicy& linear = p[Operation::linear];
    CHECK((linear.activations.scaling == scaling && linear.activations.format == e4m3));
    CHECK((linear.gradients.scaling == scaling && linear.gradients.format == e5m2));
    CHECK((p.delayed.history == 1 && p.delayed.most_recent));
    CHECK(p[Operation::logits].activations.format == bf16);
  }
  const Policy e4m3_only = megatron(
                               "--fp8-format e4m3 --fp8-amax-history-len 16 --fp8-amax-compute-algo max "
                               "--fp8-margin 2")
                               .policy;
  CHECK(e4m3_only[Operation::linear].gradients.format == e4m3);
  CHECK((e4m3_only.delayed.history == 16 && e4m3_only.delayed.margin == 2 && !e4m3_only.delayed.most_recent));
}

TEST_CASE("train: every key of the tables is taken and those without effect are named") {
  for (const std::span<const KeyRow> table :
       {std::span<const KeyRow>(deepspeed_keys), std::span<const KeyRow>(fsdp_keys)})
    for (const KeyRow& row : table) {
      std::istringstream keys{std::string(row.keys)};
      for (std::string key; keys >> key;) {
        if (key.ends_with('*')) key.back() = 'x';
        std::string json = "{\"" + key + "\": " + value_for(row.type) + "}", path = key;
        for (std::string rest(row.section); !rest.empty();) {
          const std::size_t dot = rest.rfind('.');
          const std::string section = rest.substr(dot == std::string::npos ? 0 : dot + 1);
          json = "{\"" + section + "\": " + json + "}", path = section + "." + path;
          rest = dot == std::string::npos ? "" : rest.substr(0, dot);
        }
        if (path == "data_types.grad_accum_dtype" || path == "data_types.param_dtype") json.insert(1, "\"bf16\": {}, ");
        CAPTURE(json);
        const std::string notes = notes_of(read(json));
        // Alone in its file such a key is idle: its section is not enabled, its gradients are FP32.
        const bool is_idle =
            ((row.section == "fp16" || row.section == "bf16") && key != "enabled") || key == "keep_low_precision_grads";
        CHECK(contains(notes, " " + path + "\n") == (row.use != Use::read || is_idle));
        CHECK(contains(notes, "not computed here") == (row.use == Use::uncomputed && row.type != Type::truth));
        if (row.type != Type::any && row.type != Type::word)
          CHECK(contains(refused(json.replace(json.rfind(value_for(row.type)), value_for(row.type).size(), "\"?\"")),
                         path + ": must be "));
      }
    }
  for (const KeyRow& row : megatron_keys) {
    std::istringstream flags{std::string(row.keys)};
    for (std::string flag; row.type != Type::word && flags >> flag;) {
      if (flag.ends_with('*')) flag.back() = 'x';
      CAPTURE(flag);
      const std::string value = row.type == Type::truth || row.type == Type::any ? "" : " 3";
      if (row.type == Type::fraction)
        CHECK(contains(error_of([&] { megatron(flag + value); }), flag + ": must be a number"));
      else
        CHECK(contains(notes_of(megatron(flag + value)), " " + flag + "\n") ==
              (row.use != Use::read || flag.find("loss-scale") != std::string::npos || flag == "--hysteresis"));
    }
  }
  for (const char* used : {R"({"fp16": {"enabled": true, "hysteresis": 3, "initial_scale_power": 4}})",
                           R"({"fp16": {"enabled": true, "loss_scale": 128}})",
                           R"({"bf16": {"enabled": true, "check_grad_overflow": false}})"})
    CHECK_FALSE(contains(notes_of(read(used)), "no effect"));
  CHECK(
      contains(notes_of(read(R"({"fp16": {"enabled": true, "loss_scale": 1, "hysteresis": 3}})")), "fp16.hysteresis"));
  CHECK_FALSE(contains(notes_of(megatron("--fp16 --initial-loss-scale 65536 --hysteresis 3")), "no effect"));
  CHECK(contains(notes_of(megatron("--bf16 --initial-loss-scale 65536")), "no effect"));
  CHECK(read(R"({"data_types": {"buffer_dtype": "fp16"}})").policy.training.buffers.format == fp16);
  CHECK(megatron("--bf16").policy.training.buffers.format == bf16);
  CHECK(read(R"({"optimizer": {"type": "AdamW", "params": {"torch_adam": true}}})").run.optimiser->weight_decay ==
        0.01);
}

TEST_CASE("train: a framework's file is refused with its section and key") {
  CHECK(contains(
      refused(R"({"fp16": {"loss_scal": 1}})"),
      "'d/c.json': fp16: key 'loss_scal' is unknown to DeepSpeed; did you mean 'loss_scale'? read here: enabled"));
  CHECK(contains(refused(R"({"trian_batch_size": 3})"), "did you mean 'train_batch_size'?"));
  CHECK(contains(refused(R"({"fp16.enabled": true, "fp16": {}})"), "key 'fp16.enabled' is unknown"));
  CHECK(contains(refused(R"({"fp16": {"enabled": true}, "bf16": {"enabled": true}})"), "both enabled"));
  CHECK(contains(refused(R"({"bf16": {"enabled": true}, "bfloat16": {"enabled": false}})"),
                 "bf16: is given twice: also as bfloat16"));
  CHECK(contains(refused(R"({"fp16": {"enabled": true, "loss_scale_window": 0}})"),
                 "fp16.loss_scale_window: must be an integer from 1"));
  CHECK(contains(refused(R"({"fp16": {"enabled": true, "loss_scale": 1e300}})"), "fp16.loss_scale: must be a number"));
  CHECK(contains(refused(R"({"fp16": {"enabled": true, "hysteresis": 1.5}})"), "fp16.hysteresis: must be an integer"));
  CHECK(
      contains(refused(R"({"fp16": {"enabled": true, "fp16_master_weights_and_grads": true}})"), "needs ZeRO stage 1"));
  CHECK(contains(refused(R"({"bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"}})"), "needs ZeRO"));
  CHECK(contains(refused(R"({"bf16": {"enabled": true}, "data_types": {"param_dtype": "fp16"}})"),
                 "data_types.param_dtype"));
  CHECK(contains(refused(R"({"torch_autocast": {"enabled": true}})"), "bf16-amp and fp16-amp"));
  CHECK(contains(refused(R"({"fp16": {}, "base": "fp32"})"), "keys of different files, 'base' and 'fp16'"));
  CHECK(contains(refused(R"({"param_dtype": "float8"})"), "param_dtype: must be float32, float16 or bfloat16"));
  for (const char* text :
       {"megatron:--fp16 --bf16", "megatron:--fp61", "megatron:--hysteresis", "megatron:--fp16 3",
        "megatron:--fp8-format e5m2", "megatron:no-such-file", "deepspeed:", "fsdp:param_dtype",
        "fsdp:param_dtype=bf16,param_dtype=bf16", "fsdp:parm_dtype=bf16", "megatron:--fp16 --min-loss-scale 2^40"})
    CHECK_MESSAGE(!error_of([&] { framework_recipe(text); }).empty(), text);
  CHECK_FALSE(framework_recipe("fp16-amp"));
  CHECK_FALSE(parse_framework_json(R"({"base": "fp32"})", "x"));
  CHECK_FALSE(parse_framework_json("{}", "x"));
  CHECK(contains(notes_of(read(R"({"train_batch_size": "auto", "fp16": {"enabled": "auto"}})")),
                 "taken as not given: train_batch_size fp16.enabled\n"));
}

TEST_CASE("train: hostile JSON is one printable line") {
  std::string deep, number(100000, '9');
  for (int i = 0; i < 100000; ++i) deep += "{\"fp16\":";
  for (const std::string& json :
       {deep, std::string(100000, '['), "{\"fp16\": {\"loss_scale\": " + number + "}}",
        std::string("{\"fp16\": {\"a\\u0001\\u001b[31m\": 1}}"), std::string("{\"fp16\": {\"\xff\": 1}}"),
        std::string("{\"fp16\": {\"loss_scale\": NaN}}"), std::string("{\"fp16\": {\"a\": 1, \"a\": 1}}"),
        std::string("{\"fp16\": {\"enabled\": {}}}"), std::string("\0{", 2), std::string("")}) {
    const std::string error = refused(json);
    CAPTURE(error.substr(0, 300));
    CHECK(error.starts_with("'d/c.json': "));
    CHECK(error.size() < 400);
    CHECK(std::all_of(error.begin(), error.end(), [](char c) { return c >= ' ' && c <= '~'; }));
  }
  CHECK(contains(refused("{\"fp16\": {\"a\": 1, \"a\": 1}}"), "'fp16': key 'a' is given twice"));
}

TEST_CASE("train: batch and micro-batches and ranks follow from those that are given") {
  using Size = std::optional<std::size_t>;
  const auto resolve = [](Size batch, Size micro, Size parts, Size ranks) {
    const Batches b = resolve_batches({.batch = batch, .micro_batch = micro, .micro_batches = parts}, ranks, 64);
    return std::vector<std::size_t>{b.batch, b.micro_batches, b.ranks};
  };
  using Sizes = std::vector<std::size_t>;
  CHECK(resolve({}, {}, {}, {}) == Sizes{64, 1, 1});
  CHECK(resolve(32, {}, {}, {}) == Sizes{32, 1, 1});
  CHECK(resolve({}, {}, 4, 2) == Sizes{64, 4, 2});
  CHECK(resolve({}, 4, {}, 2) == Sizes{8, 1, 2});
  CHECK(resolve({}, 4, 3, 2) == Sizes{24, 3, 2});
  CHECK(resolve(32, 4, {}, 2) == Sizes{32, 4, 2});
  CHECK(resolve(32, 4, 2, {}) == Sizes{32, 2, 4});
  for (const auto& [batch, micro, parts, ranks] :
       {std::tuple<Size, Size, Size, Size>{32, 5, {}, {}}, {32, 4, 2, 2}, {4, 8, {}, {}}, {1 << 20, {}, {}, {}}})
    CHECK_FALSE(error_of([&, b = batch, m = micro, p = parts, r = ranks] { resolve(b, m, p, r); }).empty());
}

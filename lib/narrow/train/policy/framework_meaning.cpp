// What the settings of DeepSpeed, FSDP and Megatron-LM mean in precision, with their own defaults.
#include "narrow/train/policy/framework_values.hpp"
#include "narrow/train/policy/recipe_parts.hpp"

namespace narrow::train::detail {

namespace {

constexpr Format fp32 = "fp32"_fmt, fp16 = "fp16"_fmt, bf16 = "bf16"_fmt, e4m3 = "e4m3"_fmt, e5m2 = "e5m2"_fmt;

// model.half(): all tensors of the model in one format, kernels computing in FP32 inside; no list of exceptions as
// autocast has. The parameters between steps, the optimiser and the clipping stay FP32.
Policy cast_model(const Format& format) {
  Policy policy = pure(format);
  policy.training = {};
  return policy;
}

std::string type_text(const Format& format) { return format == fp32 ? "FP32" : format == fp16 ? "FP16" : "BF16"; }

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

}  // namespace

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

}  // namespace narrow::train::detail

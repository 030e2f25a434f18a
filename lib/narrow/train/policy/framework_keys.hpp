// Which keys the configurations of other frameworks have, what they may be, and whether they change numbers here. A key
// is one word in a row. DeepSpeed 0.19.6: runtime/{precision_config,constants,config}.py, runtime/zero/config.py;
// PyTorch: distributed/fsdp/api.py; Megatron-LM (d98e8a6): training/arguments.py,
// core/transformer/transformer_config.py.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace narrow::train {

enum class Type { any, section, truth, word, format, stage, power, count, positive, not_negative, fraction, pair };
struct TypeRow {
  std::string_view what;
  double least, most;  // of numbers
};
inline constexpr TypeRow type_table[] = {{"anything", 0, 0},
                                         {"an object in braces", 0, 0},
                                         {"true or false", 0, 0},
                                         {"a word", 0, 0},
                                         {"float32, float16 or bfloat16", 0, 0},
                                         {"an integer from 0 to 3", 0, 3},
                                         {"an integer from -126 to 127", -126, 127},
                                         {"an integer from 1 to 10^9", 1, 1e9},
                                         {"a number from 2^-126 to 2^127", 0x1p-126, 0x1p127},
                                         {"a number from 0 to 2^127", 0, 0x1p127},
                                         {"a number of at least 0 and below 1", 0, 0x1.fffffffffffffp-1},
                                         {"two numbers of at least 0 and below 1", 0, 0x1.fffffffffffffp-1}};

// read: changes numbers here. silent: does not. uncomputed: would, but is not computed here.
enum class Use { read, silent, uncomputed };
struct KeyRow {
  std::string_view section;  // "" at the top
  Type type;
  Use use;
  std::string_view keys;  // with spaces between; * is any end
};

inline constexpr KeyRow deepspeed_keys[] = {
    {"", Type::section, Use::read, "fp16 bf16 optimizer data_types zero_optimization torch_autocast amp"},
    {"", Type::count, Use::read, "train_batch_size train_micro_batch_size_per_gpu gradient_accumulation_steps"},
    {"", Type::not_negative, Use::read, "gradient_clipping"},
    {"", Type::format, Use::read, "communication_data_type"},
    {"", Type::any, Use::silent,
     "steps_per_print wall_clock_breakdown memory_breakdown dump_state log_level sparse_gradients disable_allgather "
     "managed_gradient_accumulation zero_allow_untested_optimizer zero_force_ds_cpu_optimizer activation_checkpointing "
     "aio comms_logger tensorboard wandb csv_monitor comet flops_profiler autotuning elasticity checkpoint nebula "
     "timers compile expert_parallel datastates_ckpt dataloader_drop_last pipeline hybrid_engine tensor_parallel "
     "sequence_parallel_size vocabulary_size "
     "seq_parallel_communication_data_type graph_harvesting use_data_before_expert_parallelism"},
    {"", Type::any, Use::uncomputed,
     "scheduler prescale_gradients gradient_predivide_factor gradient_allreduce_op sparse_attention eigenvalue "
     "progressive_layer_drop compression_training quantize_training weight_quantization curriculum_learning "
     "data_efficiency"},
    {"fp16", Type::truth, Use::read, "enabled consecutive_hysteresis fp16_master_weights_and_grads"},
    {"fp16", Type::truth, Use::silent, "auto_cast"},  // of the inputs, which the first product takes in FP16 anyway
    {"fp16", Type::not_negative, Use::read, "loss_scale"},
    {"fp16", Type::power, Use::read, "initial_scale_power"},
    {"fp16", Type::count, Use::read, "loss_scale_window hysteresis min_loss_scale"},
    {"bf16", Type::truth, Use::read, "enabled check_grad_overflow bf16_master_weights_and_grads bf16_optimizer_states"},
    {"bf16", Type::truth, Use::silent, "immediate_grad_update"},
    {"optimizer", Type::word, Use::read, "type"},
    {"optimizer", Type::section, Use::read, "params"},
    {"optimizer", Type::any, Use::silent, "legacy_fusion"},
    {"optimizer.params", Type::positive, Use::read, "lr"},
    {"optimizer.params", Type::pair, Use::read, "betas"},
    {"optimizer.params", Type::not_negative, Use::read, "eps weight_decay"},
    {"optimizer.params", Type::fraction, Use::read, "momentum"},
    {"optimizer.params", Type::truth, Use::read, "adam_w_mode torch_adam"},
    {"optimizer.params", Type::any, Use::silent, "cuda_aware comm_backend_name"},
    {"optimizer.params", Type::any, Use::uncomputed,
     "amsgrad nesterov dampening bias_correction freeze_step max_coeff min_coeff fp32_optimizer_states muon_lr adam_lr "
     "ns_method"},
    {"data_types", Type::format, Use::read, "grad_accum_dtype param_dtype buffer_dtype"},
    {"zero_optimization", Type::stage, Use::silent, "stage"},
    {"zero_optimization", Type::any, Use::silent,
     "contiguous_gradients reduce_scatter reduce_bucket_size overlap_comm allgather_partitions allgather_bucket_size "
     "cpu_offload* offload_* stage3_* sub_group_size round_robin_gradients load_from_fp32_weights elastic_checkpoint "
     "ignore_unused_parameters mics_* zero_hpz_partition_size memory_efficient_linear use_multi_rank_bucket_allreduce "
     "leaf_module legacy_stage1 override_module_apply pipeline_loading_checkpoint log_trace_cache_warnings "
     "enable_sanity_checks save_muon_momentum_buffer_in_memory"},
    {"zero_optimization", Type::any, Use::uncomputed, "zero_quantized_* zeropp_loco_param zenflow"},
    {"torch_autocast", Type::truth, Use::read, "enabled"},
    {"torch_autocast", Type::any, Use::silent, "dtype lower_precision_safe_modules"},
    {"amp", Type::truth, Use::read, "enabled"},
    {"amp", Type::any, Use::silent, "*"}};

inline constexpr KeyRow fsdp_keys[] = {
    {"", Type::format, Use::read, "param_dtype reduce_dtype buffer_dtype output_dtype"},  // the last of fully_shard's
    {"", Type::truth, Use::read, "keep_low_precision_grads"},
    {"", Type::truth, Use::silent, "cast_forward_inputs cast_root_forward_inputs"},
    {"", Type::any, Use::uncomputed, "_module_classes_to_ignore"}};

inline constexpr KeyRow megatron_keys[] = {
    {"", Type::truth, Use::read,
     "--fp16 --bf16 --accumulate-allreduce-grads-in-fp32 --grad-reduce-in-bf16 --no-gradient-accumulation-fusion "
     "--fp32-residual-connection"},
    {"", Type::positive, Use::read, "--loss-scale --initial-loss-scale --min-loss-scale --lr"},
    {"", Type::count, Use::read,
     "--loss-scale-window --hysteresis --fp8-amax-history-len --global-batch-size --micro-batch-size"},
    {"", Type::not_negative, Use::read, "--clip-grad --weight-decay --adam-eps"},
    {"", Type::fraction, Use::read, "--adam-beta1 --adam-beta2 --sgd-momentum"},
    {"", Type::power, Use::read, "--fp8-margin"},
    {"", Type::word, Use::read, "--fp8-format --fp8-recipe --fp8-amax-compute-algo --optimizer"},
    // Softmax computes in FP32 inside, whatever it reads and writes.
    {"", Type::truth, Use::silent, "--attention-softmax-in-fp32"},
    {"", Type::truth, Use::uncomputed, "--apply-query-key-layer-scaling"},
    {"", Type::any, Use::silent,
     "--tensor-model-parallel-size --pipeline-model-parallel-size --context-parallel-size --expert-model-parallel-size "
     "--num-layers-per-virtual-pipeline-stage --sequence-parallel --use-distributed-optimizer --overlap-* "
     "--distributed-* --transformer-impl --use-flash-attn --attention-backend --recompute-* --use-mcore-models --moe-* "
     "--num-layers --hidden-size --ffn-hidden-size --num-attention-heads --num-query-groups --group-query-attention "
     "--kv-channels --seq-length --max-position-embeddings --position-embedding-type --rotary-* --normalization "
     "--swiglu --disable-bias-linear --untie-embeddings-and-output-weights --init-method-std --vocab-* --merge-file "
     "--make-vocab-size-divisible-by --tokenizer-* --data-* --split --mock-data --dataloader-type --num-workers "
     "--train-iters --train-samples --eval-* --exit-* --save* --load* --log-* --tensorboard-* --wandb-* --timing-* "
     "--profile* --seed --no-load-* --no-save-* --ckpt-* --use-checkpoint-args --manual-gc* --fp8-param-gather "
     "--fp8-interval --no-masked-softmax-fusion --no-bias-gelu-fusion --no-bias-dropout-fusion --num-experts "
     "--check-for-nan-in-loss-and-grad --no-check-for-nan-in-loss-and-grad"},
    {"", Type::any, Use::uncomputed,
     "--lr-* --min-lr --start-weight-decay --end-weight-decay --weight-decay-incr-style --rampup-batch-size "
     "--attention-dropout --hidden-dropout --fp16-lm-cross-entropy --main-grads-dtype --main-params-dtype "
     "--exp-avg-dtype --exp-avg-sq-dtype --use-precision-aware-optimizer --output-logit-dtype --no-fp8-wgrad "
     "--fp8-dot-product-attention --fp8-multi-head-attention --first-last-layers-bf16 --fp4-format --fp4-recipe"}};

}  // namespace narrow::train

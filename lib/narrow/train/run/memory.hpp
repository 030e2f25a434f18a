// What a training step keeps in memory under a precision policy: bytes of a parameter, of a token, and of a device that
// shares them with others. Counts; buffers of libraries and of communication, and fragmentation, are not in it.
#pragma once

#include <array>
#include <string_view>

#include "narrow/train/policy/policy.hpp"
#include "narrow/train/run/optimiser.hpp"

namespace narrow::train {

// A transformer by its sizes; real numbers, because products of them leave the integers.
struct TransformerSizes {
  double layers = 32, width = 4096, feed_forward = 16384, heads = 32, vocabulary = 32000, context = 4096;
  bool fused_attention = true;  // such a kernel (FlashAttention) computes its softmax again and keeps none

  // Four width x width matrices of attention, two of the feed-forward part, two tables of the vocabulary (in, out).
  double parameters() const noexcept {
    return layers * (4 * width * width + 2 * width * feed_forward) + 2 * vocabulary * width;
  }
};

// Bytes of one element; scales of blocks are part of the price. TF32 lies in memory as the FP32 word it is cut from.
double bytes_of(const Precision& precision);

// Of one parameter.
struct ParameterBytes {
  double kept = 0;          // between steps: the master weights where there is a copy
  double copy = 0;          // in the format of the products, where that is another
  double gradient = 0;      //
  double moments = 0;       // AdamW two, SGD with momentum one
  double compensation = 0;  // Kahan's

  double sum() const noexcept { return kept + copy + gradient + moments + compensation; }
};
ParameterBytes parameter_bytes(const Policy& policy, OptimiserKind optimiser = OptimiserKind::adamw);

// Stages of ZeRO (Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter models", 2020), as
// FSDP calls them: NO_SHARD 0, SHARD_GRAD_OP 2, FULL_SHARD 3.
//   1  what only the update reads is shared: moments, compensation, and master weights (there is a copy)
//   2  and gradients
//   3  and what the products read
// The part of a parameter's bytes that one of `group` devices holds. Stage 3 gathers one layer at a time; not counted.
ParameterBytes shard(const ParameterBytes& bytes, int stage, double group);

// What is thrown away in the forward pass and computed again in the backward pass.
enum class Recompute : std::uint8_t {
  none,
  selective,  // the softmax of attention; nothing is left to do for a fused kernel
  full        // everything but the input of each layer
};
inline constexpr std::array<std::string_view, 3> recompute_names = {"none", "selective", "full"};

// What one token leaves in one layer for the backward pass, without dropout:
//   inputs of two norms (the residual stream)                         2 w     full: 1 w, and nothing else
//   inputs of the products: QKV, projection, up, down                 3 w + f
//   queries, keys, values                                             3 w
//   input of the activation function                                  f
//   softmax: one row of `context` a head                              heads * context     selective, fused: nothing
// In 16 bits this is 32 w + 2 heads * context bytes for f = 4 w: the count of Korthikanti et al., "Reducing activation
// recomputation in large transformer models", 2022, less its dropout.
struct ActivationBytes {
  double residual = 0, products = 0, attention = 0, activation = 0, softmax = 0;
  double sum() const noexcept { return residual + products + attention + activation + softmax; }
};
ActivationBytes activation_bytes(const Policy& policy, const TransformerSizes& sizes,
                                 Recompute recompute = Recompute::none);

// Of one token behind the last layer: inputs of the last norm and of the last product, and at the begin of the backward
// pass the logits and their gradient in the format of that product, the log-softmax and its gradient in that of the
// loss. This is what a cross entropy that is one call among others holds; a kernel fused with the product holds less.
double head_bytes(const Policy& policy, const TransformerSizes& sizes);

// The most that one token has in memory at a time: what all layers keep, and either the head (the backward pass begins)
// or what is computed again for one layer (it goes on), whichever is more.
double peak_activation_bytes(const Policy& policy, const TransformerSizes& sizes, Recompute recompute);

}  // namespace narrow::train

// A transformer block as GPT-2 has it, every operation with the bits of a GPU: layer norm, a product for Q, K and V,
// causal attention, a product, the sum with what came in; layer norm, a product, GELU, a product, the sum.
//
//   const GptBlock block = recorded_gpt_block("bf16"_fmt, 64, 2, /*seed=*/1);  // narrow/golden/product_inputs.hpp
//   const std::vector<GptStage> stages = run_gpt_block(block, recorded_gpt_input(block, 16, 1));
//   const std::vector<std::uint16_t>& end = stages.back().codes;
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "narrow/format/format.hpp"

namespace narrow {

// Codes of `type`, by rows. A matrix has a row for each output, as torch.nn.Linear keeps it.
struct GptBlock {
  Format type = {};  // fp16 or bf16
  std::size_t width = 0, heads = 0;
  std::vector<std::uint16_t> norm1_weight, norm1_bias, qkv_weight, qkv_bias, proj_weight, proj_bias;
  std::vector<std::uint16_t> norm2_weight, norm2_bias, fc_weight, fc_bias, down_weight, down_bias;
};

// How the operations are computed. The initial values are PyTorch 2.11 on an H200 in eager mode, as recorded for 1024
// tokens 768 wide; for other sizes cuBLAS may choose another plan.
struct GptArithmetic {
  std::string norm1 = "torch", norm2 = "torch", gelu = "torch";  // variants of run_operation
  std::string attention = "cudnn";                               // of run_attention
  std::string product = "hopper.wgmma.f32";                      // a dot model, less the operands
  std::string plan = "chain";
  int threads = 0;
};

// What a module returned, under the name that it has in data/golden/blocks.tsv.
struct GptStage {
  std::string name;
  std::vector<std::uint16_t> codes;
};

// x: rows of block.width codes, one a token. Throws Error where sizes do not fit or a variant is unknown.
std::vector<GptStage> run_gpt_block(const GptBlock& block, std::span<const std::uint16_t> x,
                                    const GptArithmetic& arithmetic = {});

}  // namespace narrow

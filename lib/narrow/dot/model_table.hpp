// Every tensor core that the library knows. A row is a family: one arithmetic for a few types and instruction sizes.
// Adding a generation is adding rows, each with its source and what it rests on.
#pragma once

#include <array>

#include "narrow/dot/model.hpp"

namespace narrow {

namespace detail {

inline constexpr Format int32_format = integer(32, true);

inline constexpr DotType f64{"f64", "fp64"_fmt}, f32{"f32", "fp32"_fmt}, tf32{"tf32", "tf32"_fmt},
    f16{"f16", "fp16"_fmt}, bf16{"bf16", "bf16"_fmt}, e4m3{"e4m3", "e4m3"_fmt}, e5m2{"e5m2", "e5m2"_fmt},
    e3m2{"e3m2", "e3m2"_fmt}, e2m3{"e2m3", "e2m3"_fmt}, e2m1{"e2m1", "e2m1"_fmt}, s8{"s8", "int8"_fmt},
    u8{"u8", "uint8"_fmt}, s32{"s32", int32_format}, e4m3fnuz{"e4m3fnuz", "e4m3fnuz"_fmt},
    e5m2fnuz{"e5m2fnuz", "e5m2fnuz"_fmt};

// Up to a few types; a family has a row for each accumulator and each pair of an a and a b type.
struct DotTypes {
  DotType types[5] = {};
  std::size_t count = 0;
  constexpr DotTypes(DotType t0) : types{t0}, count(1) {}
  constexpr DotTypes(DotType t0, DotType t1) : types{t0, t1}, count(2) {}
  constexpr DotTypes(DotType t0, DotType t1, DotType t2, DotType t3, DotType t4) : types{t0, t1, t2, t3, t4}, count(5) {}
};

inline constexpr DotTypes f32_f16{f32, f16}, fp8{e4m3, e5m2}, f8f6f4{e4m3, e5m2, e2m3, e3m2, e2m1}, int8{s8, u8},
    fp8_fnuz{e4m3fnuz, e5m2fnuz};

// An instruction's K and how many of its products meet in one step.
struct DotStep {
  int k, products;
};

struct DotFamily {
  Generation generation;
  Unit unit;
  DotTypes accumulators, a, b;
  std::array<DotStep, 3> steps;  // unused: k = 0
  int fraction_bits;
  DotRule rule;
  Evidence evidence;
  std::string_view proof, source;
  std::string_view suffix = "";  // after the types, where they do not tell the arithmetic
  int result_bits = 0;           // mantissa bits of the result where they are fewer than the accumulator's
  Format scale = {};
  int scale_block = 0;
};

inline constexpr std::string_view simulator = "arXiv 2511.10909", features = "arXiv 2512.07004",
                                  ptx = "PTX ISA 9.0", amd = "arXiv 2511.10909 and 2512.07004",
                                  silicon = "H200, CUDA 13.0", golden = "data/golden";

using enum Generation;
using enum DotRule;
using enum Evidence;

inline constexpr DotFamily dot_families[] = {
    // clang-format off
    // generation, unit, accumulators, a, b, {{k, L}..}, F, rule, evidence, proof, source
    {volta,  Unit::mma, f32_f16, f16, f16, {{{4, 4}}}, 23, fused, replayed, "V100", features},
    {turing, Unit::mma, f32_f16, f16, f16, {{{8, 8}, {4, 4}}}, 24, fused, published, "", simulator},

    {ampere, Unit::mma, f32_f16, f16, f16, {{{16, 8}, {8, 8}}}, 24, fused, replayed, "A100 A2", features},
    {ampere, Unit::mma, f32, bf16, bf16, {{{16, 8}, {8, 8}}}, 24, fused, replayed, "A100 A2", features},
    {ampere, Unit::mma, f32, tf32, tf32, {{{8, 4}, {4, 4}}}, 24, fused, replayed, "A100 A2", features},
    {ampere, Unit::mma, f64, f64, f64, {{{4, 1}}}, 0, fma_chain, published, "", simulator},
    {ampere, Unit::mma, s32, int8, int8, {{{32, 32}, {16, 16}}}, 0, integer, published, "", ptx},
    {ampere, Unit::mma, s32, int8, int8, {{{32, 32}, {16, 16}}}, 0, integer_saturating, published, "", ptx, ".satfinite"},

    {ada, Unit::mma, f32_f16, f16, f16, {{{16, 8}, {8, 8}}}, 24, fused, replayed, "Ada L40S", features},
    {ada, Unit::mma, f32, bf16, bf16, {{{16, 8}, {8, 8}}}, 24, fused, replayed, "Ada L40S", features},
    {ada, Unit::mma, f32, tf32, tf32, {{{8, 4}, {4, 4}}}, 24, fused, replayed, "Ada L40S", features},
    {ada, Unit::mma, f32, e4m3, e4m3, {{{32, 16}, {16, 16}}}, 13, fused, replayed, "Ada L40S", features, "", 13},
    {ada, Unit::mma, f32, e5m2, e5m2, {{{32, 16}, {16, 16}}}, 13, fused, replayed, "Ada L40S", features, "", 13},
    {ada, Unit::mma, f32, e4m3, e5m2, {{{32, 16}, {16, 16}}}, 13, fused, published, "", simulator, "", 13},
    {ada, Unit::mma, f32, e5m2, e4m3, {{{32, 16}, {16, 16}}}, 13, fused, published, "", simulator, "", 13},
    {ada, Unit::mma, f16, e4m3, e4m3, {{{32, 16}, {16, 16}}}, 13, fused, replayed, "Ada", features},
    {ada, Unit::mma, f16, e5m2, e5m2, {{{32, 16}, {16, 16}}}, 13, fused, replayed, "Ada", features},
    {ada, Unit::mma, f16, e4m3, e5m2, {{{32, 16}, {16, 16}}}, 13, fused, published, "", simulator},
    {ada, Unit::mma, f16, e5m2, e4m3, {{{32, 16}, {16, 16}}}, 13, fused, published, "", simulator},

    {hopper, Unit::mma, f32_f16, f16, f16, {{{16, 16}, {8, 8}}}, 25, fused, measured, golden, silicon},
    {hopper, Unit::mma, f32, bf16, bf16, {{{16, 16}, {8, 8}}}, 25, fused, measured, golden, silicon},
    {hopper, Unit::mma, f32, tf32, tf32, {{{8, 8}, {4, 4}}}, 25, fused, measured, golden, silicon},
    {hopper, Unit::mma, f32_f16, fp8, fp8, {{{32, 16}, {16, 8}}}, 25, fused_pair_then_add, measured, golden, silicon},
    {hopper, Unit::mma, f64, f64, f64, {{{16, 1}, {8, 1}, {4, 1}}}, 0, fma_chain, measured, golden, silicon},
    {hopper, Unit::mma, s32, int8, int8, {{{32, 32}, {16, 16}}}, 0, integer, measured, golden, silicon},
    {hopper, Unit::mma, s32, int8, int8, {{{32, 32}, {16, 16}}}, 0, integer_saturating, measured, golden, silicon, ".satfinite"},
    {hopper, Unit::wgmma, f32_f16, f16, f16, {{{16, 16}}}, 25, fused, measured, golden, silicon},
    {hopper, Unit::wgmma, f32, bf16, bf16, {{{16, 16}}}, 25, fused, measured, golden, silicon},
    {hopper, Unit::wgmma, f32, tf32, tf32, {{{8, 8}}}, 25, fused, measured, golden, silicon},
    {hopper, Unit::wgmma, f32, fp8, fp8, {{{32, 32}}}, 13, fused, measured, golden, silicon, "", 13},
    {hopper, Unit::wgmma, f16, fp8, fp8, {{{32, 32}}}, 13, fused, measured, golden, silicon},
    {hopper, Unit::wgmma, s32, int8, int8, {{{32, 32}}}, 0, integer, measured, golden, silicon},
    {hopper, Unit::wgmma, s32, int8, int8, {{{32, 32}}}, 0, integer_saturating, measured, golden, silicon, ".satfinite"},

    {blackwell, Unit::mma, f32_f16, f16, f16, {{{16, 16}}}, 25, fused, replayed, "B200", features},
    {blackwell, Unit::mma, f32_f16, f16, f16, {{{8, 8}}}, 25, fused, published, "", simulator},
    {blackwell, Unit::mma, f32, bf16, bf16, {{{16, 16}}}, 25, fused, replayed, "B200", features},
    {blackwell, Unit::mma, f32, bf16, bf16, {{{8, 8}}}, 25, fused, published, "", simulator},
    {blackwell, Unit::mma, f32, tf32, tf32, {{{8, 8}}}, 25, fused, published, "", simulator},
    {blackwell, Unit::mma, f32, tf32, tf32, {{{4, 4}}}, 25, fused, replayed, "B200", features},
    {blackwell, Unit::mma, f32_f16, e4m3, e4m3, {{{32, 16}}}, 25, fused_pair_then_add, replayed, "B200", features},
    {blackwell, Unit::mma, f32_f16, e5m2, e5m2, {{{32, 16}}}, 25, fused_pair_then_add, replayed, "B200", features},
    {blackwell, Unit::mma, f32_f16, e4m3, e5m2, {{{32, 16}}}, 25, fused_pair_then_add, assumed, "", features},
    {blackwell, Unit::mma, f32_f16, e5m2, e4m3, {{{32, 16}}}, 25, fused_pair_then_add, assumed, "", features},
    {blackwell, Unit::mma, f64, f64, f64, {{{16, 1}, {8, 1}, {4, 1}}}, 0, fma_chain, assumed, "", simulator},
    {blackwell, Unit::mma, s32, int8, int8, {{{32, 32}, {16, 16}}}, 0, integer, assumed, "", ptx},
    {blackwell, Unit::tcgen05, f32_f16, f16, f16, {{{16, 16}}}, 25, fused, published, "", simulator},
    {blackwell, Unit::tcgen05, f32, bf16, bf16, {{{16, 16}}}, 25, fused, published, "", simulator},
    {blackwell, Unit::tcgen05, f32, tf32, tf32, {{{8, 8}}}, 25, fused, published, "", simulator},
    {blackwell, Unit::tcgen05, f32_f16, f8f6f4, f8f6f4, {{{32, 32}}}, 25, fused, published, "", simulator},
    {blackwell, Unit::tcgen05, f32, f8f6f4, f8f6f4, {{{32, 32}}}, 25, block_fused, published, "", simulator,
     ".mxf8f6f4", 0, "e8m0"_fmt, 32},
    {blackwell, Unit::tcgen05, f32, e2m1, e2m1, {{{64, 64}}}, 35, block_groups, published, "", simulator, ".mxf4", 0, "e8m0"_fmt, 32},
    {blackwell, Unit::tcgen05, f32, e2m1, e2m1, {{{64, 64}}}, 35, block_groups, published, "", simulator, ".nvf4", 0, "e4m3"_fmt, 16},
    // kind::mxf4nvf4.scale_vec::4X with UE8M0 in the instruction descriptor; mma of sm_120a has 4X for UE4M3 alone.
    {blackwell, Unit::tcgen05, f32, e2m1, e2m1, {{{64, 64}}}, 35, block_groups, published, "", simulator, ".nvf4.ue8m0", 0, "e8m0"_fmt, 16},
    {blackwell, Unit::tcgen05, s32, int8, int8, {{{32, 32}}}, 0, integer, assumed, "", ptx},

    {rtx_blackwell, Unit::mma, f32_f16, f16, f16, {{{16, 16}, {8, 8}}}, 25, fused, published, "", simulator},
    {rtx_blackwell, Unit::mma, f32, bf16, bf16, {{{16, 16}, {8, 8}}}, 25, fused, published, "", simulator},
    {rtx_blackwell, Unit::mma, f32, tf32, tf32, {{{8, 8}, {4, 4}}}, 25, fused, published, "", simulator},
    {rtx_blackwell, Unit::mma, f32_f16, fp8, fp8, {{{16, 16}}}, 25, fused, published, "", simulator},
    {rtx_blackwell, Unit::mma, f32_f16, f8f6f4, f8f6f4, {{{32, 32}}}, 25, fused, published, "", simulator},
    {rtx_blackwell, Unit::mma, f32, f8f6f4, f8f6f4, {{{32, 32}}}, 25, block_fused, published, "", simulator,
     ".mxf8f6f4", 0, "e8m0"_fmt, 32},
    {rtx_blackwell, Unit::mma, f32, e2m1, e2m1, {{{64, 64}}}, 35, block_groups, published, "", simulator, ".mxf4", 0, "e8m0"_fmt, 32},
    {rtx_blackwell, Unit::mma, f32, e2m1, e2m1, {{{64, 64}}}, 35, block_groups, published, "", simulator, ".nvf4", 0, "e4m3"_fmt, 16},
    {rtx_blackwell, Unit::mma, s32, int8, int8, {{{32, 32}, {16, 16}}}, 0, integer, assumed, "", ptx},

    {cdna1, Unit::mfma, f32, f16, f16, {{{16, 4}, {8, 4}, {4, 4}}}, 0, exact, published, "", amd},
    {cdna1, Unit::mfma, f32, bf16, bf16, {{{8, 2}, {4, 2}, {2, 2}}}, 0, exact, published, "", amd},
    {cdna2, Unit::mfma, f32, f16, f16, {{{16, 4}, {8, 4}, {4, 4}}}, 0, flushed_pairs, published, "", amd},
    {cdna2, Unit::mfma, f32, bf16, bf16, {{{16, 4}, {8, 4}, {4, 4}}}, 0, flushed_pairs, published, "", amd, ".1k"},
    {cdna2, Unit::mfma, f32, bf16, bf16, {{{8, 2}, {4, 2}, {2, 2}}}, 0, flushed_pairs, published, "", amd},
    {cdna2, Unit::mfma, f32, f32, f32, {{{4, 1}, {2, 1}, {1, 1}}}, 0, fma_chain, published, "", amd},
    {cdna2, Unit::mfma, f64, f64, f64, {{{4, 1}}}, 0, fma_chain, published, "", amd},
    {cdna3, Unit::mfma, f32, f16, f16, {{{16, 8}, {8, 8}, {4, 4}}}, 24, two_stage, published, "", amd},
    {cdna3, Unit::mfma, f32, bf16, bf16, {{{16, 8}, {8, 8}, {4, 4}}}, 24, two_stage, published, "", amd},
    {cdna3, Unit::mfma, f32, tf32, tf32, {{{8, 4}, {4, 4}}}, 24, two_stage, published, "", amd},
    {cdna3, Unit::mfma, f32, fp8_fnuz, fp8_fnuz, {{{32, 16}, {16, 16}}}, 24, two_stage_halves, published, "", amd},
    {cdna3, Unit::mfma, f32, f32, f32, {{{4, 1}, {2, 1}, {1, 1}}}, 0, fma_chain, published, "", amd},
    {cdna3, Unit::mfma, f64, f64, f64, {{{4, 1}}}, 0, fma_chain, published, "", amd},
    // clang-format on
};

}  // namespace detail

}  // namespace narrow

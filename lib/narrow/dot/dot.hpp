// One dot product as a model computes it, and the exact one rounded once.
//
//   const DotModel& hopper = *find_dot_model("hopper.wgmma.f32.e4m3.e4m3");
//   const std::vector<Code> a(64, encode(1.0F, "e4m3"_fmt)), b(64, encode(0.5F, "e4m3"_fmt));
//   const Code sum = dot(hopper, a, b, /*c=*/0);  // a code of fp32: 32
#pragma once

#include <span>

#include "narrow/dot/model.hpp"

namespace narrow {

// a . b + c on codes. Longer than one step: chained, ascending k; shorter: zero products. tf32 codes have 19 bits.
// Block-scaled models take all scales as 1; see dot_scaled.
Code dot(const DotModel& model, std::span<const Code> a, std::span<const Code> b, Code c);

// How many of k products dot() takes at once: a step, an instruction where its parts are no chain, all in software.
std::size_t step_length(const DotModel& model, std::size_t k);

// The same with the scales of the blocks: one code of model.scale for each model.scale_block products (rounded up).
Code dot_scaled(const DotModel& model, std::span<const Code> a, std::span<const Code> b,
                std::span<const Code> scale_a, std::span<const Code> scale_b, Code c);

// The exact sum of the products and c, rounded once to nearest even: what no machine beats. NaN, Inf * 0 and Inf - Inf
// give NaN. c is a code of `out`.
Code exact_dot(std::span<const Code> a, const Format& fa, std::span<const Code> b, const Format& fb, Code c,
               const Format& out, const Cast& cast = {});

}  // namespace narrow

// Which of several models with the same bits is the likeliest: the newest generation, or the GPU that somebody names.
#pragma once

#include <optional>
#include <string_view>

#include "narrow/dot/model.hpp"

namespace narrow {

// "h200", "a100", "rtx 4090", "sm_90", or a generation itself. Throws Error that lists what is accepted.
Generation gpu_generation(std::string_view name);

namespace detail {

// Whether a GPU of this generation computes so: with its tensor cores, or with the multiply-adds that all of them have.
constexpr bool is_of_gpu(const DotModel& m, Generation gpu) noexcept {
  return m.generation == gpu ||
         (m.generation == Generation::software && (m.unit == Unit::fma || m.unit == Unit::muladd));
}

// Smaller is likelier: the preferred generation, then NVIDIA's from the newest, AMD's, and software; in a generation the
// instructions that whole products use before those of single warps, long ones before short ones.
constexpr int unlikelihood(const DotModel& m, const std::optional<Generation>& preferred) noexcept {
  const int g = static_cast<int>(m.generation), newest = static_cast<int>(Generation::rtx_blackwell);
  int age = g <= newest ? newest - g : 50 + static_cast<int>(Generation::cdna3) - g;
  if (m.generation == Generation::software) age = 100;
  if (preferred && is_of_gpu(m, *preferred)) age = preferred == m.generation ? -2 : -1;
  const int unit = m.unit == Unit::wgmma || m.unit == Unit::tcgen05 ? 0 : 1 + static_cast<int>(m.unit);
  return age * 4096 + unit * 128 + 127 - (m.instruction_k < 127 ? m.instruction_k : 127);
}

}  // namespace detail

}  // namespace narrow

// The kernels of a cast by output type: which loop runs for a plan. One translation unit an output type.
#pragma once

#include "narrow/array/cast_array_simd.hpp"

namespace narrow::detail {

template <class Out>
using CastKernel = void (*)(const float* in, Out* out, std::size_t begin, std::size_t end, const CastJob& job) noexcept;

CastKernel<float> value_kernel(const CastJob& job);
CastKernel<std::uint8_t> code8_kernel(const CastJob& job);
CastKernel<std::uint16_t> code16_kernel(const CastJob& job);
CastKernel<std::uint32_t> code32_kernel(const CastJob& job);

template <class Out>
void cast_part_scalar(const float* in, Out* out, std::size_t begin, std::size_t end, const CastJob& job) noexcept {
  for (std::size_t i = begin; i < end; ++i) out[i] = cast_one<Out>(in[i], job, i);
}

template <class Out, Way W, Rounding R>
CastKernel<Out> choose_by_finish(Finish finish) {
  constexpr bool directed = R == Rounding::up || R == Rounding::down;
  if constexpr (W == Way::power && !std::is_same_v<Out, float>) {
    if (finish == Finish::natural) return cast_part<Out, W, R, Finish::natural>;
    if (finish == Finish::selected) return cast_part<Out, W, R, Finish::selected>;
  }
  if constexpr (W == Way::field) {
    if (finish == Finish::natural) return cast_part<Out, W, R, Finish::natural>;
  }
  if constexpr (W == Way::field || W == Way::anchor) {
    if (finish == Finish::clamped) return cast_part<Out, W, R, Finish::clamped>;
  }
  if constexpr (W == Way::anchor) {
    if constexpr (directed) {
      if (finish == Finish::by_sign) return cast_part<Out, W, R, Finish::by_sign>;
    } else {
      if (finish == Finish::selected) return cast_part<Out, W, R, Finish::selected>;
    }
    if constexpr (R == Rounding::nearest_even) {
      if (finish == Finish::unsigned_zero) return cast_part<Out, W, R, Finish::unsigned_zero>;
      if (finish == Finish::integer) return cast_part<Out, W, R, Finish::integer>;
    }
  }
  return cast_part<Out, W, R, Finish::full>;
}

template <class Out, Way W>
CastKernel<Out> choose_by_rounding(const CastJob& job) {
  const Finish finish = job.plan.finish;
  switch (job.cast.rounding) {
    case Rounding::nearest_even: return choose_by_finish<Out, W, Rounding::nearest_even>(finish);
    case Rounding::nearest_away: return choose_by_finish<Out, W, Rounding::nearest_away>(finish);
    case Rounding::nearest_to_zero: return choose_by_finish<Out, W, Rounding::nearest_to_zero>(finish);
    case Rounding::toward_zero: return choose_by_finish<Out, W, Rounding::toward_zero>(finish);
    case Rounding::up: return choose_by_finish<Out, W, Rounding::up>(finish);
    case Rounding::down: return choose_by_finish<Out, W, Rounding::down>(finish);
    case Rounding::to_odd: return choose_by_finish<Out, W, Rounding::to_odd>(finish);
    case Rounding::stochastic: return choose_by_finish<Out, W, Rounding::stochastic>(finish);
  }
  return cast_part_scalar<Out>;
}

template <class Out>
CastKernel<Out> choose_kernel(const CastJob& job) {
  switch (job.plan.way) {
    case Way::anchor: return choose_by_rounding<Out, Way::anchor>(job);
    case Way::field: return choose_by_rounding<Out, Way::field>(job);
    case Way::power: return choose_by_rounding<Out, Way::power>(job);
    case Way::half:
      if constexpr (has_half_lanes && (std::is_same_v<Out, float> || sizeof(Out) == 2))
        return job.plan.finish == Finish::natural ? cast_part<Out, Way::half, Rounding::nearest_even, Finish::natural>
                                                  : cast_part<Out, Way::half, Rounding::nearest_even, Finish::clamped>;
      break;
    case Way::scalar: break;
  }
  return cast_part_scalar<Out>;
}

}  // namespace narrow::detail

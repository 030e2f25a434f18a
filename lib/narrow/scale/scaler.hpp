// What defines a scaler, a policy on the command line: a value with parameters, a printable state, and three pure functions.
// No globals, no I/O.
//
//   const Observation overflowed{.found_inf = true};  // what a scaler is told of a step
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <variant>

#include "narrow/format/decode.hpp"

namespace narrow {

// What a scaler sees of one step.
struct Observation {
  bool found_inf = false;  // loss scalers: some gradient was Inf or NaN before it was unscaled
  float amax = 0;          // tensor recipes: the largest magnitude of the tensor
};

// What the last step did to the scale.
enum class ScaleEvent : std::uint8_t {
  none,
  grew,
  backed_off,
  held_back,   // an overflow that hysteresis swallowed
  at_minimum,  // an overflow, and the scale is as small as the scaler lets it be
  at_maximum,  // growth was due, and the scale is as large as the scaler lets it be
  lost,        // the scale became 0, Inf or NaN in FP32, as the framework lets it
  ended        // the framework raises an error: the run is over
};
// The word for an event.
std::string_view name_of(ScaleEvent event);

// What a scaler scales: the loss, or tensors one by one.
enum class ScalerKind : std::uint8_t { loss_scaler, tensor_recipe };

// What a parameter may be; the program and the errors say it in words.
enum class ParameterKind : std::uint8_t {
  scale,      // positive and finite
  limit,      // the same; unlimited when not given
  growth,     // above 1 and finite
  backoff,    // above 0 and below 1
  count,      // 1, 2, 3, ...
  magnitude,  // 0 or more, finite
  flag        // 0 or 1
};

// One parameter of the scaler P: its name on the command line and the member that holds it.
template <class P>
struct Parameter {
  std::string_view name;
  std::variant<double P::*, std::int64_t P::*, bool P::*> member;
  ParameterKind kind;
  std::string_view what;
};

// A scaler is an aggregate of parameters with the framework's defaults. Its functions are free and pure (in the default
// floating-point environment, which a Scaler sets for them):
//   State initial(scaler)   State next(scaler, state, observation)   float scale(state)   std::string to_text(state)
// check(scaler) throws Error for parameters that do not go together. Two more where they apply: limit(scaler), the
// largest magnitude that fits once scaled, and is_immediate: a step is scaled by what it shows itself, not by the past.
template <class P>
concept ScalerDefinition = requires(const P& scaler, const typename P::State& state, const Observation& seen) {
  { P::kind } -> std::convertible_to<ScalerKind>;
  { P::name } -> std::convertible_to<std::string_view>;
  { P::what } -> std::convertible_to<std::string_view>;
  { P::source } -> std::convertible_to<std::string_view>;
  { P::skips_on_inf } -> std::convertible_to<bool>;
  P::parameters();
  { initial(scaler) } -> std::same_as<typename P::State>;
  { next(scaler, state, seen) } -> std::same_as<typename P::State>;
  { scale(state) } -> std::same_as<float>;
  { state.event } -> std::convertible_to<ScaleEvent>;
  { to_text(state) } -> std::same_as<std::string>;
  check(scaler);
};

namespace detail {

// (float)x with IEEE's answer also where C++ leaves it open: beyond the largest float it is Inf.
constexpr float to_float(double x) noexcept { return in_carrier<float>(x); }

// grew or backed_off, unless FP32, in which the loss is scaled, sees 0, Inf or NaN.
inline ScaleEvent moved(double scale, ScaleEvent event) noexcept {
  const float seen = to_float(scale);
  return seen == 0 || !std::isfinite(seen) ? ScaleEvent::lost : event;
}

// "2^16" for large and small powers of two, else the fewest digits (six at least) that read back as x.
std::string scale_text(double x);

}  // namespace detail

}  // namespace narrow

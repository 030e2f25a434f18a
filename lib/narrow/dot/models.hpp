// The rows of the table as models with names, at compile time.
#pragma once

#include <string>

#include "narrow/base/error.hpp"
#include "narrow/dot/model_table.hpp"

namespace narrow {

namespace detail {

constexpr ModelName number_text(int n) {
  ModelName text;
  if (n >= 10) text = number_text(n / 10);
  const char digit = static_cast<char>('0' + n % 10);
  return text.append({&digit, 1});
}

// <generation>.<unit>.<accumulator>.<a>.<b>[.k<K>][suffix]; wgmma and tcgen05 have one K a type and leave it out.
constexpr ModelName model_name(const DotModel& m, std::string_view suffix) {
  ModelName name(generation_name(m.generation));
  name.append(".").append(unit_name(m.unit)).append(".").append(m.accumulator.name);
  name.append(".").append(m.a.name).append(".").append(m.b.name);
  if (m.unit == Unit::mma || m.unit == Unit::mfma) name.append(".k").append(number_text(m.instruction_k));
  return name.append(suffix);
}

// The largest exponent counts as at least emin - 5 - (F - 23): -133 for fp32 and -21 for fp16 at F = 25, as measured on
// Hopper (data/golden/ladders.tsv); the same pattern holds in what is published of the others. The 13-bit paths have
// the floor of F = 25, below which no product of theirs reaches. Groups that are summed exactly before (F = 35) have
// -139: what the simulator of arXiv 2511.10909 gives a zero term there.
constexpr int exponent_floor(const Format& accumulator, int fraction_bits) noexcept {
  if (fraction_bits > 25) return accumulator.min_exponent() - 13;
  return accumulator.min_exponent() - 5 - (fraction_bits < 23 ? 2 : fraction_bits - 23);
}

constexpr DotModel model_of(const DotFamily& family, const DotType& accumulator, const DotType& a, const DotType& b,
                            const DotStep& step) {
  DotModel m;
  m.generation = family.generation, m.unit = family.unit;
  m.a = a, m.b = b, m.accumulator = accumulator;
  m.rule = family.rule;
  m.instruction_k = step.k, m.products_per_step = step.products;
  m.fraction_bits = family.fraction_bits;
  m.result = accumulator.format;
  if (family.result_bits != 0) m.result.mantissa_bits = family.result_bits;
  const bool fused_into_f32 = family.rule != DotRule::exact && accumulator.name == "f32" && family.fraction_bits > 0 &&
                              family.rule != DotRule::two_stage && family.rule != DotRule::two_stage_halves;
  m.rounding = fused_into_f32 ? Rounding::toward_zero : Rounding::nearest_even;
  if (family.fraction_bits > 0) m.exponent_floor = exponent_floor(accumulator.format, family.fraction_bits);
  m.scale = family.scale, m.scale_block = family.scale_block;
  m.evidence = family.evidence, m.proof = family.proof, m.source = family.source;
  m.name = model_name(m, family.suffix);
  return m;
}

template <class Sink>
constexpr void for_each_model(const Sink& sink) {
  for (const DotFamily& family : dot_families)
    for (std::size_t c = 0; c < family.accumulators.count; ++c)
      for (std::size_t a = 0; a < family.a.count; ++a)
        for (std::size_t b = 0; b < family.b.count; ++b)
          for (const DotStep& step : family.steps)
            if (step.k != 0)
              sink(model_of(family, family.accumulators.types[c], family.a.types[a], family.b.types[b], step));
}

constexpr std::size_t count_models() {
  std::size_t n = 0;
  for_each_model([&](const DotModel&) { ++n; });
  return n;
}
constexpr auto make_models() {
  std::array<DotModel, count_models()> models{};
  std::size_t n = 0;
  for_each_model([&](const DotModel& m) { models[n++] = m; });
  return models;
}

}  // namespace detail

// The hardware rows at compile time (for kernels that need constants): a name that is not among them does not compile,
// and throws Error at run time.
constexpr DotModel hardware_model(std::string_view name) {
  DotModel found;
  bool is_known = false;
  detail::for_each_model([&](const DotModel& m) {
    if (m.name.view() == name) found = m, is_known = true;
  });
  if (!is_known) throw Error("model '" + std::string(name) + "' is unknown; narrow models lists them");
  return found;
}

}  // namespace narrow

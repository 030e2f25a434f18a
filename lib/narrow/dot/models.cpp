#include "narrow/dot/models.hpp"

#include <vector>

namespace narrow {

namespace {

// A format with the name that PTX would give it where it has one.
DotType type_of(const NamedFormat& row) {
  if (row.format == detail::f64.format) return detail::f64;
  if (row.format == detail::f32.format) return detail::f32;
  if (row.format == detail::f16.format) return detail::f16;
  if (row.format == detail::s8.format) return detail::s8;
  return {row.name, row.format};
}

constexpr Unit orders[] = {Unit::fma, Unit::muladd, Unit::pairwise, Unit::kahan};

std::vector<DotModel> all_models() {
  std::vector<DotModel> models;
  detail::for_each_model([&](const DotModel& m) { models.push_back(m); });
  // For every format: sums in FP32 and in FP64, and every operation in the format itself.
  for (const NamedFormat& row : format_table) {
    const DotType type = type_of(row);
    if (row.format.is_integer() || !row.format.has_sign) continue;
    std::vector<DotType> accumulators{detail::f32, detail::f64};
    if (type.name != "f32" && type.name != "f64") accumulators.push_back(type);
    for (const DotType& accumulator : accumulators) {
      if (accumulator.format.mantissa_bits < row.format.mantissa_bits) continue;
      for (const Unit order : orders) models.push_back(software_model(order, accumulator, type, type));
    }
  }
  return models;
}

}  // namespace

DotModel software_model(Unit order, const DotType& accumulator, const DotType& a, const DotType& b) {
  DotModel m;
  m.generation = Generation::software, m.unit = order;
  m.a = a, m.b = b, m.accumulator = accumulator;
  m.rule = order == Unit::fma      ? DotRule::fma_chain
           : order == Unit::muladd ? DotRule::multiply_add
           : order == Unit::kahan  ? DotRule::kahan
                                   : DotRule::pairwise;
  m.result = accumulator.format;
  m.rounding = Rounding::nearest_even;
  m.evidence = Evidence::by_definition;
  m.source = "IEEE 754-2019";
  m.name = detail::model_name(m, "");
  return m;
}

std::string evidence_text(const DotModel& m) {
  const std::string name(evidence_name(m.evidence)), proof(m.proof);
  switch (m.evidence) {
    case Evidence::measured: return name + " on the GPU (" + proof + ")";
    case Evidence::replayed: return name + ": equal to recordings of others (" + proof + ")";
    case Evidence::published: return name + ", not compared with data here";
    case Evidence::assumed: return name + " by analogy, not compared with data here";
    case Evidence::by_definition: break;
  }
  return name;
}

std::span<const DotModel> dot_models() {
  static const std::vector<DotModel> models = all_models();
  return models;
}

const DotModel* find_dot_model(std::string_view name) {
  for (const DotModel& m : dot_models())
    if (m.name.view() == name) return &m;
  return nullptr;
}

}  // namespace narrow

#include "narrow/tensor/tensor_statistics.hpp"

#include <algorithm>

#include "narrow/base/error.hpp"
#include "narrow/tensor/chunks.hpp"
#include "narrow/tensor/piece_members.hpp"
#include "narrow/tensor/seed_at.hpp"
#include "narrow/tensor/tensor.hpp"
#include "narrow/text/quote.hpp"

namespace narrow {
namespace {

// The casts of one scale go through the array pass together.
struct Group {
  double scale;
  std::vector<FormatCast> casts;
  std::vector<std::size_t> places;  // of these casts in the request
  Statistics total;
};

std::vector<Group> group_by_scale(std::span<const ScaledCast> casts) {
  std::vector<Group> groups;
  for (std::size_t k = 0; k < casts.size(); ++k) {
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& g) { return g.scale == casts[k].scale; });
    if (group == groups.end()) group = groups.insert(groups.end(), {casts[k].scale, {}, {}, {}});
    group->casts.push_back(casts[k].to);
    group->places.push_back(k);
  }
  if (groups.empty()) groups.push_back({1, {}, {}, {}});  // the data itself
  return groups;
}

void add_floats(const Tensor& tensor, std::vector<Group>& groups, const TensorPass& pass) {
  std::vector<std::unique_ptr<StatisticsPass>> passes;
  for (const Group& g : groups) passes.push_back(std::make_unique<StatisticsPass>(g.casts, g.scale, pass.seed));
  ValueReader reader(tensor, pass.threads);
  for (std::size_t k = 0; k < groups.size(); ++k) passes[k]->add(groups[k].total, {});  // of an empty tensor, too
  fold_chunks(
      tensor, pass.done, pass.log,
      [&](std::uint64_t first, std::size_t count) {
        const std::span<const float> values = reader.floats(first, count);
        std::vector<std::vector<Statistics>> parts;
        for (const auto& p : passes) parts.push_back(p->parts(values, first, pass.threads));
        return parts;
      },
      [&](const std::vector<std::vector<Statistics>>& parts) {
        for (std::size_t k = 0; k < groups.size(); ++k)
          for (const Statistics& part : parts[k]) groups[k].total.merge(part);
      });
}

void add_doubles(const Tensor& tensor, std::vector<Group>& groups, const TensorPass& pass) {
  ValueReader reader(tensor, pass.threads);
  for (Group& g : groups) g.total = statistics(std::span<const double>(), g.casts, g.scale);  // checks the request
  fold_chunks(
      tensor, pass.done, pass.log,
      [&](std::uint64_t first, std::size_t count) {
        const std::span<const double> values = reader.doubles(first, count);
        std::vector<Statistics> parts;
        for (const Group& g : groups)
          parts.push_back(statistics(values, g.casts, g.scale, seed_at(pass.seed, first), pass.threads));
        return parts;
      },
      [&](const std::vector<Statistics>& parts) {
        for (std::size_t k = 0; k < groups.size(); ++k) groups[k].total.merge(parts[k]);
      });
}

}  // namespace

Statistics tensor_statistics(const Tensor& tensor, std::span<const ScaledCast> casts, const TensorPass& pass) {
  if (!tensor.type.has_format())
    throw Error("tensor " + quote(tensor.name) + " holds " + std::string(tensor.type.name) +
                ": statistics need a floating type, or the format of the codes");
  std::vector<Group> groups = group_by_scale(casts);
  const bool any_stochastic = std::any_of(
      casts.begin(), casts.end(), [](const ScaledCast& cast) { return cast.to.cast.rounding == Rounding::stochastic; });
  const Tensor ordered = any_stochastic ? row_major(tensor) : tensor;
  if (fits_float(tensor)) add_floats(ordered, groups, pass);
  else add_doubles(ordered, groups, pass);

  Statistics out;
  out.input = groups.front().total.input;
  out.formats.resize(casts.size());
  out.scale = casts.empty() ? 1 : casts.front().scale;
  for (const Group& g : groups)
    for (std::size_t k = 0; k < g.total.formats.size(); ++k) out.formats[g.places[k]] = g.total.formats[k];
  return out;
}

}  // namespace narrow

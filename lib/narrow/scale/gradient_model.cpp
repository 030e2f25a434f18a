#include "narrow/scale/gradient_log.hpp"

#include <algorithm>
#include <cmath>

#include "narrow/base/error.hpp"
#include "narrow/base/float_environment.hpp"
#include "narrow/base/random.hpp"
#include "narrow/text/quote.hpp"

namespace narrow {

GradientModel parse_gradient_model(std::string_view name) {
  if (name == "growth") return GradientModel::growth;
  if (name == "decay") return GradientModel::decay;
  if (name == "spikes") return GradientModel::spikes;
  throw Error("model " + quote(name) + " is unknown; accepted: growth decay spikes");
}

std::vector<float> model_amax(GradientModel model, std::span<const float> piece_amaxes, std::size_t steps,
                              std::uint64_t seed) {
  const DefaultFloats guard;
  std::vector<float> pieces;
  for (const float a : piece_amaxes)
    if (std::isfinite(a) && a > 0) pieces.push_back(a);
  if (pieces.empty()) throw Error("no finite gradient that is not zero: nothing to model");
  constexpr double binades = 16;
  constexpr std::uint64_t one_in = 200;
  std::vector<float> amax(steps);
  for (std::size_t t = 0; t < steps; ++t) {
    const std::uint64_t r = random_bits(seed, t), s = random_bits(seed + 1, t);
    const double progress = steps > 1 ? static_cast<double>(t) / static_cast<double>(steps - 1) : 0;
    double log2 = 0;
    if (model == GradientModel::growth) log2 = binades * progress;
    if (model == GradientModel::decay) log2 = -binades * progress;
    if (model == GradientModel::spikes && s % one_in == 0) log2 = 4 + static_cast<double>((s >> 32) % 9);
    const double value = static_cast<double>(pieces[r % pieces.size()]) * std::exp2(log2);
    amax[t] = static_cast<float>(std::min(value, 0x1.fffffep+127));
  }
  return amax;
}

}  // namespace narrow

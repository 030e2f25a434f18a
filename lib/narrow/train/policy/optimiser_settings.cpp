#include "narrow/train/policy/settings.hpp"

#include <cmath>
#include <string>

#include "narrow/base/error.hpp"

namespace narrow::train {

void check(const OptimiserSettings& s) {
  const auto require = [](bool holds, const char* what) {
    if (!holds) throw Error(std::string("optimiser: ") + what);
  };
  require(s.learning_rate > 0 && std::isfinite(s.learning_rate), "the learning rate must be positive and finite");
  require(s.momentum >= 0 && s.momentum < 1, "the momentum must be at least 0 and below 1");
  require(s.beta1 >= 0 && s.beta1 < 1 && s.beta2 >= 0 && s.beta2 < 1, "the betas must be at least 0 and below 1");
  require(s.epsilon >= 0 && std::isfinite(s.epsilon), "epsilon must be at least 0");
  require(s.weight_decay >= 0 && std::isfinite(s.weight_decay), "the weight decay must be at least 0");
  require(s.clip >= 0 && std::isfinite(s.clip),
          "the largest gradient norm must be finite and at least 0 (0: no clipping)");
}

}  // namespace narrow::train

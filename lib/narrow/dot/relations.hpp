// What D is of the product that was asked for, by value: a multiple, the transposed product, a product without its bias or
// the end of its K, an activation of it. Asked before any question of bits, because the sum may be anybody's.
#pragma once

#include <optional>
#include <string>

#include "narrow/dot/under_plans.hpp"
#include "narrow/dot/value_sample.hpp"

namespace narrow::detail {

struct Relation {
  std::string name;      // one word or two: "relu", "missing bias"
  std::string sentence;  // what D is
  // The request under which D would be as asked for, where there is one; its matrices are views of the old ones.
  std::optional<ValidateRequest> under = {};
  Finish finish = Finish::as_asked;  // under it
};

struct ValueVerdict {
  bool is_product = false;           // D is the product as asked, within what sums can be off
  std::optional<Relation> relation;  // else what else it is; empty: nothing that is known
  double error = 0;                  // root mean square of D - product over that of D, on the sample
};

ValueVerdict look_at_values(const ValidateRequest& request);

}  // namespace narrow::detail

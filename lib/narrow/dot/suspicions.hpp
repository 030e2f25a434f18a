// What may be wrong with a product that no candidate explains: sentences, each tested on the data.
#pragma once

#include <string>
#include <vector>

#include "narrow/dot/validate_sample.hpp"

namespace narrow::detail {

// expected: what the closest candidate gives for all of D; equal: on how many outputs it is right.
std::vector<std::string> suspicions(const ValidateRequest& request, const Trial& closest,
                                    const std::vector<std::uint64_t>& expected, std::uint64_t equal);

}  // namespace narrow::detail

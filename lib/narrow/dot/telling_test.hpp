// The smallest product that would tell candidates apart, and what they differ in.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "narrow/dot/trials.hpp"

namespace narrow::detail {

// Representatives of unlike arithmetic; the likeliest first. Empty when no product was found that tells any two apart.
std::optional<TellingTest> telling_test(const ValidateRequest& request, const std::vector<Candidate>& candidates);

// "bits kept below the largest exponent (24, 25), products a step (8, 16), plan (chain, split:192)".
std::string differences_of(const std::vector<Candidate>& candidates);

}  // namespace narrow::detail

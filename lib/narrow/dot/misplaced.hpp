// Where a product that is right elsewhere differs: words, rows, tiles, and what stands there instead.
#pragma once

#include <string>
#include <vector>

#include "narrow/dot/full_product.hpp"

namespace narrow::detail {

// Sentences, each checked on the differences; empty when they lie everywhere.
std::vector<std::string> misplaced(const ValidateRequest& request, const FullComparison& full);

}  // namespace narrow::detail

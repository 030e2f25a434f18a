// Some outputs of a product by value: what they should be in exact arithmetic, near enough, and what was found. Kernel
// forensics looks here first: whether D is this product at all is no question of bits.
#pragma once

#include <vector>

#include "narrow/dot/validate.hpp"

namespace narrow::detail {

// The matrices of one item of a batch.
struct ProductItem {
  CodeMatrix a, b, c, d;
};
ProductItem item_of(const ValidateRequest& request, std::size_t item);

// The same product for some rows (columns) of D alone, with the scales of these rows; `first` stands where a scale begins.
ValidateRequest rows_of(ValidateRequest request, std::size_t first, std::size_t count);
ValidateRequest cols_of(ValidateRequest request, std::size_t first, std::size_t count);
// What C's codes mean.
Format c_format_of(const ValidateRequest& request);

// Rows x columns, evenly spread, of one item. Sums are in double, whose error is far below that of any accumulator.
struct ValueSample {
  std::size_t item = 0;
  std::vector<std::size_t> rows, cols;
  std::vector<double> sum;        // of the products, with the scales of operands and blocks
  std::vector<double> plain;      // without any scale
  std::vector<double> magnitude;  // sum of the products' magnitudes, scaled
  std::vector<double> c, found;   // C (0 where there is none) and D

  std::size_t at(std::size_t i, std::size_t j) const { return i * cols.size() + j; }
  std::size_t size() const { return rows.size() * cols.size(); }
};
ValueSample sample_values(const ValidateRequest& request, std::size_t item, std::vector<std::size_t> rows,
                          std::vector<std::size_t> cols);

// `count` places of `total`, one in each of as many equal parts, anywhere in it: no pattern of rows hides between them.
std::vector<std::size_t> spread(std::size_t total, std::size_t count, std::uint64_t seed = 0);

// The request's function of a sum; the sum itself where there is none.
double applied(const ValidateRequest& request, double sum);
// What an output should be of a sum of products and its C.
double output_of(const ValidateRequest& request, double sum, double c);

// One output's products by value, k ascending, with their scales.
std::vector<double> products_of(const ValidateRequest& request, std::size_t item, std::size_t row, std::size_t col);

}  // namespace narrow::detail

// Which plan will a product through cuBLASLt follow? Told before it runs: from a recorded product of the same shape,
// else from the numbers of the algorithm that its heuristic chose. Needs no CUDA.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "narrow/golden/product_types.hpp"

namespace narrow {

// A line of data/golden/products.tsv.
struct RecordedProduct {
  std::string type;
  ProductShape shape;
  ProductAlgorithm algorithm;
  std::string model, plan;  // model is empty where no plan was found
};
std::vector<RecordedProduct> read_recorded_products(std::string_view table);  // throws Error that names the line

// What the table was recorded with, from its header: another cuBLAS may choose and cut otherwise, and torch may bring
// one of its own. "CUDA 13.0" as cublas is the library of that toolkit, when its own number was not recorded.
struct ProductOrigin {
  std::string gpu, toolkit, cublas, torch;
  std::string text() const;  // "NVIDIA H200, cuBLAS of CUDA 13.0 (its own number was not recorded), without torch"
};
ProductOrigin read_product_origin(std::string_view table);  // throws Error where a line is missing

CublasVersion parse_cublas_version(std::string_view text);  // "13.1.0" or "CUDA 13.0"; throws Error

// Why the table may not hold for that cuBLAS, in one line; empty when it was recorded with the same.
std::string version_warning(const ProductOrigin& recorded, const CublasVersion& used);

struct PlanPrediction {
  std::string model, plan;
  bool recorded = false;  // this shape with this algorithm was run and compared
};

// Do two plans add the same numbers in the same order? A step of nothing but zero products changes no sum, so that it
// does not count (residue=64 and residue=128 are one plan for K = 129). The models are compared by their arithmetic.
bool same_sums(const PlanPrediction& x, const PlanPrediction& y, const ProductShape& shape);

// What the algorithm's numbers say by themselves; empty for kernels of one row or column (plan_prediction.cpp has the
// rules).
PlanPrediction plan_of_algorithm(const ProductType& type, const ProductShape& shape, const ProductAlgorithm& algorithm,
                                 bool bias = false);

PlanPrediction predict_plan(std::span<const RecordedProduct> recorded, const ProductType& type,
                            const ProductShape& shape, const ProductAlgorithm& algorithm);

}  // namespace narrow

// Whole products through cuBLASLt as data: their types and shapes, what was chosen and which plan reproduces it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace narrow {

// A kind of product: operand and output types, and how the library is asked to accumulate.
struct ProductType {
  std::string name;     // as product_types() lists them: f16, bf16-bf16, e5m2-e4m3-slow
  std::string a, b, d;  // formats
  bool fast = true;     // FP8: fast accumulation
};
const std::vector<ProductType>& product_types();
const ProductType& find_product_type(const std::string& name);  // throws Error

struct ProductShape {
  int m = 0, n = 0, k = 0;
};
std::vector<ProductShape> product_shapes();  // the sweep

// The algorithm that cuBLASLt's heuristic chose, by its own numbers.
struct ProductAlgorithm {
  int id = 0, tile = 0, stages = 0, split_k = 0, reduction = 0, swizzle = 0, custom = 0, inner = 0, cluster = 0;
  std::string text() const;
};

// A cuBLAS by its own number and by the CUDA that it belongs to; either may be empty.
struct CublasVersion {
  std::string number, cuda;  // 13.1.0, 13.0
};

struct ProductFinding {
  ProductType type;
  ProductShape shape;
  ProductAlgorithm algorithm;
  std::string model;  // empty: no plan was found
  std::string plan;
  std::uint64_t outputs = 0, equal = 0;  // under the plan, or under the closest one
  std::uint64_t hash = 0;                // of the output: sum of mix(code << 32 | index), index = column * m + row
  double seconds = 0;
};

}  // namespace narrow

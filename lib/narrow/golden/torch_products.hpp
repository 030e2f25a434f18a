// Products through functions of PyTorch that were recorded by shape and seed (data/golden/torch-products.tsv): the
// table, and what a model and plan make of one of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "narrow/golden/product_types.hpp"

namespace narrow {

struct RecordedTorchProduct {
  std::string type, function, library;  // f16, linear+bias, cublas (torch's own choice) or cublaslt
  ProductShape shape = {};              // a is m x k
  int batch = 1;
  std::uint64_t seed = 0, hash = 0;
  std::string model = {}, plan = {};               // empty where no plan was found
  std::optional<ProductAlgorithm> algorithm = {};  // what cuBLASLt's heuristic answers to torch's question

  double products() const { return static_cast<double>(batch) * shape.m * shape.n * shape.k; }
};
std::vector<RecordedTorchProduct> read_torch_products(std::string_view table);  // throws Error that names the line

// The hash of the product under a model and a plan; the recorded one is r.hash. Throws Error where they do not fit.
std::uint64_t torch_product_hash(const RecordedTorchProduct& r, std::string_view model, std::string_view plan,
                                 int threads = 0);

}  // namespace narrow

// Whole products through cuBLASLt as data: their types and shapes, what was chosen and which plan reproduces it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
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

// How a product is asked for. What the sweep asks for is A transposed times B, so that k is contiguous in both.
struct ProductCall {
  bool a_is_transposed = true;
  bool bias = false;  // joined by the epilogue
  int batch = 1;
  std::size_t workspace_bytes = std::size_t{32} << 20;
};

// A product as a function of PyTorch gives it to cuBLASLt: in column-major order, where rows of the result are columns.
struct TorchProduct {
  ProductType type;
  ProductShape shape;
  ProductCall call;
};
// function: matmul, linear, linear+bias or bmm; for e4m3 and s8 matmul is _scaled_mm and _int_mm. type: f16, bf16,
// tf32, e4m3, e4m3-slow or s8. shape as torch names it: a is m x k. library: cublas, which torch takes by itself and
// which is taken to choose as cuBLASLt does with cuBLAS's workspace of 32 MiB, or cublaslt
// (torch.backends.cuda.preferred_blas_library), to which torch gives 1 MiB; a bias, FP8 and int8 always go there.
TorchProduct torch_product(const std::string& function, const std::string& type, const ProductShape& shape,
                           int batch = 1, const std::string& library = "cublas");

// The algorithm that cuBLASLt's heuristic chose, by its own numbers.
struct ProductAlgorithm {
  int id = 0, tile = 0, stages = 0, split_k = 0, reduction = 0, swizzle = 0, custom = 0, inner = 0, cluster = 0;
  std::string text() const;
};
ProductAlgorithm read_algorithm(std::string_view text);  // what text() writes; throws Error

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

// The flags that describe a matrix product, for gemm and validate: matrices, model, plan, alpha, beta, scales.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "narrow/dot/gemm.hpp"
#include "products/code_matrix.hpp"

namespace app {

struct ProductOptions {
  std::optional<std::string> model, plan, alpha, beta, scale_a, scale_b, epilogue, threads;
  MatrixFlags a{"--a", {}, {}, false}, b{"--b", {}, {}, false}, c{"--c", {}, {}, false};

  void declare(Arguments& arguments);
};

// Everything that a product reads, in memory. options points into the vectors: neither copied nor moved.
struct ProductInputs {
  LoadedMatrix a, b;
  std::optional<LoadedMatrix> c;
  std::vector<float> scales_a, scales_b;
  std::vector<std::uint8_t> blocks_a, blocks_b;
  narrow::GemmOptions options;

  ProductInputs() = default;
  ProductInputs(const ProductInputs&) = delete;
  ProductInputs& operator=(const ProductInputs&) = delete;

  narrow::CodeMatrix c_view(std::size_t item = 0) const { return c ? c->view(item) : narrow::CodeMatrix{}; }
  std::size_t items() const;  // of the batch
};

// Loads the matrices, checks that their shapes fit, and reads the scales. Throws narrow::Error.
void load_product(const ProductOptions& options, const char* command, ProductInputs& inputs);

float parse_float(const char* flag, const std::string& text);  // a finite number
int parse_threads(const std::optional<std::string>& text);     // 0 when not given

// "128x128 = 128x512 * 512x128"
std::string product_shape(const ProductInputs& inputs);

}  // namespace app

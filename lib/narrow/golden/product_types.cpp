#include "narrow/golden/product_types.hpp"

#include <algorithm>

#include "narrow/base/error.hpp"

namespace narrow {

const std::vector<ProductType>& product_types() {
  static const std::vector<ProductType> types{
      {"f16", "fp16", "fp16", "fp32"},
      {"f16-f16", "fp16", "fp16", "fp16"},
      {"bf16", "bf16", "bf16", "fp32"},
      {"bf16-bf16", "bf16", "bf16", "bf16"},
      {"tf32", "tf32", "tf32", "fp32"},
      {"e4m3", "e4m3", "e4m3", "fp32"},
      {"e4m3-slow", "e4m3", "e4m3", "fp32", false},
      {"e5m2-e4m3", "e5m2", "e4m3", "fp32"},
      {"e5m2-e4m3-slow", "e5m2", "e4m3", "fp32", false},
      {"e4m3-bf16", "e4m3", "e4m3", "bf16"},
      {"s8", "int8", "int8", "int32"},
  };
  return types;
}

const ProductType& find_product_type(const std::string& name) {
  std::string names;
  for (const ProductType& type : product_types()) {
    if (type.name == name) return type;
    names += (names.empty() ? "" : ", ") + type.name;
  }
  throw Error("gpu: unknown product type '" + name + "'; one of " + names);
}

TorchProduct torch_product(const std::string& function, const std::string& type, const ProductShape& shape, int batch,
                           const std::string& library) {
  static const std::vector<ProductType> types{{"f16", "fp16", "fp16", "fp16"},
                                              {"bf16", "bf16", "bf16", "bf16"},
                                              {"tf32", "tf32", "tf32", "fp32"},
                                              {"e4m3", "e4m3", "e4m3", "bf16"},
                                              {"e4m3-slow", "e4m3", "e4m3", "bf16", false},
                                              {"s8", "int8", "int8", "int32"}};
  const auto found = std::find_if(types.begin(), types.end(), [&](const ProductType& t) { return t.name == type; });
  if (found == types.end())
    throw Error("unknown type '" + type + "'; one of f16, bf16, tf32, e4m3, e4m3-slow, s8");
  const bool linear = function.starts_with("linear"), narrow_type = found->a == "e4m3" || found->a == "int8";
  if (function != "matmul" && (narrow_type || (function != "linear" && function != "linear+bias" && function != "bmm")))
    throw Error("unknown call '" + function + "' of " + type + "; one of matmul" +
                (narrow_type ? " alone" : ", linear, linear+bias, bmm"));
  if (batch < 1 || (batch > 1 && function != "bmm")) throw Error("a batch goes with bmm");
  if (library != "cublas" && library != "cublaslt")
    throw Error("unknown library '" + library + "'; cublas or cublaslt");
  const bool bias = function == "linear+bias", lt = bias || narrow_type || library == "cublaslt";
  return {*found,
          {shape.n, shape.m, shape.k},
          {linear || found->a == "e4m3", bias, batch, std::size_t{lt ? 1u : 32u} << 20}};
}

// Square, thin, tall, long and short in K, and sizes that are no multiple of a tile (all are multiples of 16, which FP8
// asks for; the last group is not, and is for the wider types).
std::vector<ProductShape> product_shapes() {
  std::vector<ProductShape> shapes;
  for (const int size : {64, 128, 256, 512, 1024, 2048}) shapes.push_back({size, size, size});
  for (const int k : {16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}) shapes.push_back({128, 128, k});
  for (const int k : {64, 1024, 4096, 16384}) shapes.push_back({256, 256, k}), shapes.push_back({512, 512, k});
  for (const int k : {512, 4096}) {
    for (const int thin : {16, 32, 64}) shapes.push_back({thin, 2048, k}), shapes.push_back({2048, thin, k});
    shapes.push_back({1024, 1024, k}), shapes.push_back({384, 320, k}), shapes.push_back({4096, 128, k}),
        shapes.push_back({128, 4096, k});
    shapes.push_back({2048, 2048, k});
  }
  for (const int odd : {48, 80, 112, 144, 208, 272, 336, 720}) shapes.push_back({odd, odd + 16, 1008});
  for (const int k : {48, 80, 144, 1360, 5008}) shapes.push_back({160, 176, k});
  shapes.push_back({16, 16, 16}), shapes.push_back({16, 16, 4096}), shapes.push_back({4096, 16, 16384}),
      shapes.push_back({16, 4096, 16384});
  for (const ProductShape odd : {ProductShape{100, 100, 100}, {33, 65, 129}, {1000, 24, 500}, {7, 5, 1001}})
    shapes.push_back(odd);
  return shapes;
}

std::string ProductAlgorithm::text() const {
  return "id " + std::to_string(id) + " tile " + std::to_string(tile) + " stages " + std::to_string(stages) +
         " split-k " + std::to_string(split_k) + " reduction " + std::to_string(reduction) + " swizzle " +
         std::to_string(swizzle) + " custom " + std::to_string(custom) + " inner " + std::to_string(inner) +
         " cluster " + std::to_string(cluster);
}

}  // namespace narrow

// One product through cuBLASLt: described, given to its heuristic, run; and what the heuristic chose.
#pragma once

#include <cublasLt.h>

#include <memory>
#include <string>

#include "narrow/base/error.hpp"
#include "narrow/cuda/product.hpp"

namespace narrow::detail {

inline void require_blas(cublasStatus_t status, const std::string& what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw Error("gpu: cuBLASLt: " + what + ": status " + std::to_string(static_cast<int>(status)));
}

template <class T>
struct Destroy;
template <>
struct Destroy<cublasLtMatmulDescOpaque_t> {
  void operator()(cublasLtMatmulDescOpaque_t* p) const { cublasLtMatmulDescDestroy(p); }
};
template <>
struct Destroy<cublasLtMatrixLayoutOpaque_t> {
  void operator()(cublasLtMatrixLayoutOpaque_t* p) const { cublasLtMatrixLayoutDestroy(p); }
};
template <>
struct Destroy<cublasLtMatmulPreferenceOpaque_t> {
  void operator()(cublasLtMatmulPreferenceOpaque_t* p) const { cublasLtMatmulPreferenceDestroy(p); }
};
template <class T>
using Owned = std::unique_ptr<T, Destroy<T>>;

inline cublasLtHandle_t handle() {
  static cublasLtHandle_t h = [] {
    cublasLtHandle_t made;
    require_blas(cublasLtCreate(&made), "starting");
    return made;
  }();
  return h;
}

inline cudaDataType_t data_type(const std::string& format) {
  if (format == "fp32" || format == "tf32") return CUDA_R_32F;
  if (format == "fp16") return CUDA_R_16F;
  if (format == "bf16") return CUDA_R_16BF;
  if (format == "e4m3") return CUDA_R_8F_E4M3;
  if (format == "e5m2") return CUDA_R_8F_E5M2;
  return format == "int8" ? CUDA_R_8I : CUDA_R_32I;
}
inline int bytes_of(const std::string& format) {
  if (format == "fp32" || format == "tf32" || format == "int32") return 4;
  return format == "fp16" || format == "bf16" ? 2 : 1;
}

inline constexpr std::size_t workspace_bytes = ProductCall{}.workspace_bytes;

// One product, column-major: A transposed times B, so that k is contiguous in both (the only form that FP8 has), or
// A times B. What has a bias or is one of a batch can be asked about, not run.
class LtProduct {
 public:
  LtProduct(const ProductType& type, const ProductShape& s, const ProductCall& call = {}) : type_(type), shape_(s) {
    const bool integer = type.a == "int8", tf32 = type.a == "tf32";
    cublasLtMatmulDesc_t desc;
    require_blas(cublasLtMatmulDescCreate(&desc,
                                          integer ? CUBLAS_COMPUTE_32I
                                          : tf32  ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                  : CUBLAS_COMPUTE_32F,
                                          integer ? CUDA_R_32I : CUDA_R_32F),
                 "describing the product");
    desc_.reset(desc);
    const cublasOperation_t transposed = call.a_is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    require_blas(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed),
                 "transposing");
    if (bytes_of(type.a) == 1 && !integer) {
      const std::int8_t fast = type.fast ? 1 : 0;
      require_blas(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof fast),
                   "fast accumulation");
    }
    if (call.bias) {
      const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
      alignas(256) static const char bias[256] = {};  // an address: nothing is run
      const void* address = bias;
      require_blas(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue),
                   "epilogue");
      require_blas(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &address, sizeof address),
                   "bias");
    }
    const auto layout = [&](Owned<cublasLtMatrixLayoutOpaque_t>& to, const std::string& format, int rows, int columns) {
      cublasLtMatrixLayout_t made;
      require_blas(cublasLtMatrixLayoutCreate(&made, data_type(format), static_cast<std::uint64_t>(rows),
                                              static_cast<std::uint64_t>(columns), rows),
                   "describing a matrix");
      to.reset(made);
      if (call.batch == 1) return;
      const std::int64_t apart = std::int64_t{rows} * columns;
      require_blas(
          cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &call.batch, sizeof call.batch),
          "batch");
      require_blas(
          cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &apart, sizeof apart),
          "batch");
    };
    if (call.a_is_transposed) layout(a_, type.a, s.k, s.m);
    else layout(a_, type.a, s.m, s.k);
    layout(b_, type.b, s.k, s.n), layout(d_, type.d, s.m, s.n);
    cublasLtMatmulPreference_t preference;
    require_blas(cublasLtMatmulPreferenceCreate(&preference), "preferences");
    const Owned<cublasLtMatmulPreferenceOpaque_t> owned(preference);
    require_blas(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                      &call.workspace_bytes, sizeof call.workspace_bytes),
                 "preferences");
    int found = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle(), desc, a_.get(), b_.get(), d_.get(), d_.get(),
                                                                 preference, 1, &choice_, &found);
    if (status != CUBLAS_STATUS_SUCCESS || found == 0)
      throw Error("gpu: cuBLASLt has no algorithm for " + type.name + " " + std::to_string(s.m) + " x " +
                  std::to_string(s.n) + " x " + std::to_string(s.k));
  }

  ProductAlgorithm algorithm() const {
    ProductAlgorithm a;
    const auto ask = [&](cublasLtMatmulAlgoConfigAttributes_t what, int& to) {
      std::uint64_t value = 0;
      std::size_t written = 0;
      if (cublasLtMatmulAlgoConfigGetAttribute(&choice_.algo, what, &value, sizeof value, &written) !=
          CUBLAS_STATUS_SUCCESS) {
        std::uint32_t small = 0;
        std::uint16_t smaller = 0;
        if (cublasLtMatmulAlgoConfigGetAttribute(&choice_.algo, what, &small, sizeof small, &written) ==
            CUBLAS_STATUS_SUCCESS)
          value = small;
        else if (cublasLtMatmulAlgoConfigGetAttribute(&choice_.algo, what, &smaller, sizeof smaller, &written) ==
                 CUBLAS_STATUS_SUCCESS)
          value = smaller;
      }
      to = static_cast<int>(value);
    };
    ask(CUBLASLT_ALGO_CONFIG_ID, a.id), ask(CUBLASLT_ALGO_CONFIG_TILE_ID, a.tile),
        ask(CUBLASLT_ALGO_CONFIG_STAGES_ID, a.stages);
    ask(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, a.split_k), ask(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, a.reduction);
    ask(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, a.swizzle), ask(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, a.custom);
    ask(CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, a.inner), ask(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, a.cluster);
    return a;
  }

  void run(const void* a, const void* b, void* d, void* workspace) const {
    const float one = 1, zero = 0;
    const std::int32_t int_one = 1, int_zero = 0;
    const bool integer = type_.a == "int8";
    require_blas(cublasLtMatmul(handle(), desc_.get(), integer ? static_cast<const void*>(&int_one) : &one, a, a_.get(),
                                b, b_.get(), integer ? static_cast<const void*>(&int_zero) : &zero, d, d_.get(), d,
                                d_.get(), &choice_.algo, workspace, workspace_bytes, nullptr),
                 "multiplying");
  }

 private:
  ProductType type_;
  ProductShape shape_;
  Owned<cublasLtMatmulDescOpaque_t> desc_;
  Owned<cublasLtMatrixLayoutOpaque_t> a_, b_, d_;
  cublasLtMatmulHeuristicResult_t choice_{};
};

}  // namespace narrow::detail

// Fused products with an fp16 accumulator.
#include "narrow/cuda/fused_gemm.cuh"

namespace narrow::detail {

void launch_fused_half(const FusedGemm& g, int products_per_step, bool wide, int tiles, Tally* tally,
                       cudaStream_t stream) {
  launch_fused_by_step<true>(g, products_per_step, wide, tiles, tally, stream);
}

}  // namespace narrow::detail

// narrow gpu in a build without CUDA.
#include "narrow/base/error.hpp"
#include "products/gpu.hpp"

namespace app {

int run_gpu(const GpuRequest&) {
  throw narrow::Error(
      "gpu: this narrow was built without CUDA; install the CUDA toolkit and configure with -DNARROW_CUDA=ON "
      "(data/golden holds recordings that are checked without a GPU)");
}

}  // namespace app

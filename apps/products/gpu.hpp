// What `narrow gpu` was asked. The work is in gpu_run.cpp, which only builds with CUDA; gpu_none.cpp says so otherwise.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/json_value.hpp"
#include "narrow/golden/plan_prediction.hpp"
#include "narrow/golden/torch_products.hpp"

namespace app {

struct GpuRequest {
  std::vector<std::string> words;  // check, record, bench, plan M N K, replay FILE..
  std::optional<std::string> sections, only, dots, seed, scale, folder, type, learned, cublas, seconds, torch, table;
  std::string function;  // plan --torch: matmul, linear, linear+bias, bmm
  std::string library = "cublas";
  int batch = 1;
  std::vector<narrow::RecordedTorchProduct> torch_products;
  std::vector<narrow::RecordedProduct> recorded;  // plan: what to foretell from
  narrow::ProductOrigin recorded_with;
  bool json = false, list = false, predict = false, share = false;
};

int run_gpu(const GpuRequest& request);

// recorded_with, cublas and warning: which pair an answer from the table rests on, and whether it is the one in use.
void add_origin(Json& row, const narrow::ProductOrigin& recorded, const narrow::CublasVersion& used,
                const std::string& warning);

}  // namespace app

// narrow gpu plan: the plan of a product told before it runs, and then what it was.
#include "products/gpu_plan.hpp"

#include "cli/command.hpp"
#include "cli/json_value.hpp"
#include "cli/terminal.hpp"
#include "narrow/cuda/device.hpp"
#include "narrow/cuda/product.hpp"
#include "narrow/golden/plan_prediction.hpp"

namespace app {
int run_gpu_plan(const GpuRequest& request, const narrow::ProductType& type, const narrow::ProductShape& shape,
                 std::uint64_t seed) {
  narrow::open_device();
  const narrow::ProductAlgorithm algorithm = narrow::choose_algorithm(type, shape);
  const narrow::PlanPrediction foretold = narrow::predict_plan(request.recorded, type, shape, algorithm);
  Json row = Json::object();
  row["type"] = type.name, row["m"] = shape.m, row["n"] = shape.n, row["k"] = shape.k,
  row["algorithm"] = algorithm.text();
  row["predicted_model"] = foretold.model, row["predicted_plan"] = foretold.plan, row["recorded"] = foretold.recorded;
  const narrow::CublasVersion used = narrow::cublas_version();
  const std::string warning = narrow::version_warning(request.recorded_with, used);
  add_origin(row, request.recorded_with, used, warning);
  if (!request.json)
    print("cuBLASLt " + used.number + " chooses " + algorithm.text() + "\nforetold from " +
          (foretold.recorded ? "a recorded product of this shape" : "the numbers of that algorithm") + ": " +
          foretold.model + ", plan " + foretold.plan + "\n(the table and the rule: recorded with " +
          request.recorded_with.text() + ")\n" + (warning.empty() ? "" : "warning: " + warning + "\n"));
  if (request.predict) {
    if (request.json) print(row.dump(2) + "\n");
    return 0;
  }
  const narrow::ProductFinding f = narrow::find_product_plan(type, shape, seed);
  if (request.json) {
    row["model"] = f.model.empty() ? Json() : Json(f.model), row["plan"] = f.plan, row["outputs"] = f.outputs,
    row["equal"] = f.equal;
    print(row.dump(2) + "\n");
  } else {
    print((f.model.empty() ? "run: no plan reproduces it; " + f.plan : "run: " + f.model + ", plan " + f.plan) + ": " +
          std::to_string(f.equal) + " of " + std::to_string(f.outputs) + " outputs equal\n");
  }
  return f.model.empty() ? 1 : 0;
}

}  // namespace app

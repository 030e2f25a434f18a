// narrow gpu plan: how cuBLAS will cut a product, told before it runs, as PyTorch asks for it, or for a whole table.
#include <algorithm>
#include <cstdlib>

#include "cli/json_value.hpp"
#include "cli/terminal.hpp"
#include "narrow/cuda/device.hpp"
#include "narrow/cuda/product.hpp"
#include "products/gpu_run.hpp"

namespace app {
namespace {

void add_foretold(Json& row, const narrow::PlanPrediction& foretold) {
  const bool open = foretold.model.empty();
  row["predicted_model"] = open ? Json() : Json(foretold.model);
  row["predicted_plan"] = open ? Json() : Json(foretold.plan), row["recorded"] = foretold.recorded;
}

std::string foretold_text(const narrow::PlanPrediction& foretold) {
  if (foretold.model.empty())
    return "\na kernel for one row or column: its plan is not foretold; narrow validate finds it from a product\n";
  return std::string("\nforetold from ") +
         (foretold.recorded ? "a recorded product of this shape" : "the numbers of that algorithm") + ": " +
         foretold.model + ", plan " + foretold.plan + "\n";
}

// The plan of one product through torch, from what cuBLASLt's heuristic answers to torch's question.
narrow::PlanPrediction torch_plan(const narrow::TorchProduct& p, narrow::ProductAlgorithm& algorithm) {
  algorithm = narrow::choose_algorithm(p.type, p.shape, p.call);
  return narrow::plan_of_algorithm(p.type, p.shape, algorithm, p.call.bias);
}

int plan_for_torch(const GpuRequest& request, const narrow::ProductShape& shape) {
  const std::string type = request.type.value_or("f16");
  narrow::ProductAlgorithm algorithm;
  const narrow::PlanPrediction foretold =
      torch_plan(narrow::torch_product(request.function, type, shape, request.batch, request.library), algorithm);
  const narrow::CublasVersion used = narrow::cublas_version();
  const std::string warning = narrow::version_warning(request.recorded_with, used);
  if (request.json) {
    Json row = Json::object();
    row["type"] = type, row["torch"] = *request.torch, row["m"] = shape.m, row["n"] = shape.n, row["k"] = shape.k;
    row["algorithm"] = algorithm.text();
    add_foretold(row, foretold);
    add_origin(row, request.recorded_with, used, warning);
    print(json_text(row));
  } else {
    print("cuBLASLt " + used.number + " chooses " + algorithm.text() + " for torch's " + *request.torch +
          foretold_text(foretold) +
          "(matmul, linear without bias and bmm go through cuBLAS, which is taken to choose as cuBLASLt does; `narrow "
          "gpu plan --check` says how often that held)\n" +
          (warning.empty() ? "" : "warning: " + warning + "\n"));
  }
  return 0;
}

// Foretold and found, for every product of the table: by the same sums, or, since outputs of 16 bits are often those of
// several plans, by the same bits.
struct PlanCheck {
  struct Count {
    std::string name;
    int right = 0, total = 0, open = 0;  // open: cuBLASLt refused, or the plan of that kernel is not foretold
  };
  std::vector<Count> counts;
  Json algorithms = Json::array();  // of every line of the table, null where there is none
  Json wrong = Json::array();

  Count& count_of(const std::string& name) {
    const auto found = std::find_if(counts.begin(), counts.end(), [&](const Count& c) { return c.name == name; });
    return found != counts.end() ? *found : *counts.insert(counts.end(), Count{name});
  }

  void add(const narrow::RecordedTorchProduct& r) {
    algorithms.push_back(Json());
    narrow::ProductAlgorithm algorithm;
    narrow::PlanPrediction foretold;
    try {
      foretold = torch_plan(narrow::torch_product(r.function, r.type, r.shape, r.batch, r.library), algorithm);
      algorithms.back() = algorithm.text();
    } catch (const narrow::Error& error) {
      if (std::string(error.what()).find("no algorithm") == std::string::npos) throw;
    }
    if (r.model.empty()) return;
    const std::string name = r.library + " " + r.function + " " + r.type;
    Count& count = count_of(name);
    if (foretold.model.empty()) {
      ++count.open;
      return;
    }
    ++count.total;
    if (narrow::same_sums(foretold, {r.model, r.plan}, {r.shape.n, r.shape.m, r.shape.k}) ||
        narrow::torch_product_hash(r, foretold.model, foretold.plan) == r.hash) {
      ++count.right;
      return;
    }
    Json row = Json::object();
    row["product"] = name + " " + sizes_of(r.shape), row["algorithm"] = algorithm.text();
    row["foretold"] = foretold.model + ", " + foretold.plan, row["found"] = r.model + ", " + r.plan;
    wrong.push_back(row);
  }
};

int check_plans(const GpuRequest& request) {
  PlanCheck check;
  for (const narrow::RecordedTorchProduct& r : request.torch_products) check.add(r);
  int right = 0, total = 0, open = 0;
  Json rows = Json::array();
  for (const PlanCheck::Count& c : check.counts) {
    right += c.right, total += c.total, open += c.open;
    rows.push_back({{"name", c.name}, {"foretold", c.right}, {"total", c.total}, {"left_open", c.open}});
    if (!request.json)
      print(format_text("%-28s %5d of %5d foretold, %d left open\n", c.name.c_str(), c.right, c.total, c.open));
  }
  if (request.json) {
    print(json_text({{"foretold", right},
                     {"total", total},
                     {"left_open", open},
                     {"rows", rows},
                     {"others", check.wrong},
                     {"algorithms", check.algorithms}}));
    return right == total ? 0 : 1;
  }
  for (const Json& row : check.wrong)
    print(row["product"].get<std::string>() + ": foretold " + row["foretold"].get<std::string>() + "; found " +
          row["found"].get<std::string>() + " (" + row["algorithm"].get<std::string>() + ")\n");
  print(format_text("%d of %d foretold, %d left open, by cuBLASLt %s\n", right, total, open,
                    narrow::cublas_version().number.c_str()));
  return right == total ? 0 : 1;
}

}  // namespace

int plan_gpu(const GpuRequest& request) {
  if (request.table) {
    narrow::open_device();
    return check_plans(request);
  }
  const auto size = [&](std::size_t i) { return std::atoi(request.words[i].c_str()); };  // checked in gpu.cpp
  const narrow::ProductShape shape{size(1), size(2), size(3)};
  narrow::open_device();
  if (request.torch) return plan_for_torch(request, shape);
  const narrow::ProductType& type = narrow::find_product_type(request.type.value_or("f16"));
  const narrow::ProductAlgorithm algorithm = narrow::choose_algorithm(type, shape);
  const narrow::PlanPrediction foretold = narrow::predict_plan(request.recorded, type, shape, algorithm);
  Json row = Json::object();
  row["type"] = type.name, row["m"] = shape.m, row["n"] = shape.n, row["k"] = shape.k,
  row["algorithm"] = algorithm.text();
  add_foretold(row, foretold);
  const narrow::CublasVersion used = narrow::cublas_version();
  const std::string warning = narrow::version_warning(request.recorded_with, used);
  add_origin(row, request.recorded_with, used, warning);
  if (!request.json)
    print("cuBLASLt " + used.number + " chooses " + algorithm.text() + foretold_text(foretold) +
          "(the table and the rule: recorded with " + request.recorded_with.text() + ")\n" +
          (warning.empty() ? "" : "warning: " + warning + "\n"));
  if (request.predict) {
    if (request.json) print(row.dump(2) + "\n");
    return 0;
  }
  const narrow::ProductFinding f = narrow::find_product_plan(type, shape, gpu_seed(request));
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

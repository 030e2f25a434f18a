#include "narrow/cuda/fused_gemm.cuh"
#include "narrow/cuda/fused_gemm.hpp"
#include "narrow/cuda/gemm.hpp"

namespace narrow {

namespace {

bool is_chain(const Plan& plan) { return plan.order == SumOrder::chain && plan.residue == 0; }

}  // namespace

std::string why_no_kernel(const DotModel& model, const Plan& plan, bool with_c) {
  const bool fused = detail::has_fused_kernel(model), joins = plan.order != SumOrder::chain;
  const std::string of_model = "model '" + std::string(model.name.view()) + "'";
  if (!fused && !detail::has_scalar_kernel(model)) return "gpu: no kernel for " + of_model;
  if (plan.order == SumOrder::stream_k || plan.c != PlaceOfC::usual || plan.operands != Operands::cut)
    return "gpu: no kernel for plan '" + plan_text(plan) + "'";
  if (!is_chain(plan) && (!fused || model.rule != DotRule::fused || (joins && with_c) || plan.join != Join::in_order || plan.order == SumOrder::blocks ||
                          plan.partials != Partials::wide))
    return "gpu: no kernel for plan '" + plan_text(plan) + "' of " + of_model + "; chain is always possible";
  return "";
}

void gemm_on_device(const DotModel& model, const Plan& plan, int m, int n, int k, const DeviceCodes& a,
                    const DeviceCodes& b, const void* c, void* d, GpuStream stream) {
  using namespace detail;
  if (const std::string why = why_no_kernel(model, plan, c != nullptr); !why.empty()) throw Error(why);
  const bool fused = has_fused_kernel(model), chain = is_chain(plan), joins = plan.order != SumOrder::chain;
  if (m <= 0 || n <= 0 || k < 0)
    throw Error("gpu: a product of " + std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k));
  FusedGemm g{};
  g.a = {a.data, a.code_bytes, 0, a.line_stride, a.k_stride};
  g.b = {b.data, b.code_bytes, 0, b.line_stride, b.k_stride};
  g.c = {c, model.accumulator.format.width() / 8, 0, 0, 0};
  g.d = d, g.d_stride = n, g.c_stride = n;
  g.rows = m, g.columns = n, g.products = k;
  g.scale_a = a.scales, g.scale_b = b.scales;
  set_model(g, model);
  if (!fused) return launch_scalar(g, model, 1, nullptr, stream);
  if (chain) return launch_fused(g, model, 1, nullptr, stream);
  const Schedule schedule =
      make_schedule(plan, model, static_cast<std::size_t>(k), static_cast<std::size_t>(m), static_cast<std::size_t>(n));
  std::vector<int> ends;
  for (const Segment& s : schedule.segments) ends.push_back(static_cast<int>(s.end));
  int *order = nullptr, *device_ends = nullptr;
  const std::size_t order_bytes = schedule.order.size() * sizeof(int), ends_bytes = ends.size() * sizeof(int);
  require_cuda(cudaMallocAsync(reinterpret_cast<void**>(&order), order_bytes, stream), "memory for a plan");
  require_cuda(cudaMallocAsync(reinterpret_cast<void**>(&device_ends), ends_bytes, stream), "memory for a plan");
  require_cuda(cudaMemcpyAsync(order, schedule.order.data(), order_bytes, cudaMemcpyHostToDevice, stream),
               "copying a plan");
  require_cuda(cudaMemcpyAsync(device_ends, ends.data(), ends_bytes, cudaMemcpyHostToDevice, stream), "copying a plan");
  g.order = order, g.ends = joins ? device_ends : nullptr, g.positions = static_cast<int>(schedule.order.size());
  launch_fused(g, model, 1, nullptr, stream);
  require_cuda(cudaFreeAsync(order, stream), "memory of a plan");
  require_cuda(cudaFreeAsync(device_ends, stream), "memory of a plan");
}

}  // namespace narrow

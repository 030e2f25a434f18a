#include "narrow/special/attention.hpp"

#include "narrow/base/error.hpp"
#include "narrow/base/float_environment.hpp"
#include "narrow/dot/gemm_checks.hpp"
#include "narrow/special/attention_kernels.hpp"

namespace narrow {

namespace {

constexpr AttentionRow attention_table[] = {
    {"flash2", "FlashAttention-2 as in PyTorch 2.11: the backend FLASH_ATTENTION", detail::flash_attention_kernel,
     detail::run_flash_attention, detail::flash_backward_kernel, detail::run_flash_backward},
    {"cudnn", "cuDNN 9.19's fused attention: what PyTorch 2.11 runs on Hopper unless told otherwise",
     detail::cudnn_attention_kernel, detail::run_cudnn_attention},
    {"efficient", "CUTLASS's fused attention as in PyTorch 2.11: the backend EFFICIENT_ATTENTION",
     detail::efficient_attention_kernel, detail::run_efficient_attention},
    {"math", "FP32 products and a softmax of their own as in PyTorch 2.11: the backend MATH",
     detail::math_attention_kernel, detail::run_math_attention},
    {"double", "the definition in double precision, rounded once", detail::double_attention_kernel,
     detail::run_double_attention},
};

// What a, b, .. multiplied give; Error where that is more than a size can say.
std::size_t attention_elements(std::initializer_list<std::size_t> sizes) {
  std::size_t product = 1;
  for (const std::size_t size : sizes)
    if (size != 0 && __builtin_mul_overflow(product, size, &product))
      throw Error("attention: sizes that no memory holds");
  for (const std::size_t size : sizes) product = size == 0 ? 0 : product;
  return product;
}

void check_operand(const char* name, std::size_t have, std::size_t want) {
  if (have == want) return;
  throw Error(std::string("attention: ") + name + " has " + std::to_string(have) + " elements where the shape says " +
              std::to_string(want));
}

void check_attention(const AttentionRequest& r) {
  if (r.type != "fp16"_fmt && r.type != "bf16"_fmt) throw Error("attention: the type must be fp16 or bf16");
  if (r.kv_heads == 0 ? r.heads != 0 : r.heads % r.kv_heads != 0)
    throw Error("attention: " + std::to_string(r.heads) + " heads cannot share " + std::to_string(r.kv_heads) +
                " heads of keys evenly");
  if (r.dim == 0) throw Error("attention: heads need at least one dimension");
  if (const std::string problem = r.plans ? attention_plans_problem(*r.plans) : ""; !problem.empty())
    throw Error("attention: " + problem);
  if (r.multiprocessors < 1) throw Error("attention: a GPU has at least one multiprocessor");
  const std::size_t keys = attention_elements({r.batch, r.kv_heads, r.keys, r.dim});
  check_operand("q", r.q.size(), attention_elements({r.batch, r.heads, r.queries, r.dim}));
  check_operand("k", r.k.size(), keys);
  check_operand("v", r.v.size(), keys);
}

const AttentionRow& find_attention(std::string_view variant) {
  std::string known;
  for (const AttentionRow& row : attention_table) {
    if (row.variant == variant) return row;
    known += (known.empty() ? "" : ", ") + std::string(row.variant);
  }
  throw Error("attention: there is no variant '" + std::string(variant) + "'; there are " + known);
}

[[noreturn]] void throw_no_kernel(std::string_view variant, const char* what, const AttentionRequest& r) {
  throw Error("attention: '" + std::string(variant) + "' has no " + what + " for this request: dimension " +
              std::to_string(r.dim) + ", " + std::to_string(r.queries) + " queries, " + std::to_string(r.keys) +
              " keys" + (r.causal ? ", causal" : "") + ", " + std::to_string(r.heads) + " heads over " +
              std::to_string(r.kv_heads));
}

}  // namespace

std::vector<const AttentionRow*> attention_rows() {
  std::vector<const AttentionRow*> rows;
  for (const AttentionRow& row : attention_table) rows.push_back(&row);
  return rows;
}

std::vector<std::uint16_t> run_attention(std::string_view variant, const AttentionRequest& request) {
  const AttentionRow& row = find_attention(variant);
  check_attention(request);
  const DefaultFloats guard;
  std::vector<std::uint16_t> o(request.q.size());
  if (o.empty()) return o;
  if (row.kernel(request).empty()) throw_no_kernel(variant, "kernel", request);
  if (request.keys != 0) row.run(request, o);  // without keys all results are zero
  return o;
}

std::string detail::math_plan_problem(const Plan& plan) {
  if (plan.order == SumOrder::stream_k) return "depends on the tile of the output, and no tiles of these products are known";
  if (plan.partials != Partials::wide || plan.c != PlaceOfC::usual) return "rounds parts or places C; parts are FP32 here, and there is no C";
  return plan_problem(*find_dot_model("software.fma.f32.f32.f32"), plan, {});
}

std::string attention_plans_problem(const AttentionPlans& plans) {
  for (const Plan& plan : {plans.scores, plans.values})
    if (const std::string problem = detail::math_plan_problem(plan); !problem.empty())
      return "the order " + plan_text(plan) + " " + problem;
  return "";
}

FoundPlans find_attention_plans(const AttentionRequest& request, std::span<const std::uint16_t> o) {
  check_attention(request);
  check_operand("o", o.size(), request.q.size());
  const DefaultFloats guard;
  AttentionRequest r = request;
  r.plans.reset();
  if (o.empty() || r.keys == 0 || !find_attention("math").kernel(r).empty()) return {};
  return detail::find_math_plans(r, o);
}

std::string attention_backward_kernel(std::string_view variant, const AttentionRequest& request) {
  const AttentionRow& row = find_attention(variant);
  return row.backward_kernel == nullptr ? std::string() : row.backward_kernel(request);
}

AttentionGradients run_attention_backward(std::string_view variant, const AttentionRequest& request,
                                          std::span<const std::uint16_t> d_o) {
  const AttentionRow& row = find_attention(variant);
  check_attention(request);
  check_operand("d_o", d_o.size(), request.q.size());
  const DefaultFloats guard;
  AttentionGradients d{std::vector<std::uint16_t>(request.q.size()), std::vector<std::uint16_t>(request.k.size()),
                       std::vector<std::uint16_t>(request.v.size())};
  if (d.q.empty() || d.k.empty()) return d;  // nothing depends on anything
  if (attention_backward_kernel(variant, request).empty()) throw_no_kernel(variant, "backward kernel", request);
  row.run_backward(request, d_o, d);
  return d;
}

}  // namespace narrow

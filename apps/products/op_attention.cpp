// Attention: Q, K and V read, the variants that take them, and orders of sums that a result alone tells.
#include <algorithm>
#include <array>
#include <memory>

#include "narrow/special/attention.hpp"
#include "products/op_loaders.hpp"

namespace app {
namespace of_operation {

struct AttentionData {
  narrow::AttentionRequest request;
  std::vector<std::uint16_t> q, k, v, g;
};

// "SCORES/VALUES".
narrow::AttentionPlans parse_plans(const std::string& text) {
  const std::size_t bar = text.find('/');
  if (bar == std::string::npos)
    throw Error("--plan: " + narrow::quote(text) + " is no pair of orders, of the scores and of the values; for example split:32/chain");
  const narrow::AttentionPlans plans = blame("--plan", [&] {
    return narrow::AttentionPlans{narrow::parse_plan(text.substr(0, bar)), narrow::parse_plan(text.substr(bar + 1))};
  });
  const std::string problem = narrow::attention_plans_problem(plans);
  if (!problem.empty()) throw Error("--plan: " + problem);
  return plans;
}

OperationVariant attention_variant(const narrow::AttentionRow& row, const std::shared_ptr<const AttentionData>& data,
                                   std::optional<narrow::AttentionPlans> plans = {}) {
  narrow::AttentionRequest r = data->request;
  if (plans) r.plans = plans;
  return {std::string(row.variant), row.kernel(r), std::string(row.what), row.variant != "double", [data, r, &row] {
            const auto o = narrow::run_attention(row.variant, r);
            return std::vector<std::uint32_t>(o.begin(), o.end());
          }};
}

// Batch, heads, length, dimension: ones stand in front.
std::array<std::size_t, 4> four(const Tensor& t, const MatrixFlags& flags) {
  if (t.shape.size() > 4)
    throw Error(std::string(flags.name) + ": " + narrow::quote(*flags.file) + " has the shape " + shape_text(t.shape) +
                "; attention takes [batch, heads, length, dimension]");
  std::array<std::size_t, 4> sizes{1, 1, 1, 1};
  for (std::size_t i = 0; i < t.shape.size(); ++i) sizes[4 - t.shape.size() + i] = static_cast<std::size_t>(t.shape[i]);
  return sizes;
}

LoadedOperation load_attention(const OperationFlags& flags) {
  const Tensor q = load_operand(flags.q), k = load_beside(flags.k, q, "q"), v = load_beside(flags.v, q, "q");
  if (q.type.format == fp32) throw Error(held_by(flags.q, q) + "; attention is known for F16 and BF16");
  const auto of_q = four(q, flags.q), of_k = four(k, flags.k), of_v = four(v, flags.v);
  if (of_k != of_v || of_q[0] != of_k[0] || of_q[3] != of_k[3] || of_q[1] % of_k[1] != 0)
    throw Error(
        "attention: q is " + shape_text(q.shape) + ", k " + shape_text(k.shape) + " and v " + shape_text(v.shape) +
        "; right are [batch, heads, length, dimension], with a length of their own and fewer heads for k and v");
  const auto data = std::make_shared<AttentionData>();
  narrow::AttentionRequest& r = data->request;
  r.type = q.type.format, r.batch = of_q[0], r.heads = of_q[1], r.queries = of_q[2], r.dim = of_q[3];
  r.kv_heads = of_k[1], r.keys = of_k[2], r.causal = flags.causal, r.threads = parse_threads(flags.threads);
  if (flags.scale) r.scale = parse_double("--scale", *flags.scale);
  if (flags.plan && flags.variant != "math")
    throw Error("--plan: it belongs to --variant math: other kernels have orders of their own");
  const auto read = [](const Tensor& t, const char* flag, std::vector<std::uint16_t>& codes) {
    codes.resize(count_of(t));
    blame(flag, [&] { return narrow::read_codes(t, 0, std::span(codes)), 0; });
  };
  read(q, "--q", data->q), read(k, "--k", data->k), read(v, "--v", data->v);
  r.q = data->q, r.k = data->k, r.v = data->v;

  LoadedOperation operation{flags.name, r.type, q.shape, {}};
  std::vector<std::string_view> known;
  const bool backward = flags.g.file.has_value();
  const char which = flags.name.back();
  if (backward) {
    const Tensor g = load_beside(flags.g, q, "q");
    if (g.shape != q.shape)
      throw Error("--g: " + narrow::quote(*flags.g.file) + " has the shape " + shape_text(g.shape) + " and q " +
                  shape_text(q.shape) + ": the gradient of the result has that of q");
    read(g, "--g", data->g);
    if (which != 'q') operation.shape = k.shape;
  }
  for (const narrow::AttentionRow* row : narrow::attention_rows()) {
    if (backward && row->run_backward == nullptr) continue;
    known.push_back(row->variant);
    if (flags.plan && row->variant == "math") {
      if (!row->kernel(r).empty())
        throw Error("--plan: several heads are one batched product, whose sums are chains; without --plan they are computed so");
      r.plans = parse_plans(*flags.plan);
    }
    const std::string kernel = row->kernel(r).empty() ? "" : backward ? row->backward_kernel(r) : row->kernel(r);
    if (kernel.empty() && !backward && row->variant == "math")
      operation.found = [data, row](const std::vector<std::uint32_t>& d) {
        std::vector<OperationVariant> variants;
        const std::vector<std::uint16_t> o(d.begin(), d.end());
        narrow::FoundPlans found = narrow::find_attention_plans(data->request, o);
        const std::size_t count = found.plans.size();
        constexpr std::size_t most = 4;  // where a part was looked at, the first may be wrong in the rest
        found.plans.resize(std::clamp<std::size_t>(count, 1, most));  // none: how far one chain each is from it
        for (const narrow::AttentionPlans& each : found.plans) {
          variants.push_back(attention_variant(*row, data, each));
          if (found.exact && count > 1)
            variants.back().what += "; this data does not tell " + std::to_string(count) + " pairs of orders apart, the likeliest is named";
        }
        return variants;
      };
    if (kernel.empty()) continue;
    if (backward) {
      operation.variants.push_back(
          {std::string(row->variant), kernel, std::string(row->what), true, [data, row, which] {
             const narrow::AttentionGradients d = narrow::run_attention_backward(row->variant, data->request, data->g);
             const auto& one = which == 'q' ? d.q : which == 'k' ? d.k : d.v;
             return std::vector<std::uint32_t>(one.begin(), one.end());
           }});
      continue;
    }
    operation.variants.push_back(attention_variant(*row, data));
  }
  // What torch takes on an H200, where it applies.
  std::stable_partition(operation.variants.begin(), operation.variants.end(),
                        [](const OperationVariant& one) { return one.name == "cudnn"; });
  choose(flags, known, operation);
  return operation;
}

}  // namespace of_operation
}  // namespace app

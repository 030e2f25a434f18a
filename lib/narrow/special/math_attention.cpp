// PyTorch's attention of single operations (N/transformers/attention.cpp, _scaled_dot_product_attention_math): operands
// in FP32, both scaled by the root of the scale, two SGEMMs with a softmax between them.
#include "narrow/dot/validate.hpp"
#include "narrow/special/attention_tile.hpp"
#include "narrow/special/operation_kernels.hpp"

namespace narrow::detail {

namespace {

constexpr std::size_t math_rows = 128;  // of one part of the work; no bit depends on it

// Values of codes, each times a factor.
std::vector<float> scaled_values(const std::uint16_t* codes, std::size_t count, const Format& type, float factor) {
  std::vector<float> values(count);
  decode_array(std::span(codes, count), type, std::span(values), 1);
  if (factor != 1)
    for (float& value : values) value *= factor;
  return values;
}

const DotModel& fused_chain() {
  static const DotModel& model = *find_dot_model("software.fma.f32.f32.f32");
  return model;
}

std::vector<std::uint32_t> words_of(const std::vector<float>& x) {
  std::vector<std::uint32_t> out(x.size());
  std::transform(x.begin(), x.end(), out.begin(), [](float value) { return std::bit_cast<std::uint32_t>(value); });
  return out;
}

// d = a b by fused multiply-adds; b: k x n.
void sgemm(const std::vector<float>& a, const std::vector<float>& b, std::size_t k, Layout b_layout, const Plan& plan,
           std::vector<float>& d) {
  const std::vector<std::uint32_t> wa = words_of(a), wb = words_of(b);
  const std::size_t rows = a.size() / k, cols = b.size() / k;
  std::vector<std::uint32_t> wd(rows * cols);
  gemm(fused_chain(), plan, MatrixView<const std::uint32_t>{wa.data(), rows, k},
       MatrixView<const std::uint32_t>{wb.data(), k, cols, 0, b_layout}, MatrixView<const std::uint32_t>{},
       MatrixView<std::uint32_t>{wd.data(), rows, cols}, {.threads = 1});
  d.resize(wd.size());
  std::transform(wd.begin(), wd.end(), d.begin(), [](std::uint32_t word) { return std::bit_cast<float>(word); });
}

// _safe_softmax: a row that is masked as a whole weighs nothing. Scores become weights.
void keep_safe(float* scores, const std::uint32_t* weights, std::size_t cols) {
  const bool is_masked = std::all_of(scores, scores + cols, [](float score) { return score == -attention_inf; });
  for (std::size_t j = 0; j < cols; ++j) scores[j] = is_masked ? 0 : std::bit_cast<float>(weights[j]);
}

// Of `rows` queries from `first` on.
std::vector<float> weights_of(const AttentionRequest& r, const AttentionHead& head, std::size_t first,
                              std::size_t rows, const Plan& plan) {
  const double scale = attention_scale(r);
  const auto root = static_cast<float>(std::sqrt(std::abs(scale)));
  const std::vector<float> q = scaled_values(head.q + first * r.dim, rows * r.dim, r.type, scale < 0 ? -root : root);
  std::vector<float> attention;
  sgemm(q, scaled_values(head.k, r.keys * r.dim, r.type, root), r.dim, Layout::column_major, plan, attention);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = keys_seen(r, first + i); j < r.keys; ++j) attention[i * r.keys + j] -= attention_inf;
  std::vector<std::uint32_t> weights(attention.size());
  run_softmax({.type = "fp32"_fmt, .rows = rows, .cols = r.keys, .x = attention, .threads = 1}, weights);
  for (std::size_t i = 0; i < rows; ++i) keep_safe(attention.data() + i * r.keys, weights.data() + i * r.keys, r.keys);
  return attention;
}

void math_part(const AttentionRequest& r, const AttentionHead& head, std::size_t first, std::size_t rows,
               std::span<std::uint16_t> o) {
  const AttentionPlans plans = r.plans.value_or(AttentionPlans{});
  std::vector<float> sums;
  sgemm(weights_of(r, head, first, rows, plans.scores), scaled_values(head.v, r.keys * r.dim, r.type, 1), r.keys,
        Layout::row_major, plans.values, sums);
  encode_array(std::span<const float>(sums), r.type, named_cast("cuda", r.type), o, 0, 1);
}

// The weights of heads, each of its last queries, and V: the product whose results O has, rounded to the type.
class ProductOfValues {
 public:
  ProductOfValues(const AttentionRequest& r, std::span<const std::uint16_t> o, const Plan& scores) {
    constexpr std::size_t most_weights = std::size_t{1} << 24;  // 64 MiB: a part of the queries tells
    const std::size_t rows = std::clamp<std::size_t>(most_weights / r.keys, 1, r.queries), first = r.queries - rows;
    const std::size_t heads =
        std::clamp<std::size_t>(most_weights / (std::max(rows, r.dim) * r.keys), 1, r.batch * r.heads);
    for (std::size_t i = 0; i < heads; ++i) {
      const AttentionHead head(r, i);
      const std::vector<std::uint32_t> weights = words_of(weights_of(r, head, first, rows, scores)),
                                       values = words_of(scaled_values(head.v, r.keys * r.dim, r.type, 1));
      weights_.insert(weights_.end(), weights.begin(), weights.end());
      values_.insert(values_.end(), values.begin(), values.end());
    }
    request.a = {weights_.data(), sizeof(std::uint32_t), rows, r.keys, r.keys};
    request.b = {values_.data(), sizeof(std::uint32_t), r.keys, r.dim, r.dim};
    request.d = {o.data() + first * r.dim, sizeof(std::uint16_t), rows, r.dim, r.dim};
    request.a_format = request.b_format = "fp32"_fmt, request.d_format = r.type;
    request.model = &fused_chain(), request.options.threads = r.threads;
    request.batch = {heads, rows * r.keys, r.keys * r.dim, 0, r.queries * r.dim};
  }
  // Not where all results are NaN.
  bool tells() const {
    const CodeMatrix& d = request.d;
    for (std::size_t item = 0; item < request.batch.count; ++item)
      for (std::size_t i = 0; i < d.rows * d.cols; ++i)
        if (!is_nan(static_cast<const std::uint16_t*>(d.data)[item * request.batch.d + i], request.d_format)) return true;
    return false;
  }
  ProductOfValues(const ProductOfValues&) = delete;
  ProductOfValues& operator=(const ProductOfValues&) = delete;

  ValidateRequest request;

 private:
  std::vector<std::uint32_t> weights_, values_;
};

}  // namespace

// One batched SGEMM adds in one chain. A vector goes to GEMV kernels, and one head to a product that cuBLAS may split:
// in which order both add is cuBLAS's choice, which the request names.
std::string math_attention_kernel(const AttentionRequest& r) {
  if (r.plans) return "sgemm " + plan_text(r.plans->scores) + ", softmax, sgemm " + plan_text(r.plans->values);
  return r.queries == 1 || r.keys == 1 || r.batch * r.heads == 1 ? "" : "batched sgemm, softmax, batched sgemm";
}

// The order of the scores is one of the few that cuBLAS was seen to take for them (data/golden/math-attention.tsv), the
// likeliest first; each gives weights, and with them O is a product like others.
FoundPlans find_math_plans(const AttentionRequest& r, std::span<const std::uint16_t> o) {
  struct Order {
    std::string_view text;
    std::size_t differs_above;  // this many products: others are one chain
  };
  std::vector<Order> orders = {{"chain", 0}, {"split:32", 32}, {"slice:8,run=8", 8}, {"split:8", 8}, {"slice:16,run=1", 1}};
  if (r.keys == 1) orders.resize(1);  // a weight is 1, whatever its score
  else if (r.dim > 32 && std::min(r.queries, r.keys) <= 128) std::swap(orders[0], orders[1]);
  FoundPlans best;
  std::uint64_t most = 0;
  for (const Order& order : orders) {
    if (order.differs_above != 0 && r.dim <= order.differs_above) continue;
    const Plan scores = parse_plan(order.text);
    const ProductOfValues product(r, o, scores);
    if (!product.tells()) return {};
    const ValidateResult found = validate(product.request);
    std::vector<AttentionPlans> plans;
    for (const Candidate& candidate : found.candidates)
      if (math_plan_problem(candidate.plan).empty()) plans.push_back({scores, candidate.plan});
    if (plans.empty()) continue;
    if (found.exact) return {plans, true};
    if (best.plans.empty() || found.equal_count > most) best.plans.assign(1, plans.front()), most = found.equal_count;
  }
  return best;
}

void run_math_attention(const AttentionRequest& r, std::span<std::uint16_t> o) {
  for_attention_tiles(r, math_rows, [&](const AttentionHead& head, std::size_t first, std::size_t rows) {
    math_part(r, head, first, rows, o.subspan(head.o + first * r.dim, rows * r.dim));
  });
}

}  // namespace narrow::detail

// FlashAttention-2 backward as PyTorch builds it (no fast math, UNFUSE_FMA), deterministic:
// csrc/flash_attn/src/{flash_bwd_kernel.h,flash_bwd_preprocess_kernel.h,flash_bwd_launch_template.h} of commit
// e2743ab5, and mha_bwd of PyTorch's flash_api.cpp.
//
// A block of threads takes the keys of one tile and goes through the queries from the last tile to the first:
//   S = Q K^T                P = exp2(S * scale * log2 e - lse * log2 e)     weights again, from what the forward left
//   dP = dO V^T              dS = P * (dP - dO . O)
//   dV += P^T dO             dK += dS^T Q                                    one accumulator over all queries
//   buffer of dQ += dS K                                                     every tile is a chain of its own
// with P and dS rounded to the type in the products. The scale comes last: dK and the sum of the buffers are multiplied
// by it before they are rounded.
#include "narrow/special/attention_tile.hpp"

namespace narrow::detail {

namespace {

constexpr float log2_of_e = 0x1.715476p+0f;
constexpr std::size_t fewest_shared_heads = 256;  // from here on threads share the sum over a group of heads

struct FlashBackwardPlan {
  const AttentionRequest& r;
  std::size_t dim = 0;             // of the kernel
  std::size_t rows = 0, cols = 0;  // of a tile of scores
  std::size_t row_tiles = 0, col_tiles = 0;
  std::size_t buffers = 0;  // of dQ; tile t of the keys adds to number t % buffers
  float scale = 0, scale_log2 = 0;

  explicit FlashBackwardPlan(const AttentionRequest& request) : r(request) {
    // With the 227 KB of shared memory that a block has on Hopper.
    dim = flash_dim(r.dim);
    rows = dim <= 64 ? 128 : 64;
    cols = dim <= 128 ? 128 : 64;
    row_tiles = attention_ceil(r.queries, rows);
    col_tiles = attention_ceil(r.keys, cols);
    // Enough blocks for all multiprocessors; those without a tile of keys leave their buffer zero.
    buffers = std::min(attention_ceil(static_cast<std::size_t>(r.multiprocessors), heads()), col_tiles);
    scale = static_cast<float>(attention_scale(r));
    scale_log2 = static_cast<float>(static_cast<double>(scale) * 0x1.71547652b82fep+0);
  }
  std::size_t heads() const { return r.batch * r.heads; }
  std::size_t padded_rows() const { return row_tiles * rows; }
  // Tiles of queries before this one see no key of the tile.
  std::size_t first_row_tile(std::size_t col_tile) const { return r.causal ? col_tile * cols / rows : 0; }
};

// dO . O for a query. Threads load vectors of 8 elements in turn and add up what they have; a butterfly adds the
// threads. Products of 16-bit codes are exact but for underflow, which fma leaves to the sum.
float flash_dot(const FlashBackwardPlan& plan, const float* a, const float* b) {
  const std::size_t threads = plan.dim % 64 == 0 ? 8 : 4;
  float sums[8] = {};
  for (std::size_t t = 0; t < threads; ++t)
    for (std::size_t page = 8 * t; page < plan.r.dim; page += 8 * threads)
      for (std::size_t j = page; j < std::min(page + 8, plan.r.dim); ++j)
        sums[t] = j == 8 * t ? a[j] * b[j] : std::fma(a[j], b[j], sums[t]);
  for (std::size_t half = threads / 2; half > 0; half /= 2)
    for (std::size_t t = 0; t < half; ++t) sums[t] += sums[t + half];
  return sums[0];
}

// What the forward pass leaves for each query.
struct FlashStatistics {
  std::vector<float> lse, dots;

  FlashStatistics(const FlashBackwardPlan& plan, std::span<const std::uint16_t> d_o)
      : lse(plan.heads() * plan.r.queries), dots(lse.size()) {
    const AttentionRequest& r = plan.r;
    std::vector<std::uint16_t> o(r.q.size());
    run_flash_forward(r, o, lse);
    parallel_parts(dots.size(), 64, r.threads, [&](std::size_t begin, std::size_t end) {
      const std::size_t first = begin * r.dim, count = (end - begin) * r.dim;
      std::vector<float> a(count), b(count);
      decode_array(d_o.subspan(first, count), r.type, a, 1);
      decode_array(std::span<const std::uint16_t>(o).subspan(first, count), r.type, b, 1);
      for (std::size_t i = begin; i < end; ++i)
        dots[i] = flash_dot(plan, a.data() + (i - begin) * r.dim, b.data() + (i - begin) * r.dim);
    });
  }
};

std::vector<std::uint16_t> padded_rows(const std::uint16_t* first, std::size_t rows, std::size_t wanted,
                                       std::size_t dim) {
  std::vector<std::uint16_t> out(wanted * dim);
  std::copy_n(first, rows * dim, out.begin());
  return out;
}

// The queries of a head, filled up to whole tiles. Rows that are not there have zeros for q and dO and an infinite lse,
// so that their weights vanish; they take part, because a NaN or Inf of k or v reaches results through them too.
struct FlashQueries {
  std::vector<std::uint16_t> q, d_o;
  std::vector<float> lse, dots;

  FlashQueries(const FlashBackwardPlan& plan, const FlashStatistics& statistics, const AttentionHead& head,
               std::span<const std::uint16_t> all_d_o)
      : q(padded_rows(head.q, plan.r.queries, plan.padded_rows(), plan.r.dim)),
        d_o(padded_rows(all_d_o.data() + head.o, plan.r.queries, plan.padded_rows(), plan.r.dim)),
        lse(plan.padded_rows(), attention_inf),
        dots(plan.padded_rows()) {
    const std::size_t first = head.o / plan.r.dim;
    std::copy_n(statistics.lse.data() + first, plan.r.queries, lse.begin());
    std::copy_n(statistics.dots.data() + first, plan.r.queries, dots.begin());
  }
};

// A tile of keys and what it makes of the queries.
class FlashGradientTile {
 public:
  explicit FlashGradientTile(const FlashBackwardPlan& plan)
      : plan_(plan),
        model_(attention_model(plan.r.type, 16)),
        cast_(named_cast("cuda", plan.r.type)),
        p_(plan.rows * plan.cols),
        d_p_(p_.size()),
        values_(p_.size()),
        p_codes_(p_.size()),
        d_s_codes_(p_.size()),
        d_q_(plan.rows * plan.r.dim),
        d_k_(plan.cols * plan.r.dim),
        d_v_(d_k_.size()) {}

  // Adds to d_q, queries x dim.
  void run(const AttentionHead& head, const FlashQueries& queries, std::size_t col_tile, float* d_q) {
    const AttentionRequest& r = plan_.r;
    key_ = col_tile * plan_.cols;
    const std::size_t keys = std::min(plan_.cols, r.keys - key_);
    k_ = padded_rows(head.k + key_ * r.dim, keys, plan_.cols, r.dim);
    v_ = padded_rows(head.v + key_ * r.dim, keys, plan_.cols, r.dim);
    std::fill(d_k_.begin(), d_k_.end(), 0);
    std::fill(d_v_.begin(), d_v_.end(), 0);
    for (std::size_t tile = plan_.row_tiles; tile > plan_.first_row_tile(col_tile); --tile)
      add_queries(queries, (tile - 1) * plan_.rows, d_q);
  }
  // dK and dV of the keys that are there.
  void store(std::span<std::uint16_t> d_k, std::span<std::uint16_t> d_v) {
    store_scaled(d_k_, plan_.scale, d_k);
    store_scaled(d_v_, 1, d_v);
  }

 private:
  void add_queries(const FlashQueries& queries, std::size_t row, float* d_q) {
    const std::size_t dim = plan_.r.dim;
    const std::uint16_t *q = queries.q.data() + row * dim, *d_o = queries.d_o.data() + row * dim;
    multiply_by_transposed(q, k_, p_);
    multiply_by_transposed(d_o, v_, d_p_);
    for (std::size_t i = 0; i < plan_.rows; ++i) weigh(queries, row, i);
    encode(p_codes_);
    for (std::size_t i = 0; i < plan_.rows; ++i) differentiate(queries.dots[row + i], i);
    encode(d_s_codes_);
    accumulate_transposed(p_codes_, d_o, d_v_);
    gemm(model_, chain_, MatrixView<const std::uint16_t>{d_s_codes_.data(), plan_.rows, plan_.cols},
         MatrixView<const std::uint16_t>{k_.data(), plan_.cols, dim}, MatrixView<std::uint32_t>{},
         MatrixView<std::uint32_t>{d_q_.data(), plan_.rows, dim}, alone_);
    const std::size_t count = std::min(plan_.rows, plan_.r.queries - row) * dim;
    for (std::size_t j = 0; j < count; ++j)
      d_q[row * dim + j] = atomic_sum(d_q[row * dim + j], std::bit_cast<float>(d_q_[j]));
    accumulate_transposed(d_s_codes_, q, d_k_);
  }

  // Weights of row i, in place of its scores. Two roundings: __fmul_rn keeps the product from being fused.
  void weigh(const FlashQueries& queries, std::size_t row, std::size_t i) {
    const std::size_t query = row + i, keys = keys_seen(plan_.r, query);
    const std::size_t seen = keys > key_ ? std::min(keys - key_, plan_.cols) : 0;
    const float lse = queries.lse[query], scaled_lse = lse == -attention_inf ? 0 : lse * log2_of_e;
    float* values = values_.data() + i * plan_.cols;
    for (std::size_t j = 0; j < plan_.cols; ++j) {
      std::uint32_t& word = p_[i * plan_.cols + j];
      const float score = j < seen ? std::bit_cast<float>(word) : -attention_inf;
      values[j] = attention_ex2(score * plan_.scale_log2 - scaled_lse);
      word = std::bit_cast<std::uint32_t>(values[j]);
    }
  }
  void differentiate(float dot, std::size_t i) {
    for (std::size_t j = i * plan_.cols; j < (i + 1) * plan_.cols; ++j)
      values_[j] = std::bit_cast<float>(p_[j]) * (std::bit_cast<float>(d_p_[j]) - dot);
  }
  void encode(std::vector<std::uint16_t>& codes) const {
    encode_array(std::span<const float>(values_), plan_.r.type, cast_, std::span(codes), 0, 1);
  }

  // Rows of a against all keys of b.
  void multiply_by_transposed(const std::uint16_t* a, const std::vector<std::uint16_t>& b,
                              std::vector<std::uint32_t>& out) const {
    const std::size_t dim = plan_.r.dim;
    gemm(model_, chain_, MatrixView<const std::uint16_t>{a, plan_.rows, dim},
         MatrixView<const std::uint16_t>{b.data(), dim, plan_.cols, 0, Layout::column_major},
         MatrixView<std::uint32_t>{}, MatrixView<std::uint32_t>{out.data(), plan_.rows, plan_.cols}, alone_);
  }
  // sums += a^T b, a being rows x cols.
  void accumulate_transposed(const std::vector<std::uint16_t>& a, const std::uint16_t* b,
                             std::vector<std::uint32_t>& sums) const {
    const MatrixView<std::uint32_t> view{sums.data(), plan_.cols, plan_.r.dim};
    gemm(model_, chain_, MatrixView<const std::uint16_t>{a.data(), plan_.cols, plan_.rows, 0, Layout::column_major},
         MatrixView<const std::uint16_t>{b, plan_.rows, plan_.r.dim}, view, view, alone_);
  }

  // atomicAdd flushes subnormal operands and results to zero (PTX ISA, atom).
  static float atomic_sum(float a, float b) {
    const auto flushed = [](float x) { return std::fabs(x) < 0x1p-126f ? 0.0f : x; };
    return flushed(flushed(a) + flushed(b));
  }
  void store_scaled(const std::vector<std::uint32_t>& sums, float scale, std::span<std::uint16_t> out) const {
    std::vector<float> values(out.size());
    for (std::size_t j = 0; j < values.size(); ++j) values[j] = std::bit_cast<float>(sums[j]) * scale;
    encode_array(std::span<const float>(values), plan_.r.type, cast_, out, 0, 1);
  }

  const FlashBackwardPlan& plan_;
  const DotModel& model_;
  const Cast cast_;
  const Plan chain_ = {};
  const GemmOptions alone_ = {.threads = 1};
  std::vector<std::uint32_t> p_, d_p_;  // words of floats: what products gave
  std::vector<float> values_;
  std::vector<std::uint16_t> p_codes_, d_s_codes_, k_, v_;
  std::vector<std::uint32_t> d_q_, d_k_, d_v_;
  std::size_t key_ = 0;
};

// The buffers of all heads one after the other, each queries x dim.
void convert_d_q(const FlashBackwardPlan& plan, const std::vector<float>& buffers, std::span<std::uint16_t> d_q) {
  const AttentionRequest& r = plan.r;
  const std::size_t of_head = r.queries * r.dim;
  const Cast cast = named_cast("cuda", r.type);
  parallel_parts(d_q.size(), r.dim * 64, r.threads, [&](std::size_t begin, std::size_t end) {
    std::vector<float> values(end - begin);
    for (std::size_t i = begin; i < end; ++i) {
      float sum = 0;
      for (std::size_t b = 0; b < plan.buffers; ++b)
        sum += buffers[(i / of_head * plan.buffers + b) * of_head + i % of_head];
      values[i - begin] = sum * plan.scale;
    }
    encode_array(std::span<const float>(values), r.type, cast, d_q.subspan(begin, end - begin), 0, 1);
  });
}

// dK or dV of the heads of a group, each rounded already, are added as torch.sum adds rows: one thread, four
// accumulators in turn.
void add_groups(const AttentionRequest& r, std::span<const std::uint16_t> expanded, std::span<std::uint16_t> out) {
  constexpr std::size_t accumulators = 4;
  const std::size_t group = r.heads / r.kv_heads, of_head = r.keys * r.dim;
  const Cast cast = named_cast("cuda", r.type);
  parallel_parts(r.batch * r.kv_heads * r.keys, 64, r.threads, [&](std::size_t begin, std::size_t end) {
    std::vector<float> values(r.dim), sums(accumulators * r.dim);
    for (std::size_t row = begin; row < end; ++row) {
      std::fill(sums.begin(), sums.end(), 0.0f);
      for (std::size_t member = 0; member < group; ++member) {
        const std::size_t first = (row / r.keys * group + member) * of_head + row % r.keys * r.dim;
        decode_array(expanded.subspan(first, r.dim), r.type, std::span(values), 1);
        for (std::size_t j = 0; j < r.dim; ++j) sums[member % accumulators * r.dim + j] += values[j];
      }
      for (std::size_t i = 1; i < accumulators; ++i)
        for (std::size_t j = 0; j < r.dim; ++j) sums[j] += sums[i * r.dim + j];
      encode_array(std::span<const float>(sums).first(r.dim), r.type, cast, out.subspan(row * r.dim, r.dim), 0, 1);
    }
  });
}

}  // namespace

std::string flash_backward_kernel(const AttentionRequest& r) {
  const DefaultFloats guard;
  if (flash_attention_kernel(r).empty() || r.batch == 0 || r.heads == 0) return {};
  if (r.heads != r.kv_heads && r.heads / r.kv_heads >= fewest_shared_heads) return {};
  const FlashBackwardPlan plan(r);
  // Masked scores are -Inf before the scale, which only a positive one leaves so.
  if (!(plan.scale > 0) || !(plan.scale_log2 < attention_inf)) return {};
  return "flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<" + std::to_string(plan.dim) + ", " + std::to_string(plan.rows) +
         ", " + std::to_string(plan.cols) + ">, " + std::to_string(plan.buffers) +
         (plan.buffers == 1 ? " buffer" : " buffers");
}

void run_flash_backward(const AttentionRequest& r, std::span<const std::uint16_t> d_o, AttentionGradients& d) {
  const FlashBackwardPlan plan(r);
  const FlashStatistics statistics(plan, d_o);
  const bool shares_keys = r.heads != r.kv_heads;
  const std::size_t of_keys = r.keys * r.dim, of_queries = r.queries * r.dim;
  std::vector<float> buffers(plan.heads() * plan.buffers * of_queries);
  std::vector<std::uint16_t> expanded_k(shares_keys ? plan.heads() * of_keys : 0), expanded_v(expanded_k.size());
  const std::span<std::uint16_t> all_d_k = shares_keys ? expanded_k : d.k, all_d_v = shares_keys ? expanded_v : d.v;
  parallel_parts(plan.heads() * plan.buffers, 1, r.threads, [&](std::size_t unit, std::size_t) {
    const std::size_t number = unit / plan.buffers;
    const AttentionHead head(r, number);
    const FlashQueries queries(plan, statistics, head, d_o);
    FlashGradientTile tile(plan);
    for (std::size_t t = unit % plan.buffers; t < plan.col_tiles; t += plan.buffers) {
      tile.run(head, queries, t, buffers.data() + unit * of_queries);
      const std::size_t key = t * plan.cols, count = std::min(plan.cols, r.keys - key) * r.dim;
      const std::size_t first = number * of_keys + key * r.dim;
      tile.store(all_d_k.subspan(first, count), all_d_v.subspan(first, count));
    }
  });
  convert_d_q(plan, buffers, d.q);
  if (shares_keys) add_groups(r, expanded_k, d.k), add_groups(r, expanded_v, d.v);
}

}  // namespace narrow::detail

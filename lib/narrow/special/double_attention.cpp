// Attention by its definition, in double precision.
#include "narrow/special/attention_tile.hpp"

namespace narrow::detail {

namespace {

using Doubles = std::vector<double>;

Doubles double_values(const std::uint16_t* codes, std::size_t count, const Format& type) {
  Doubles values(count);
  decode_array(std::span(codes, count), type, std::span(values), 1);
  return values;
}

// sum of exp(s - max) v over sum of exp(s - max).
void double_row(const AttentionRequest& r, const double* q, const Doubles& k, const Doubles& v, Doubles& weights,
                std::size_t seen, double* o) {
  const double scale = attention_scale(r);
  double max = -HUGE_VAL, sum = 0;
  for (std::size_t j = 0; j < seen; ++j) {
    double dot = 0;
    for (std::size_t d = 0; d < r.dim; ++d) dot += q[d] * k[j * r.dim + d];
    weights[j] = dot * scale;
    max = std::max(max, weights[j]);
  }
  for (std::size_t j = 0; j < seen; ++j) sum += weights[j] = std::exp(weights[j] - max);
  std::fill(o, o + r.dim, 0.0);
  for (std::size_t j = 0; j < seen; ++j)
    for (std::size_t d = 0; d < r.dim; ++d) o[d] += weights[j] * v[j * r.dim + d];
  for (std::size_t d = 0; d < r.dim; ++d) o[d] /= sum;
}

}  // namespace

std::string double_attention_kernel(const AttentionRequest&) { return "double"; }

void run_double_attention(const AttentionRequest& r, std::span<std::uint16_t> o) {
  for_attention_tiles(r, 128, [&](const AttentionHead& head, std::size_t first, std::size_t rows) {
    const Doubles q = double_values(head.q + first * r.dim, rows * r.dim, r.type);
    const Doubles k = double_values(head.k, r.keys * r.dim, r.type), v = double_values(head.v, r.keys * r.dim, r.type);
    Doubles weights(r.keys), out(q.size());
    for (std::size_t i = 0; i < rows; ++i)
      double_row(r, q.data() + i * r.dim, k, v, weights, keys_seen(r, first + i), out.data() + i * r.dim);
    encode_array(std::span<const double>(out), r.type, Cast{}, o.subspan(head.o + first * r.dim, out.size()), 0, 1);
  });
}

}  // namespace narrow::detail

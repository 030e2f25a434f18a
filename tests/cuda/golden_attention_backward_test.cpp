// The gradients of attention as an H200 returned them: inputs from seeds, results held against the recorded hash.
#include <map>

#include "cuda/golden_folder.hpp"
#include "narrow/golden/product_inputs.hpp"
#include "narrow/special/attention.hpp"
#include "support/scale.hpp"

namespace {

using GradientCodes = std::vector<std::uint16_t>;

// One gradient of a request; those of q, k and v have the same inputs.
struct RecordedGradient {
  std::string variant, type, shape, arguments;
  std::uint64_t seed = 0, hash = 0;
  float scale = 1;
  char part = 'q';
  std::size_t outputs = 0;

  std::string request() const {
    return variant + " " + type + " " + shape + " " + arguments + " " + std::to_string(seed) + " " +
           std::to_string(scale);
  }
  // batch, heads, kv_heads, queries, keys, dim
  std::vector<std::size_t> sizes() const {
    std::vector<std::size_t> out;
    std::istringstream parts(shape);
    for (std::string size; std::getline(parts, size, 'x');) out.push_back(std::stoul(size));
    return out;
  }
  // About how many nanoseconds of one core a replay takes.
  double cost() const {
    const std::vector<std::size_t> s = sizes();
    return 12.0 * static_cast<double>(s[0] * s[1] * s[5]) * static_cast<double>(s[3] * s[4]);
  }
};

std::vector<RecordedGradient> recorded_gradients() {
  const std::string prefix = "attention_backward_";
  std::vector<RecordedGradient> out;
  for (const auto& row : test::golden_table("backward.tsv").rows) {
    REQUIRE(row.size() == 10);
    if (row[0].starts_with(prefix))
      out.push_back({row[1], row[2], row[3], row[6], std::stoull(row[4]), std::stoull(row[9], nullptr, 16),
                     std::stof(row[5]), row[0].at(prefix.size()), std::stoul(row[8])});
  }
  return out;
}

narrow::AttentionGradients gradients_of(const RecordedGradient& r) {
  const std::vector<std::size_t> s = r.sizes();
  narrow::AttentionRequest request{.type = narrow::find_format(r.type).value(),
                                   .batch = s.at(0),
                                   .heads = s.at(1),
                                   .kv_heads = s.at(2),
                                   .queries = s.at(3),
                                   .keys = s.at(4),
                                   .dim = s.at(5)};
  REQUIRE((r.arguments == "-" || r.arguments == "causal=0" || r.arguments == "causal=1"));
  request.causal = r.arguments == "causal=1";
  const auto codes = [&](std::size_t count, std::uint64_t seed, int matrix, float scale) {
    GradientCodes out(count);
    for (std::size_t i = 0; i < count; ++i)
      out[i] = static_cast<std::uint16_t>(narrow::encode(narrow::product_value(seed, matrix, i) * scale, request.type));
    return out;
  };
  const GradientCodes q = codes(s[0] * s[1] * s[3] * s[5], r.seed, 0, r.scale),
                      k = codes(s[0] * s[2] * s[4] * s[5], r.seed, 1, r.scale),
                      v = codes(k.size(), r.seed + 1000, 0, 1), d_o = codes(q.size(), r.seed + 3000, 0, 1);
  request.q = q, request.k = k, request.v = v;
  return narrow::run_attention_backward(r.variant, request, d_o);
}

void replay_gradients(double least, double most) {
  const std::vector<RecordedGradient> rows = recorded_gradients();
  std::map<std::string, narrow::AttentionGradients> known;
  std::size_t replayed = 0;
  for (const RecordedGradient& r : rows) {
    if (r.cost() < least || r.cost() >= most) continue;
    CAPTURE(r.request());
    CAPTURE(r.part);
    if (!known.contains(r.request())) known[r.request()] = gradients_of(r);
    const narrow::AttentionGradients& d = known[r.request()];
    const GradientCodes& codes = r.part == 'q' ? d.q : r.part == 'k' ? d.k : d.v;
    REQUIRE(codes.size() == r.outputs);
    CHECK(narrow::stage_hash(codes) == r.hash);
    ++replayed;
  }
  MESSAGE(replayed << " recordings of gradients, " << known.size() << " requests");
  CHECK(replayed > 0);
}

// What plain ./test.sh has time for.
constexpr double short_gradient = 3e7;

}  // namespace

TEST_CASE("golden: gradients of attention on an H200, short ones") {
  replay_gradients(0, test::scale() < 0.1 ? short_gradient / 10 : short_gradient);
}
TEST_CASE("golden: gradients of attention on an H200, long ones" * doctest::skip()) {
  replay_gradients(short_gradient, test::scale() < 0.1 ? short_gradient * 2 : 1e300);
}

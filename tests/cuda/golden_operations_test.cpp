// Whole operations and attention as an H200 returned them: inputs from seeds, results held against the recorded hash.
#include <map>
#include <set>

#include "cuda/golden_folder.hpp"
#include "narrow/base/random.hpp"
#include "narrow/golden/product_inputs.hpp"
#include "narrow/special/attention.hpp"
#include "narrow/special/operation.hpp"
#include "support/scale.hpp"

namespace {

struct RecordedOperation {
  std::string operation, variant, type, shape;
  std::uint64_t seed = 0, hash = 0;
  float scale = 1;
  std::map<std::string, double> arguments;
  std::size_t outputs = 0;

  bool has(const char* name) const { return arguments.contains(name) && arguments.at(name) != 0; }
  std::vector<std::size_t> sizes() const {
    std::vector<std::size_t> out;
    for (std::size_t at = 0; at <= shape.size();
         at = shape.find('x', at) == std::string::npos ? shape.size() + 1 : shape.find('x', at) + 1)
      out.push_back(std::stoul(shape.substr(at)));
    return out;
  }
  // About how many nanoseconds of one core a replay takes.
  double cost() const {
    const std::vector<std::size_t> s = sizes();
    double n = 1;
    for (const std::size_t size : s) n *= static_cast<double>(size);
    if (operation != "attention") return n * 60;
    return n / static_cast<double>(s[2]) * (variant == "math" ? 3 : 1.5);
  }
};

std::vector<RecordedOperation> recorded_operations() {
  std::vector<RecordedOperation> out;
  for (const auto& row : test::golden_table("operations.tsv").rows) {
    REQUIRE(row.size() == 10);
    RecordedOperation r{row[0],
                        row[1],
                        row[2],
                        row[3],
                        std::stoull(row[4]),
                        std::stoull(row[9], nullptr, 16),
                        std::stof(row[5]),
                        {},
                        std::stoul(row[8])};
    for (std::size_t at = 0; row[6] != "-" && at < row[6].size();) {
      const std::size_t end = std::min(row[6].find(',', at), row[6].size()), equal = row[6].find('=', at);
      r.arguments[row[6].substr(at, equal - at)] = std::stod(row[6].substr(equal + 1, end - equal - 1));
      at = end + 1;
    }
    out.push_back(r);
  }
  return out;
}

std::vector<float> values_of(std::size_t count, std::uint64_t seed, int matrix, float scale,
                             const narrow::Format& type) {
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i)
    out[i] = narrow::round_to(narrow::product_value(seed, matrix, i) * scale, type);
  return out;
}

std::vector<std::uint32_t> replay_of_rows(const RecordedOperation& r) {
  const std::vector<std::size_t> s = r.sizes();
  narrow::OperationRequest request{.type = narrow::find_format(r.type).value(), .rows = s.at(0), .cols = s.at(1)};
  std::vector<float> x, w, b;
  std::vector<std::int64_t> target;
  if (r.has("all"))
    for (std::uint32_t code = 0; code < 65536; ++code)
      x.push_back(static_cast<float>(narrow::decode(code, request.type)));
  else x = values_of(s[0] * s[1], r.seed, 0, r.scale, request.type);
  if (r.has("w"))
    for (std::size_t i = 0; i < s[1]; ++i)
      w.push_back(narrow::round_to(narrow::product_value(r.seed, 1, i) * 0.25f + 1.0f, request.type));
  if (r.has("b")) b = values_of(s[1], r.seed + 1000, 0, 1, request.type);
  if (r.has("eps")) request.eps = r.arguments.at("eps");
  if (r.operation == "cross_entropy")
    for (std::size_t i = 0; i < s[0]; ++i) {
      const std::size_t ignored = r.has("ignored") ? static_cast<std::size_t>(r.arguments.at("ignored")) : 0;
      const auto column = static_cast<std::int64_t>((narrow::random_bits((r.seed + 2000) * 2, i) >> 1) % s[1]);
      target.push_back(ignored != 0 && i % ignored == ignored - 1 ? -100 : column);
    }
  request.x = x, request.w = w, request.b = b, request.target = target;
  return narrow::run_operation(r.operation, r.variant, request);
}

// Empty where the variant does not model this shape.
std::vector<std::uint32_t> replay_of_attention(const RecordedOperation& r) {
  const std::vector<std::size_t> s = r.sizes();
  narrow::AttentionRequest request{.type = narrow::find_format(r.type).value(),
                                   .batch = s.at(0),
                                   .heads = s.at(1),
                                   .kv_heads = s.at(2),
                                   .queries = s.at(3),
                                   .keys = s.at(4),
                                   .dim = s.at(5)};
  request.causal = r.has("causal");
  const auto codes = [&](std::size_t count, std::uint64_t seed, int matrix, float scale) {
    std::vector<std::uint16_t> out;
    for (const float x : values_of(count, seed, matrix, scale, request.type))
      out.push_back(static_cast<std::uint16_t>(narrow::encode(x, request.type)));
    return out;
  };
  const std::vector<std::uint16_t> q = codes(s[0] * s[1] * s[3] * s[5], r.seed, 0, r.scale),
                                   k = codes(s[0] * s[2] * s[4] * s[5], r.seed, 1, r.scale),
                                   v = codes(k.size(), r.seed + 1000, 0, 1);
  request.q = q, request.k = k, request.v = v;
  for (const narrow::AttentionRow* row : narrow::attention_rows())
    if (row->variant == r.variant && row->kernel(request).empty()) return {};
  const std::vector<std::uint16_t> o = narrow::run_attention(r.variant, request);
  return {o.begin(), o.end()};
}

// The whole list of what is recorded and refused: cuDNN's kernel for one query, and math where cuBLAS cuts its products
// in ways that no row has (one query; one head of 3000).
bool is_refused(const RecordedOperation& r) {
  const std::vector<std::size_t> s = r.sizes();
  if (r.operation != "attention") return false;
  return (r.variant == "cudnn" && s[3] == 1) || (r.variant == "math" && (s[3] == 1 || s[0] * s[1] == 1));
}

void replay(double least, double most) {
  std::set<std::string> kinds;
  std::size_t replayed = 0, unmodelled = 0, values = 0;
  for (const RecordedOperation& r : recorded_operations()) {
    if (r.cost() < least || r.cost() >= most) continue;
    const std::vector<std::uint32_t> codes = r.operation == "attention" ? replay_of_attention(r) : replay_of_rows(r);
    CAPTURE(r.operation);
    CAPTURE(r.variant);
    CAPTURE(r.type);
    CAPTURE(r.shape);
    CAPTURE(r.seed);
    if (codes.empty() && r.outputs != 0) {
      CHECK(is_refused(r));
      ++unmodelled;
      continue;
    }
    REQUIRE(codes.size() == r.outputs);
    std::uint64_t hash = 0;
    for (std::size_t i = 0; i < codes.size(); ++i) hash += narrow::mix_bits(std::uint64_t{codes[i]} << 32 | i);
    CHECK(hash == r.hash);
    kinds.insert(r.operation + " " + r.variant), ++replayed, values += codes.size();
  }
  MESSAGE(replayed << " recordings of " << kinds.size() << " kinds, " << values
                   << " values; not modelled: " << unmodelled);
  CHECK(replayed > 20);
  if (least == 0) CHECK(kinds.size() == 14);  // ten operations and four kernels of attention
}

// What plain ./test.sh has time for: a few seconds in all.
constexpr double short_replay = 5e6, long_replay = 4e8;

}  // namespace

TEST_CASE("golden: operations of torch on an H200, short ones") {
  replay(0, test::scale() < 0.1 ? short_replay / 30 : short_replay);
}
TEST_CASE("golden: operations of torch on an H200, long ones" * doctest::skip()) {
  replay(short_replay, test::scale() < 0.1 ? short_replay * 2 : long_replay);
}

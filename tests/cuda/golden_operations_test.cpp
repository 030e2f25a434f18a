// Whole operations, their backward passes, optimisers and attention as an H200 returned them: inputs from seeds,
// results held against the recorded hash.
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
    if (operation.starts_with("adamw")) return n * 60 * arguments.at("steps");
    if (operation != "attention") return n * 60;
    return n / static_cast<double>(s[2]) * (variant == "math" ? 3 : 1.5);
  }
};

std::vector<RecordedOperation> recorded_operations(const char* file) {
  std::vector<RecordedOperation> out;
  for (const auto& row : test::golden_table(file).rows) {
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

std::vector<float> weights_of(std::size_t count, std::uint64_t seed, const narrow::Format& type) {
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i)
    out[i] = narrow::round_to(narrow::product_value(seed, 1, i) * 0.25f + 1.0f, type);
  return out;
}

// A number below `below` for each row; every `ignored`-th row has none.
std::vector<std::int64_t> targets_of(const RecordedOperation& r, std::size_t below) {
  const std::size_t ignored = r.has("ignored") ? static_cast<std::size_t>(r.arguments.at("ignored")) : 0;
  std::vector<std::int64_t> out;
  for (std::size_t i = 0; i < r.sizes()[0]; ++i) {
    const auto target = static_cast<std::int64_t>((narrow::random_bits((r.seed + 2000) * 2, i) >> 1) % below);
    out.push_back(ignored != 0 && i % ignored == ignored - 1 ? -100 : target);
  }
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
  if (r.has("w")) w = weights_of(s[1], r.seed, request.type);
  if (r.has("b")) b = values_of(s[1], r.seed + 1000, 0, 1, request.type);
  if (r.has("eps")) request.eps = r.arguments.at("eps");
  if (r.operation == "cross_entropy") target = targets_of(r, s[1]);
  request.x = x, request.w = w, request.b = b, request.target = target;
  return narrow::run_operation(r.operation, r.variant, request);
}

std::vector<std::uint32_t> codes_of(std::span<const float> values, const narrow::Format& type) {
  std::vector<std::uint32_t> out;
  for (const float x : values) out.push_back(static_cast<std::uint32_t>(narrow::encode(x, type)));
  return out;
}

// The tensors of an optimiser: as many as rows, of cols elements and fewer. `first`: the seed of the first one.
std::vector<std::vector<float>> tensors_of(const RecordedOperation& r, std::uint64_t first, float scale,
                                           const narrow::Format& type) {
  const std::size_t rows = r.sizes()[0], cols = r.sizes()[1];
  std::vector<std::vector<float>> out;
  for (std::size_t i = 0; i < rows; ++i)
    out.push_back(values_of(std::max<std::size_t>(1, cols * (i + 1) / rows), first + i, 0, scale, type));
  return out;
}

std::vector<std::uint32_t> replay_of_optimiser(const RecordedOperation& r) {
  const narrow::Format type = narrow::find_format(r.type).value();
  if (r.operation == "grad_norm") {
    const auto gradients = tensors_of(r, r.seed + 3000, 1, type);
    const std::vector<std::span<const float>> spans(gradients.begin(), gradients.end());
    const float norm = narrow::grad_norm(type, spans);
    return codes_of(std::span(&norm, 1), type);
  }
  narrow::AdamW adamw{.fused = r.operation == "adamw_fused"};
  if (r.has("lr")) adamw.lr = r.arguments.at("lr");
  if (r.arguments.contains("decay")) adamw.weight_decay = r.arguments.at("decay");
  auto parameters = tensors_of(r, r.seed, 1, type), first_moments = parameters, second_moments = parameters;
  for (auto* moments : {&first_moments, &second_moments})
    for (auto& tensor : *moments) std::fill(tensor.begin(), tensor.end(), 0.0f);
  for (std::uint64_t step = 0; step < static_cast<std::uint64_t>(r.arguments.at("steps")); ++step) {
    const auto gradients = tensors_of(r, r.seed + 3000 + 100 * step, 0.01f, type);
    for (std::size_t i = 0; i < parameters.size(); ++i)
      narrow::adamw_step(adamw, type, step + 1, parameters[i], gradients[i], first_moments[i], second_moments[i]);
  }
  std::vector<std::uint32_t> out;
  for (const auto& tensor : parameters)
    for (const std::uint32_t code : codes_of(tensor, type)) out.push_back(code);
  return out;
}

std::vector<std::uint32_t> replay_of_backward(const RecordedOperation& r) {
  if (r.operation == "grad_norm" || r.operation.starts_with("adamw")) return replay_of_optimiser(r);
  const std::size_t rows = r.sizes().at(0), cols = r.sizes().at(1);
  narrow::OperationRequest request{.type = narrow::find_format(r.type).value(), .rows = rows, .cols = cols};
  const narrow::Format& type = request.type;
  const std::string forward = r.operation.substr(0, r.operation.find("_backward"));
  std::vector<float> x = values_of(rows * cols, r.seed, 0, r.scale, type), w,
                     g = values_of(rows * cols, r.seed + 3000, 0, 1, type);
  std::vector<std::int64_t> target;
  request.x = x, request.g = g;
  if (forward == "softmax" || forward == "log_softmax") {
    request.g = {};
    const std::vector<std::uint32_t> y = narrow::run_operation(forward, "torch", request);
    for (std::size_t i = 0; i < y.size(); ++i) x[i] = static_cast<float>(narrow::decode(y[i], type));
    request.g = g;
  } else if (forward == "cross_entropy") {
    target = targets_of(r, cols);
    request.g = {}, request.target = target;
  } else if (forward == "embedding") {
    request.words = static_cast<std::size_t>(r.arguments.at("words"));
    target = targets_of(r, request.words);
    request.x = {}, request.g = x, request.target = target;
  } else if (r.operation == "sum_rows") request.g = {};
  else if (r.operation == "layer_norm_backward_b") request.x = {};
  if (r.has("w") && (r.operation == "layer_norm_backward" || r.operation == "rms_norm_backward"))
    w = weights_of(cols, r.seed, type), request.w = w;
  if (forward == "rms_norm") request.eps = 1e-5;
  return narrow::run_operation(r.operation, r.variant, request);
}

// Empty where the variant does not model this shape.
std::vector<std::uint32_t> replay_of_attention(const RecordedOperation& r,
                                               std::optional<narrow::AttentionPlans> plans = {}) {
  const std::vector<std::size_t> s = r.sizes();
  narrow::AttentionRequest request{.type = narrow::find_format(r.type).value(),
                                   .batch = s.at(0),
                                   .heads = s.at(1),
                                   .kv_heads = s.at(2),
                                   .queries = s.at(3),
                                   .keys = s.at(4),
                                   .dim = s.at(5)};
  request.causal = r.has("causal"), request.plans = plans;
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

// sweep_products.py --apis attention: one head of "math", with the orders of sums that validate named.
std::vector<std::uint32_t> replay_of_head(const std::vector<std::string>& row) {
  const std::string &m = row[2], &n = row[3], &dim = row[4], &kernel = row[8], comma = ", softmax, ";
  const std::string shape = "1x1x1x" + m + "x" + n + "x" + dim, type = row[0] == "f16" ? "fp16" : row[0];
  RecordedOperation r{"attention", "math", type, shape, std::stoull(row[5]), 0, 1, {}, 0};
  r.arguments["causal"] = row[1] == "attention+causal" ? 1 : 0;
  const std::size_t middle = kernel.find(comma), word = std::string("sgemm ").size();
  REQUIRE(middle != std::string::npos);
  return replay_of_attention(r, narrow::AttentionPlans{narrow::parse_plan(kernel.substr(word, middle - word)),
                                                       narrow::parse_plan(kernel.substr(middle + comma.size() + word))});
}

// The whole list of what is recorded and refused: cuDNN's kernel for one query, and math where cuBLAS cuts its products
// in ways that no row has (one query; one head of 3000).
bool is_refused(const RecordedOperation& r) {
  const std::vector<std::size_t> s = r.sizes();
  if (r.operation != "attention") return false;
  return (r.variant == "cudnn" && s[3] == 1) || (r.variant == "math" && (s[3] == 1 || s[0] * s[1] == 1));
}

std::uint64_t hash_of(const std::vector<std::uint32_t>& codes) {
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < codes.size(); ++i) hash += narrow::mix_bits(std::uint64_t{codes[i]} << 32 | i);
  return hash;
}

// How many kinds of operations there were.
template <class Replay>
std::size_t replay(const std::vector<RecordedOperation>& recorded, double least, double most, const Replay& replay_of) {
  std::set<std::string> kinds;
  std::size_t replayed = 0, unmodelled = 0, values = 0;
  for (const RecordedOperation& r : recorded) {
    if (r.cost() < least || r.cost() >= most) continue;
    const std::vector<std::uint32_t> codes = replay_of(r);
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
    CHECK(hash_of(codes) == r.hash);
    kinds.insert(r.operation + " " + r.variant), ++replayed, values += codes.size();
  }
  MESSAGE(replayed << " recordings of " << kinds.size() << " kinds, " << values
                   << " values; not modelled: " << unmodelled);
  CHECK(replayed > 20);
  return kinds.size();
}

std::size_t replay_forward(double least, double most) {
  return replay(recorded_operations("operations.tsv"), least, most, [](const RecordedOperation& r) {
    return r.operation == "attention" ? replay_of_attention(r) : replay_of_rows(r);
  });
}

// Attention's backward passes are in the file as well.
std::size_t replay_backward(double least, double most) {
  std::vector<RecordedOperation> recorded = recorded_operations("backward.tsv");
  std::erase_if(recorded, [](const RecordedOperation& r) { return r.operation.starts_with("attention"); });
  return replay(recorded, least, most, replay_of_backward);
}

// What plain ./test.sh has time for: a few seconds in all.
constexpr double short_replay = 5e6, long_replay = 4e8;

}  // namespace

TEST_CASE("golden: operations of torch on an H200, short ones") {
  // Ten operations and four kernels of attention.
  CHECK(replay_forward(0, test::scale() < 0.1 ? short_replay / 30 : short_replay) == 14);
}
TEST_CASE("golden: operations of torch on an H200, long ones" * doctest::skip()) {
  replay_forward(short_replay, test::scale() < 0.1 ? short_replay * 2 : long_replay);
}

TEST_CASE("golden: one head of math attention adds in the orders that validate named") {
  std::set<std::string> kernels;
  std::size_t named = 0, replayed = 0;
  const auto& rows = test::golden_table("math-attention.tsv").rows;
  for (const auto& row : rows) {
    REQUIRE(row.size() == 14);
    if (row[6] == "0") continue;
    ++named;
    if (row[7] != "math" || std::stod(row[2]) * std::stod(row[3]) > 1e6 * std::min(1.0, test::scale() * 4)) continue;
    CAPTURE(row[2] + "x" + row[3] + "x" + row[4] + " " + row[5]);
    CHECK(hash_of(replay_of_head(row)) == std::stoull(row[11], nullptr, 16));
    kernels.insert(row[8]), ++replayed;
  }
  MESSAGE(named << " of " << rows.size() << " named; " << replayed << " replayed, " << kernels.size() << " pairs of orders");
  CHECK(rows.size() == 240);
  CHECK(named == 238);  // 211 by their orders; one key is its value, whatever the kernel
  CHECK(replayed > 20);
  CHECK(kernels.size() > 10);
}

TEST_CASE("golden: backward passes and optimisers of torch on an H200, short ones") {
  // Thirteen operations, the norm of gradients and AdamW in two ways.
  CHECK(replay_backward(0, short_replay) == 16);
}
TEST_CASE("golden: backward passes and optimisers of torch on an H200, long ones" * doctest::skip()) {
  replay_backward(short_replay, test::scale() < 0.1 ? short_replay * 2 : long_replay);
}

// Attention: how keys are split, threads, edges, and bad requests; what an H200 returned is replayed by
// golden_operations_test.
#include "narrow/special/attention.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <set>
#include <string>

#include "narrow/base/error.hpp"
#include "narrow/golden/product_inputs.hpp"
#include "narrow/special/operation.hpp"
#include "support/float_environments.hpp"

namespace {

using narrow::operator""_fmt;
using narrow::AttentionGradients;
using narrow::AttentionRequest;
using narrow::Format;
using narrow::run_attention;
using Codes = std::vector<std::uint16_t>;

// batch x heads x kv_heads x queries x keys x dim
struct Shape {
  std::size_t batch, heads, kv_heads, queries, keys, dim;
};

// A request and what it looks at; the inputs of data/golden/record_operations.py.
struct Inputs {
  AttentionRequest request;
  Codes q, k, v, d_o;

  Inputs(const Format& type, const Shape& s, std::uint64_t seed, bool causal)
      : q(s.batch * s.heads * s.queries * s.dim), k(s.batch * s.kv_heads * s.keys * s.dim), v(k.size()), d_o(q.size()) {
    request = {type, s.batch, s.heads, s.kv_heads, s.queries, s.keys, s.dim};
    request.causal = causal;
    fill(q, seed, 0), fill(k, seed, 1), fill(v, seed + 1000, 0), fill(d_o, seed + 3000, 0);
  }
  void fill(Codes& codes, std::uint64_t seed, int matrix) const {
    for (std::size_t i = 0; i < codes.size(); ++i)
      codes[i] = static_cast<std::uint16_t>(narrow::product_code(seed, matrix, i, request.type));
  }
  Codes run(std::string_view variant) {
    request.q = q, request.k = k, request.v = v;
    return run_attention(variant, request);
  }
  AttentionGradients run_backward(std::string_view variant = "flash2") {
    request.q = q, request.k = k, request.v = v;
    return narrow::run_attention_backward(variant, request, d_o);
  }
};

const std::string_view variants[] = {"flash2", "cudnn", "efficient", "math", "double"};

std::string kernel_of(std::string_view variant, const Shape& shape, bool causal = false) {
  AttentionRequest request{"bf16"_fmt, shape.batch, shape.heads, shape.kv_heads, shape.queries, shape.keys, shape.dim};
  request.causal = causal;
  for (const narrow::AttentionRow* row : narrow::attention_rows())
    if (row->variant == variant) return row->kernel(request);
  return "no such row";
}

using Values = std::vector<double>;
Values values_of(const Codes& codes, const Format& type) {
  Values out;
  for (const std::uint16_t code : codes) out.push_back(narrow::decode(code, type));
  return out;
}

// The gradients by their definition, in double precision.
struct ExactGradients {
  Values q, k, v;

  explicit ExactGradients(const Inputs& inputs)
      : r_(inputs.request),
        q_(values_of(inputs.q, r_.type)),
        k_(values_of(inputs.k, r_.type)),
        v_(values_of(inputs.v, r_.type)),
        d_o_(values_of(inputs.d_o, r_.type)) {
    q.resize(q_.size()), k.resize(k_.size()), v.resize(v_.size());
    for (std::size_t row = 0; row < r_.batch * r_.heads * r_.queries; ++row) add_query(row);
  }

 private:
  double dot(const Values& a, std::size_t i, const Values& b, std::size_t j) const {
    double sum = 0;
    for (std::size_t n = 0; n < r_.dim; ++n) sum += a[i * r_.dim + n] * b[j * r_.dim + n];
    return sum;
  }
  void add(Values& to, std::size_t i, double factor, const Values& from, std::size_t j) const {
    for (std::size_t n = 0; n < r_.dim; ++n) to[i * r_.dim + n] += factor * from[j * r_.dim + n];
  }
  void add_query(std::size_t row) {
    const std::size_t query = row % r_.queries, head = row / r_.queries, group = r_.heads / r_.kv_heads;
    const std::size_t first = (head / r_.heads * r_.kv_heads + head % r_.heads / group) * r_.keys;
    const std::size_t keys = r_.causal ? query + 1 : r_.keys;
    const double scale = 1 / std::sqrt(static_cast<double>(r_.dim));
    Values p(keys), d_p(keys);
    double sum = 0, mean = 0;
    for (std::size_t j = 0; j < keys; ++j) sum += p[j] = std::exp(scale * dot(q_, row, k_, first + j));
    for (std::size_t j = 0; j < keys; ++j) p[j] /= sum, d_p[j] = dot(d_o_, row, v_, first + j), mean += p[j] * d_p[j];
    for (std::size_t j = 0; j < keys; ++j) {
      const double d_s = scale * p[j] * (d_p[j] - mean);
      add(q, row, d_s, k_, first + j), add(k, first + j, d_s, q_, row), add(v, first + j, p[j], d_o_, row);
    }
  }

  const AttentionRequest& r_;
  Values q_, k_, v_, d_o_;
};

// The largest difference over the largest exact value.
double distance(const Codes& codes, const Values& exact, const Format& type) {
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    worst = std::max(worst, std::fabs(narrow::decode(codes[i], type) - exact[i]));
    largest = std::max(largest, std::fabs(exact[i]));
  }
  return worst / largest;
}

bool same(const AttentionGradients& a, const AttentionGradients& b) { return a.q == b.q && a.k == b.k && a.v == b.v; }

}  // namespace

TEST_CASE("attention: all kernels are near the definition") {
  for (const bool causal : {false, true})
    for (const Format& type : {"fp16"_fmt, "bf16"_fmt}) {
      Inputs inputs(type, {1, 2, 2, 70, 70, 24}, 5, causal);
      const Codes exact = inputs.run("double");
      // Weights are rounded to the type, and so are results; values are below 4.
      const double bound = 4 * std::ldexp(1.0, -type.mantissa_bits);
      for (const std::string_view variant : variants) {
        const Codes codes = inputs.run(variant);
        double worst = 0;
        for (std::size_t i = 0; i < codes.size(); ++i)
          worst = std::max(worst, std::fabs(narrow::decode(codes[i], type) - narrow::decode(exact[i], type)));
        CHECK(worst < bound);
      }
    }
}

TEST_CASE("attention: one key is its value") {
  for (const std::string_view variant : {"flash2", "efficient", "double"}) {
    Inputs inputs("fp16"_fmt, {2, 3, 3, 5, 1, 16}, 6, false);
    const Codes o = inputs.run(variant);
    for (std::size_t i = 0; i < o.size(); ++i) CHECK(o[i] == inputs.v[i / (5 * 16) * 16 + i % 16]);
  }
}

TEST_CASE("attention: keys are split where a GPU would be idle") {
  const auto splits = [](const Shape& shape) {
    const std::string name = kernel_of("flash2", shape);
    const std::size_t comma = name.rfind(", ");
    return name.find("split") == std::string::npos ? 1 : std::stoi(name.substr(comma + 2));
  };
  CHECK(splits({1, 8, 8, 512, 512, 64}) == 2);
  CHECK(splits({1, 12, 12, 1024, 1024, 64}) == 4);
  CHECK(splits({1, 16, 16, 1024, 1024, 64}) == 1);
  CHECK(splits({1, 32, 32, 1, 2048, 128}) == 8);
  CHECK(splits({1, 32, 32, 1, 8192, 128}) == 7);
  CHECK(splits({8, 32, 32, 1, 2048, 128}) == 1);
  CHECK(splits({1, 1, 1, 1, 256, 64}) == 1);
  CHECK(kernel_of("flash2", {1, 2, 2, 150, 64, 70}) == "flash_fwd_kernel<96, 128, 64>");
  CHECK(kernel_of("efficient", {1, 2, 2, 150, 64, 72}) == "fmha_cutlassF_bf16_aligned_64x128_rf_sm80");
}

TEST_CASE("attention: kernels say what they do not take") {
  CHECK(kernel_of("flash2", {1, 2, 2, 8, 8, 257}).empty());
  CHECK(kernel_of("flash2", {1, 2, 2, 8, 9, 64}, true).empty());
  CHECK(kernel_of("cudnn", {1, 2, 2, 8, 8, 60}).empty());
  CHECK(kernel_of("cudnn", {1, 2, 2, 1, 8, 64}).empty());
  CHECK(kernel_of("efficient", {1, 4, 2, 8, 8, 64}).empty());
  CHECK(kernel_of("math", {1, 1, 1, 8, 8, 64}).empty());
  CHECK(kernel_of("math", {1, 2, 2, 1, 8, 64}).empty());
  Inputs inputs("fp16"_fmt, {1, 2, 2, 8, 9, 64}, 1, true);
  CHECK_THROWS_AS(inputs.run("flash2"), narrow::Error);
}

namespace {

// Terms added as `plan` says, for the orders below.
float sum_by(const std::string& plan, const std::vector<float>& a, const std::vector<float>& b) {
  const auto chain = [&](const std::vector<std::size_t>& places) {
    float sum = 0;
    for (const std::size_t i : places) sum = std::fma(a[i], b[i], sum);
    return sum;
  };
  const std::size_t parts = plan == "slice:4,run=8" ? 4 : plan == "split:32" ? (a.size() + 31) / 32 : 1;
  std::vector<std::vector<std::size_t>> places(parts);
  for (std::size_t i = 0; i < a.size(); ++i)
    places[plan == "slice:4,run=8" ? i / 8 % 4 : plan == "split:32" ? i / 32 : 0].push_back(i);
  float sum = chain(places[0]);
  for (std::size_t part = 1; part < parts; ++part) sum += chain(places[part]);
  return sum;
}

// One head of "math", both sums in the orders that are named.
Codes by_orders(const Inputs& in, const std::string& scores, const std::string& values) {
  const AttentionRequest& r = in.request;
  const auto decoded = [&](const Codes& codes, float factor) {
    std::vector<float> out;
    for (const std::uint16_t code : codes) out.push_back(static_cast<float>(narrow::decode(code, r.type)) * factor);
    return out;
  };
  const auto root = static_cast<float>(std::sqrt(1 / std::sqrt(static_cast<double>(r.dim))));
  const std::vector<float> q = decoded(in.q, root), k = decoded(in.k, root), v = decoded(in.v, 1);
  const auto at = [&](const std::vector<float>& x, std::size_t row) {
    return std::vector<float>(x.begin() + static_cast<std::ptrdiff_t>(row * r.dim),
                              x.begin() + static_cast<std::ptrdiff_t>((row + 1) * r.dim));
  };
  Codes o;
  for (std::size_t i = 0; i < r.queries; ++i) {
    std::vector<float> row, column(r.keys);
    for (std::size_t j = 0; j < r.keys; ++j)
      row.push_back(r.causal && j > i ? -INFINITY : sum_by(scores, at(q, i), at(k, j)));
    std::size_t j = 0;
    for (const std::uint32_t word :
         narrow::run_operation("softmax", "torch", {.type = "fp32"_fmt, .rows = 1, .cols = r.keys, .x = row}))
      row[j++] = static_cast<float>(narrow::decode(word, "fp32"_fmt));
    for (std::size_t c = 0; c < r.dim; ++c) {
      for (j = 0; j < r.keys; ++j) column[j] = v[j * r.dim + c];
      o.push_back(static_cast<std::uint16_t>(narrow::encode(sum_by(values, row, column), r.type)));
    }
  }
  return o;
}

narrow::AttentionPlans plans_of(const std::string& scores, const std::string& values) {
  return {narrow::parse_plan(scores), narrow::parse_plan(values)};
}

}  // namespace

TEST_CASE("attention: one head adds in the orders that are named, and they are found") {
  const char* orders[] = {"chain", "split:32", "slice:4,run=8"};
  std::set<Codes> results;
  for (const bool causal : {false, true})
    for (const std::string scores : {"chain", "split:32"})
      for (const std::string values : orders) {
        CAPTURE(scores);
        CAPTURE(values);
        CAPTURE(causal);
        Inputs in("fp16"_fmt, {1, 1, 1, 100, 100, 64}, 12, causal);
        in.request.plans = plans_of(scores, values);
        const Codes o = in.run("math");
        CHECK(o == by_orders(in, scores, values));
        results.insert(o);
        in.request.plans = {};
        const narrow::FoundPlans found = narrow::find_attention_plans(in.request, o);
        REQUIRE(found.exact);
        in.request.plans = found.plans.front();
        CHECK(in.run("math") == o);
        Codes other = o;  // one bit is wrong: the nearest is told, and chains are no nearer
        other[7] ^= 1;
        const narrow::FoundPlans near = narrow::find_attention_plans(in.request, other);
        CHECK(!near.exact);
        REQUIRE(near.plans.size() == 1);
        const auto equal = [&](const narrow::AttentionPlans& plans) {
          in.request.plans = plans;
          const Codes mine = in.run("math");
          return std::inner_product(mine.begin(), mine.end(), other.begin(), 0, std::plus<>(), std::equal_to<>());
        };
        CHECK(equal(near.plans.front()) >= equal({}));
      }
  CHECK(results.size() > 9);  // of 12: most orders differ in bits
  // One query, one key: vectors, which no batched product takes either. Two heads need no search.
  for (const Shape& shape : {Shape{1, 2, 1, 1, 300, 64}, Shape{1, 2, 2, 40, 1, 64}}) {
    Inputs in("bf16"_fmt, shape, 13, false);
    in.request.plans = plans_of("chain", "split:32");
    const Codes o = in.run("math");
    in.request.plans = {};
    CHECK(narrow::find_attention_plans(in.request, o).exact);
  }
  Inputs two("fp16"_fmt, {1, 2, 2, 20, 20, 64}, 14, false);
  CHECK(narrow::find_attention_plans(two.request, two.run("math")).plans.empty());
  Inputs nan("fp16"_fmt, {1, 1, 1, 20, 20, 64}, 14, false);
  nan.request.q = nan.q, nan.request.k = nan.k, nan.request.v = nan.v;
  CHECK(narrow::find_attention_plans(nan.request, Codes(nan.q.size(), 0x7FFF)).plans.empty());
  CHECK_THROWS_WITH_AS(narrow::find_attention_plans(nan.request, Codes(5)), doctest::Contains("o has 5 elements"), narrow::Error);
  // What the two sums do not have.
  for (const char* bad : {"streamk:9,tile=64x64x8", "split:8,output", "split:4,c=first", "chain,c=after", "chain,rne", "split:1,residue=4096"}) {
    nan.request.plans = plans_of("chain", bad);
    CHECK_THROWS_WITH_AS(nan.run("math"), doctest::Contains(("attention: the order " + std::string(bad)).c_str()), narrow::Error);
  }
}

TEST_CASE("attention: no bit depends on the number of threads") {
  for (const std::string_view variant : variants) {
    Inputs inputs("bf16"_fmt, {1, 2, 2, 300, 300, 40}, 8, true);
    inputs.request.threads = 1;
    const Codes alone = inputs.run(variant);
    inputs.request.threads = 3;
    CHECK(inputs.run(variant) == alone);
  }
}

TEST_CASE("attention: NaN and Inf pass through") {
  for (const std::string_view variant : variants)
    for (const Format& type : {"fp16"_fmt, "bf16"_fmt})
      for (const narrow::Code special : {type.nan_code(), type.infinity_code()}) {
        Inputs inputs(type, {1, 2, 2, 80, 80, 16}, 9, true);
        inputs.q[3 * 16] = static_cast<std::uint16_t>(special);
        const Codes o = inputs.run(variant);
        for (std::size_t j = 0; j < 16; ++j) CHECK(o[3 * 16 + j] == 0x7FFF);
        for (std::size_t i = 0; i < o.size(); ++i)
          if (i / 16 != 3) CHECK(std::isfinite(narrow::decode(o[i], type)));
      }
}

TEST_CASE("attention: a value that is Inf reaches the rows that see it") {
  for (const std::string_view variant : variants) {
    Inputs inputs("fp16"_fmt, {1, 2, 2, 4, 6, 8}, 9, false);
    inputs.v[2 * 8 + 1] = 0x7C00;
    const Codes o = inputs.run(variant);
    for (std::size_t i = 0; i < 4; ++i) {
      CHECK(o[i * 8 + 1] == 0x7C00);
      CHECK(std::isfinite(narrow::decode(o[i * 8], "fp16"_fmt)));
    }
  }
}

TEST_CASE("attention: sizes may be zero") {
  for (const std::string_view variant : variants) {
    CHECK(Inputs("fp16"_fmt, {0, 2, 2, 4, 4, 8}, 1, false).run(variant).empty());
    CHECK(Inputs("fp16"_fmt, {1, 0, 0, 4, 4, 8}, 1, false).run(variant).empty());
    CHECK(Inputs("fp16"_fmt, {1, 2, 2, 0, 4, 8}, 1, false).run(variant).empty());
    CHECK(Inputs("fp16"_fmt, {1, 2, 2, 3, 0, 8}, 1, false).run(variant) == Codes(2 * 3 * 8));
  }
}

TEST_CASE("attention: a scale may be given") {
  for (const std::string_view variant : variants) {
    Inputs inputs("bf16"_fmt, {1, 2, 2, 20, 30, 16}, 3, false);
    const Codes usual = inputs.run(variant);
    inputs.request.scale = 0.25;
    CHECK(inputs.run(variant) == usual);
    inputs.request.scale = 0.5;
    CHECK(inputs.run(variant) != usual);
  }
}

TEST_CASE("attention: requests that cannot be met are errors") {
  Inputs inputs("fp16"_fmt, {1, 4, 2, 8, 8, 16}, 1, false);
  CHECK_THROWS_WITH_AS(inputs.run("flash3"),
                       "attention: there is no variant 'flash3'; there are flash2, cudnn, efficient, math, double",
                       narrow::Error);
  inputs.v.pop_back();
  CHECK_THROWS_AS(inputs.run("flash2"), narrow::Error);
  for (AttentionRequest& request :
       std::vector<AttentionRequest>{{.type = "fp32"_fmt, .dim = 1},
                                     {.type = "fp16"_fmt, .heads = 3, .kv_heads = 2, .dim = 1},
                                     {.type = "fp16"_fmt, .heads = 3, .kv_heads = 0, .dim = 1},
                                     {.type = "fp16"_fmt, .dim = 0},
                                     {.type = "fp16"_fmt, .dim = 8, .multiprocessors = 0}})
    CHECK_THROWS_AS(run_attention("double", request), narrow::Error);
  constexpr std::size_t huge = std::size_t{1} << 40;
  CHECK_THROWS_AS(run_attention("flash2", {"fp16"_fmt, 1, 1, 1, huge, huge, huge}), narrow::Error);
}

TEST_CASE("attention: no kernel notices the caller's rounding mode or flush to zero") {
  test::check_environments("attention", [](test::Digest& digest) {
    for (const std::string_view variant : {"flash2", "cudnn", "efficient", "math"})
      digest.add_all(Inputs("bf16"_fmt, {1, 2, 2, 40, 300, 24}, 2, false).run(variant));
  });
}

TEST_CASE("attention: gradients are those that an H200 returned") {
  const AttentionGradients causal = Inputs("bf16"_fmt, {1, 2, 2, 200, 200, 64}, 81, true).run_backward();
  CHECK(narrow::stage_hash(causal.q) == 0x2EA8005D1AF0B755);
  CHECK(narrow::stage_hash(causal.k) == 0x3EE166A07FF79213);
  CHECK(narrow::stage_hash(causal.v) == 0x6DD68A836E7F4468);
  const AttentionGradients shared = Inputs("fp16"_fmt, {1, 4, 2, 150, 150, 64}, 83, false).run_backward();
  CHECK(narrow::stage_hash(shared.q) == 0xB2E6672730105485);
  CHECK(narrow::stage_hash(shared.k) == 0xFF4E1D304C5F95DF);
  CHECK(narrow::stage_hash(shared.v) == 0xF1AAABA339B54613);
}

TEST_CASE("attention: gradients are near the definition") {
  // In units of the largest value's last bit. The rounding of a result is half a unit; what weights, their derivatives
  // and O lose before they are summed is relative to smaller terms, and of both signs.
  constexpr double units = 1;
  for (const Format& type : {"fp16"_fmt, "bf16"_fmt})
    for (const Shape& shape : {Shape{2, 2, 2, 70, 70, 24}, Shape{1, 6, 1, 130, 130, 80}, Shape{1, 1, 1, 70, 70, 200},
                               Shape{2, 4, 2, 1, 300, 32}})
      for (const bool causal : {false, true}) {
        if (causal && shape.queries != shape.keys) continue;
        CAPTURE(shape.dim);
        CAPTURE(causal);
        Inputs inputs(type, shape, 5, causal);
        const AttentionGradients d = inputs.run_backward();
        const ExactGradients exact(inputs);
        const double bound = units * std::ldexp(1.0, -type.mantissa_bits);
        CHECK(distance(d.q, exact.q, type) < bound);
        CHECK(distance(d.k, exact.k, type) < bound);
        CHECK(distance(d.v, exact.v, type) < bound);
      }
}

TEST_CASE("attention: one key takes all of the gradient as its value") {
  Inputs inputs("fp16"_fmt, {2, 3, 3, 1, 1, 16}, 6, false);
  const AttentionGradients d = inputs.run_backward();
  CHECK(d.v == inputs.d_o);
  // dP and dO . O are the same sum in two orders, each of which FP32 knows to some 2^-20.
  for (const Codes& codes : {d.q, d.k})
    for (const std::uint16_t code : codes) CHECK(std::fabs(narrow::decode(code, "fp16"_fmt)) < 0x1p-16);
}

TEST_CASE("attention: tiles of keys take buffers of dQ in turn") {
  // Three tiles, and a forward pass that no split changes.
  Inputs inputs("fp16"_fmt, {1, 1, 1, 384, 384, 32}, 4, false);
  const auto with = [&](int multiprocessors) {
    inputs.request.multiprocessors = multiprocessors;
    return inputs.run_backward();
  };
  const AttentionGradients one = with(1), two = with(2);  // (a + b) + c and (a + c) + b
  CHECK(one.k == two.k);
  CHECK(one.v == two.v);
  CHECK(one.q != two.q);
  const ExactGradients exact(inputs);
  for (const AttentionGradients& d : {one, two}) CHECK(distance(d.q, exact.q, "fp16"_fmt) < 0x1p-8);
}

TEST_CASE("attention: buffers of dQ hold no subnormals") {
  Inputs inputs("bf16"_fmt, {1, 1, 1, 16, 16, 16}, 4, false);
  for (std::uint16_t& code : inputs.k) code &= 0x800F;  // below 2^-129
  const AttentionGradients d = inputs.run_backward();
  CHECK(d.q == Codes(d.q.size()));
  CHECK(ExactGradients(inputs).q[0] != 0);
}

TEST_CASE("attention: backward kernels say what they do not take") {
  AttentionRequest request{"bf16"_fmt, 1, 2, 2, 300, 300, 72};
  CHECK(narrow::attention_backward_kernel("flash2", request) ==
        "flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<96, 64, 128>, 3 buffers");
  for (const std::string_view variant : variants)
    if (variant != "flash2") CHECK(narrow::attention_backward_kernel(variant, request).empty());
  CHECK_THROWS_AS(narrow::attention_backward_kernel("flash3", request), narrow::Error);
  for (const double scale : {0.0, -1.0, 1e39, std::nan("")}) {
    request.scale = scale;
    CHECK(narrow::attention_backward_kernel("flash2", request).empty());
  }
  CHECK(narrow::attention_backward_kernel("flash2", {"bf16"_fmt, 1, 256, 1, 8, 8, 64}).empty());
  CHECK(narrow::attention_backward_kernel("flash2", {"bf16"_fmt, 1, 2, 2, 8, 8, 257}).empty());
  Inputs inputs("fp16"_fmt, {1, 2, 2, 8, 8, 64}, 1, false);
  CHECK_THROWS_AS(inputs.run_backward("cudnn"), narrow::Error);
  inputs.d_o.pop_back();
  CHECK_THROWS_AS(inputs.run_backward(), narrow::Error);
}

TEST_CASE("attention: no bit of a gradient depends on the number of threads") {
  Inputs inputs("bf16"_fmt, {1, 4, 2, 300, 300, 40}, 8, true);
  inputs.request.threads = 1;
  const AttentionGradients alone = inputs.run_backward();
  inputs.request.threads = 3;
  CHECK(same(inputs.run_backward(), alone));
}

TEST_CASE("attention: NaN and Inf of a query reach its gradient and those of the keys it sees") {
  constexpr std::size_t dim = 16, query = 3;
  for (const Format& type : {"fp16"_fmt, "bf16"_fmt})
    for (const narrow::Code special : {type.nan_code(), type.infinity_code()}) {
      Inputs inputs(type, {1, 1, 1, 80, 80, dim}, 9, true);
      inputs.q[query * dim] = static_cast<std::uint16_t>(special);
      const AttentionGradients d = inputs.run_backward();
      for (std::size_t j = 0; j < dim; ++j) {
        CHECK(d.q[query * dim + j] == 0x7FFF);
        CHECK(d.k[j] == 0x7FFF);
      }
      for (std::size_t i = 0; i < d.q.size(); ++i)
        if (i / dim != query) CHECK(std::isfinite(narrow::decode(d.q[i], type)));
    }
}

TEST_CASE("attention: gradients of empty sizes are empty or zero") {
  CHECK(Inputs("fp16"_fmt, {0, 2, 2, 4, 4, 8}, 1, false).run_backward().q.empty());
  CHECK(Inputs("fp16"_fmt, {1, 0, 0, 4, 4, 8}, 1, false).run_backward().k.empty());
  CHECK(Inputs("fp16"_fmt, {1, 2, 2, 0, 4, 8}, 1, false).run_backward().v == Codes(2 * 4 * 8));
  CHECK(Inputs("fp16"_fmt, {1, 2, 2, 3, 0, 8}, 1, false).run_backward().q == Codes(2 * 3 * 8));
}

TEST_CASE("attention: no gradient notices the caller's rounding mode or flush to zero") {
  test::check_environments("gradients", [](test::Digest& digest) {
    const AttentionGradients d = Inputs("bf16"_fmt, {1, 4, 2, 40, 300, 24}, 2, false).run_backward();
    digest.add_all(d.q), digest.add_all(d.k), digest.add_all(d.v);
  });
}

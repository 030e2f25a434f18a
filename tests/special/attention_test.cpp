// Attention: how keys are split, threads, edges, and bad requests; what an H200 returned is replayed by golden_operations_test.
#include "narrow/special/attention.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "narrow/base/error.hpp"
#include "narrow/golden/product_inputs.hpp"
#include "support/float_environments.hpp"

namespace {

using narrow::operator""_fmt;
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
  Codes q, k, v;

  Inputs(const Format& type, const Shape& s, std::uint64_t seed, bool causal)
      : q(s.batch * s.heads * s.queries * s.dim), k(s.batch * s.kv_heads * s.keys * s.dim), v(k.size()) {
    request = {type, s.batch, s.heads, s.kv_heads, s.queries, s.keys, s.dim};
    request.causal = causal;
    fill(q, seed, 0), fill(k, seed, 1), fill(v, seed + 1000, 0);
  }
  void fill(Codes& codes, std::uint64_t seed, int matrix) const {
    for (std::size_t i = 0; i < codes.size(); ++i)
      codes[i] = static_cast<std::uint16_t>(narrow::product_code(seed, matrix, i, request.type));
  }
  Codes run(std::string_view variant) {
    request.q = q, request.k = k, request.v = v;
    return run_attention(variant, request);
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

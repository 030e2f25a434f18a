// AdamW and the norm of gradients: next to their definitions, orders of sums, where is rounded, and numbers of an H200.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "narrow/base/error.hpp"
#include "narrow/golden/product_inputs.hpp"
#include "narrow/special/operation.hpp"
#include "narrow/special/reduce_sum.hpp"
#include "support/float_environments.hpp"
#include "support/inputs.hpp"

namespace {

using narrow::operator""_fmt;
using narrow::AdamW;
using narrow::Format;
using Floats = std::vector<float>;

const Format optimiser_types[] = {"fp32"_fmt, "fp16"_fmt, "bf16"_fmt};

Floats made_values(std::size_t count, std::uint64_t seed, float scale, const Format& type) {
  Floats out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = narrow::round_to(narrow::product_value(seed, 0, i) * scale, type);
  return out;
}

// Parameters and their moments.
struct State {
  Floats p, m, v;
  explicit State(Floats start) : p(std::move(start)), m(p.size()), v(p.size()) {}
  void step(const AdamW& adamw, const Format& type, std::uint64_t number, const Floats& g) {
    narrow::adamw_step(adamw, type, number, p, g, m, v);
  }
};

float norm_of_tensors(const Format& type, const std::vector<Floats>& tensors) {
  const std::vector<std::span<const float>> spans(tensors.begin(), tensors.end());
  return narrow::grad_norm(type, spans);
}

}  // namespace

TEST_CASE("optimiser: steps are next to the definition of AdamW") {
  for (const bool fused : {true, false})
    for (const double decay : {0.01, 0.0}) {
      const AdamW adamw{.lr = 1e-2, .beta1 = 0.8, .weight_decay = decay, .fused = fused};
      State state(made_values(50, 1, 1, "fp32"_fmt));
      std::vector<double> p(state.p.begin(), state.p.end()), m(50), v(50);
      for (std::uint64_t step = 1; step <= 20; ++step) {
        const Floats g = made_values(50, 100 + step, 0.1f, "fp32"_fmt);
        state.step(adamw, "fp32"_fmt, step, g);
        const auto t = static_cast<double>(step);
        for (std::size_t i = 0; i < 50; ++i) {
          const auto wide = static_cast<double>(g[i]);
          m[i] = 0.8 * m[i] + 0.2 * wide, v[i] = adamw.beta2 * v[i] + (1 - adamw.beta2) * wide * wide;
          p[i] -= adamw.lr * decay * p[i];
          p[i] -=
              adamw.lr / (1 - std::pow(0.8, t)) * m[i] / (std::sqrt(v[i] / (1 - std::pow(adamw.beta2, t))) + adamw.eps);
          CHECK(std::fabs(static_cast<double>(state.p[i]) - p[i]) < 1e-5);
        }
      }
    }
}

TEST_CASE("optimiser: corrections of late steps") {
  // From p = 0 and no moments: lr (1 - beta1) / (1 - beta1^t) * sqrt(1 - beta2^t) / sqrt(1 - beta2), whatever g is.
  for (const bool fused : {true, false})
    for (const std::uint64_t step : {1u, 7u, 100u, 999u, 10'000u, 1'000'000u}) {
      CAPTURE(step);
      State state({0});
      state.step({.lr = 1, .eps = 0, .fused = fused}, "fp32"_fmt, step, {0.5f});
      const auto t = static_cast<double>(step);
      const double expected = -0.1 / (1 - std::pow(0.9, t)) * std::sqrt(1 - std::pow(0.999, t)) / std::sqrt(1 - 0.999);
      CHECK(static_cast<double>(state.p[0]) == doctest::Approx(expected).epsilon(2e-5));
    }
  State plain({0});
  plain.step({.lr = 1, .beta1 = 0, .eps = 0, .fused = true}, "fp32"_fmt, 1, {0.5f});
  CHECK(plain.p[0] == doctest::Approx(-1));
}

TEST_CASE("optimiser: parameters as an H200 left them") {
  struct Recorded {
    bool fused;
    Format type;
    std::uint64_t seed, steps;
    double lr, weight_decay;
    std::uint64_t hash;
  };
  const Recorded recorded[] = {
      {true, "fp32"_fmt, 71, 10, 1e-3, 0.01, 0xAE7D5D54439EC032},
      {true, "fp32"_fmt, 72, 5, 3e-4, 0.1, 0xA0D8C1459E8EA951},
      {true, "bf16"_fmt, 71, 10, 1e-3, 0.01, 0x1CF441C54039860D},
      {true, "fp16"_fmt, 71, 3, 1e-3, 0.01, 0xFD13F33E544CB7DA},
      {false, "fp32"_fmt, 71, 10, 1e-3, 0.01, 0x1BE67FDF7E6BD9C3},
      {false, "fp32"_fmt, 72, 5, 3e-4, 0.1, 0x71BD137A523A5937},
      {false, "bf16"_fmt, 71, 10, 1e-3, 0.01, 0x059209B68F8A948D},
      {false, "fp16"_fmt, 71, 3, 1e-3, 0.01, 0x78E54AF8383E9963},
  };
  for (const Recorded& r : recorded) {
    CAPTURE(r.fused);
    CAPTURE(r.hash);
    const AdamW adamw{.lr = r.lr, .weight_decay = r.weight_decay, .fused = r.fused};
    std::uint64_t hash = 0, index = 0;
    for (std::uint64_t tensor = 0; tensor < 5; ++tensor) {
      const std::size_t count = 200 * (tensor + 1);
      State state(made_values(count, r.seed + tensor, 1, r.type));
      for (std::uint64_t step = 0; step < r.steps; ++step)
        state.step(adamw, r.type, step + 1, made_values(count, r.seed + 3000 + 100 * step + tensor, 0.01f, r.type));
      for (const float x : state.p) hash += narrow::mix_bits(narrow::encode(x, r.type) << 32 | index++);
    }
    CHECK(hash == r.hash);
  }
}

TEST_CASE("optimiser: the foreach kernels round after each operation") {
  // Below 1 a unit of BF16 is 2^-8; p loses 0.4 of it to the decay and as much to the step.
  const AdamW fused{.lr = 0.4 * 0x1p-8, .weight_decay = 1, .fused = true};
  AdamW separate = fused;
  separate.fused = false;
  State together({1}), apart({1});
  together.step(fused, "bf16"_fmt, 1, {1}), apart.step(separate, "bf16"_fmt, 1, {1});
  CHECK(together.p[0] == 1 - 0x1p-8f);
  CHECK(apart.p[0] == 1);
}

TEST_CASE("optimiser: no gradient and no decay leave a parameter as it is") {
  for (const bool fused : {true, false})
    for (const Format& type : optimiser_types) {
      State state({1.5f, -0.0f, 0.0f});
      state.step({.weight_decay = 0, .fused = fused}, type, 1, {0, 0, 0});
      if (!fused && type == "fp16"_fmt) {
        CHECK(std::isnan(state.p[0]));  // an eps of 1e-8 is 0 in FP16
        continue;
      }
      const Floats expected = {1.5f, -0.0f, 0.0f};
      for (std::size_t i = 0; i < 3; ++i)
        CHECK(std::bit_cast<std::uint32_t>(state.p[i]) == std::bit_cast<std::uint32_t>(expected[i]));
    }
}

TEST_CASE("optimiser: a norm adds by threads and turns") {
  // The square of 2^12 swallows a 1. Vectors of 4: the first thread loses three ones, the others add theirs first.
  Floats x(64, 1.0f);
  x[0] = 0x1p12f;
  CHECK(norm_of_tensors("fp32"_fmt, {x}) == 0x1p12f + 15 * 0x1p-11f);
  x.push_back(1);  // no vectors: a thread has one element
  CHECK(norm_of_tensors("fp32"_fmt, {x}) == 0x1p12f + 16 * 0x1p-11f);
  // A square is not rounded before it is added: 9/2 and 1 of the smallest subnormal are 11/2, to even 6; not 4 + 1.
  Floats tiny(4096, 0x1.8p-75f);
  std::fill(tiny.begin() + 2048, tiny.end(), 0x1.8p-74f);
  CHECK(norm_of_tensors("fp32"_fmt, {tiny}) == std::sqrt(2048 * 6 * 0x1p-149f));
  // 65536 elements at a time: the ones of the second chunk meet first.
  Floats chunks(65540, 0.0f);
  chunks[0] = 0x1p12f;
  std::fill(chunks.begin() + 65536, chunks.end(), 1.0f);
  CHECK(norm_of_tensors("fp32"_fmt, {chunks}) == 0x1p12f + 0x1p-11f);
}

TEST_CASE("optimiser: a norm of norms adds by fours from 128 on") {
  // Beside 2^26 a thread loses three fours, 16 stays, and two fours that meet first are 8: 24 move the norm by a unit,
  // 32 would move it by two.
  std::vector<Floats> tensors(128, Floats{0});
  tensors[0] = {0x1p13f}, tensors[1] = tensors[2] = tensors[3] = {2};
  tensors[64] = {4}, tensors[68] = tensors[76] = {2};
  CHECK(norm_of_tensors("fp32"_fmt, tensors) == 0x1p13f + 0x1p-10f);
  // 64 threads, of which eleven take a second vector: 1 and 9/2 of the smallest subnormal are 6, as above.
  Floats tiny(300, 0x1.8p-75f);
  std::fill(tiny.begin() + 256, tiny.end(), 0x1.8p-74f);
  CHECK(narrow::detail::norm_of(tiny) == std::sqrt((212 + 44 * 6) * 0x1p-149f));
}

TEST_CASE("optimiser: norms as an H200 returned them") {
  struct Recorded {
    std::size_t tensors, elements;
    std::uint32_t fp32, bf16;
  };
  for (const Recorded& r : {Recorded{1, 1000, 0x421195E0, 0x4212},
                            {5, 3000, 0x42DA7936, 0x42DA},
                            {1, 70000, 0x4398BA13, 0x4399},
                            {300, 300, 0x437592F6, 0x4376}})
    for (const Format& type : {"fp32"_fmt, "bf16"_fmt}) {
      CAPTURE(r.elements);
      std::vector<Floats> tensors;
      for (std::size_t i = 0; i < r.tensors; ++i)
        tensors.push_back(made_values(std::max<std::size_t>(1, r.elements * (i + 1) / r.tensors), 3061 + i, 1, type));
      const float norm = norm_of_tensors(type, tensors);
      CHECK(narrow::encode(norm, type) == (type == "fp32"_fmt ? r.fp32 : r.bf16));
    }
}

TEST_CASE("optimiser: edges of norms") {
  CHECK(norm_of_tensors("fp32"_fmt, {}) == 0);
  CHECK(norm_of_tensors("fp32"_fmt, {{}, {}}) == 0);
  CHECK(norm_of_tensors("fp32"_fmt, {{-3}, {4}}) == 5);
  CHECK(norm_of_tensors("fp16"_fmt, {Floats(4, 40000.0f)}) == test::infinity);  // beyond the range of FP16
  CHECK(std::isnan(norm_of_tensors("bf16"_fmt, {{1}, {test::nan_value}})));
  CHECK(norm_of_tensors("bf16"_fmt, {{1}, {-test::infinity}}) == test::infinity);
}

TEST_CASE("optimiser: nothing notices the caller's rounding mode or flush to zero") {
  const Floats start = made_values(200, 5, 1, "fp32"_fmt), g = made_values(200, 6, 0x1p-64f, "fp32"_fmt);
  test::check_environments("optimiser", [&](test::Digest& digest) {
    for (const bool fused : {true, false}) {
      State state(start);
      for (std::uint64_t step = 1; step < 4; ++step) state.step({.fused = fused}, "fp32"_fmt, step, g);
      for (const Floats* values : {&state.p, &state.m, &state.v})
        for (const float x : *values) digest.add(std::bit_cast<std::uint32_t>(x));
    }
    digest.add(std::bit_cast<std::uint32_t>(norm_of_tensors("fp32"_fmt, {start, g})));
  });
}

TEST_CASE("optimiser: bad requests") {
  Floats p(3), m(3), v(2);
  const Floats g(3);
  CHECK_THROWS_AS(narrow::adamw_step({}, "fp32"_fmt, 1, p, g, m, v), narrow::Error);
  v.push_back(0);
  CHECK_THROWS_AS(narrow::adamw_step({}, "fp32"_fmt, 0, p, g, m, v), narrow::Error);
  CHECK_THROWS_AS(narrow::adamw_step({}, "e4m3"_fmt, 1, p, g, m, v), narrow::Error);
  CHECK_THROWS_AS(narrow::grad_norm("fp64"_fmt, {}), narrow::Error);
}

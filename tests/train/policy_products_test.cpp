// Products under a policy: the bits of narrow::gemm for tensor-core models, of scale/ for scaled operands, and of a
// plain loop where inputs are rounded and sums are FP32.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "narrow/array/array.hpp"
#include "narrow/base/random.hpp"
#include "narrow/dot/gemm.hpp"
#include "narrow/scale/quantise.hpp"
#include "narrow/train/operations/linear.hpp"
#include "narrow/train/operations/scores.hpp"
#include "support/inputs.hpp"

namespace narrow::train {

namespace {

constexpr std::size_t rows = 37, inputs = 150, outputs = 21;

Tensor<float> values(std::vector<std::size_t> shape, std::uint64_t seed, int spread = 6) {
  Tensor<float> t;
  t.resize(std::move(shape));
  for (std::size_t i = 0; i < t.size(); ++i) {
    const std::uint64_t bits = random_bits(seed, i);
    t.data[i] = std::ldexp(static_cast<float>(bits >> 40) * 0x1p-23f - 1,
                           -static_cast<int>(bits % static_cast<unsigned>(spread)));
  }
  return t;
}

std::size_t count_different(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  std::size_t n = 0;
  for (std::size_t i = 0; i < a.size(); ++i) n += test::bits(a[i]) != test::bits(b[i]) ? 1 : 0;
  return n;
}

std::vector<float> transposed(const std::vector<float>& x, std::size_t r, std::size_t c) {
  std::vector<float> y(x.size());
  for (std::size_t i = 0; i < r; ++i)
    for (std::size_t j = 0; j < c; ++j) y[j * r + i] = x[i * c + j];
  return y;
}

// A linear layer without bias, run forward and backward once.
struct Run {
  Tensor<float> x = values({rows, inputs}, 1), dy = values({rows, outputs}, 2, 9), y, dx;
  std::vector<float> w, dw;

  explicit Run(const Policy& policy) {
    check(policy);
    Store<float> store(policy, 3);
    Linear<float> linear(store, "linear", inputs, outputs, {Start::normal(1), false});
    w = store.parameters()[0]->value.data;
    linear.forward(x, y);
    linear.backward(dy, &dx);
    dw = store.parameters()[0]->gradient.data;
  }
};

// A with K running fastest, [outer][k], in 16-bit or 8-bit codes.
template <class U>
std::vector<U> codes(const std::vector<float>& x, const Format& f) {
  std::vector<U> c(x.size());
  encode_array(std::span<const float>(x), f, {}, std::span<U>(c));
  return c;
}

template <class U>
std::vector<float> model_product(const DotModel& model, const Plan& plan, const std::vector<U>& a,
                                 const std::vector<U>& b, std::size_t m, std::size_t n, std::size_t k,
                                 const GemmOptions& options = {}) {
  std::vector<std::uint32_t> d(m * n);
  gemm(model, plan, MatrixView<const U>{a.data(), m, k}, MatrixView<const U>{b.data(), k, n, k, Layout::column_major},
       MatrixView<const std::uint32_t>{}, MatrixView<std::uint32_t>{d.data(), m, n}, options);
  std::vector<float> out(d.size());
  for (std::size_t i = 0; i < d.size(); ++i) out[i] = std::bit_cast<float>(d[i]);
  return out;
}

void set_formats(OperationPolicy& p, const Precision& forward, const Precision& backward) {
  p.weights = p.activations = forward, p.gradients = backward;
}

// What one scale for the whole tensor makes of it: codes and the factor that decodes them.
Quantised per_tensor(const std::vector<float>& x, std::size_t r, std::size_t c, const Format& f) {
  return quantise(x, r, c, {f, "fp32"_fmt, 0, 0, ScaleRule::te_current});
}

}  // namespace

TEST_CASE("train: rounded inputs with FP32 accumulation are a plain loop over rounded values") {
  Policy policy;
  const Cast toward_zero{.rounding = Rounding::toward_zero};
  set_formats(policy[Operation::linear], {"bf16"_fmt}, {"e5m2"_fmt, toward_zero});
  const Run run(policy);
  std::vector<float> y, dx, dw;
  const auto activation = [&](std::size_t i, std::size_t k) { return round_to(run.x.row(i)[k], "bf16"_fmt); };
  const auto weight = [&](std::size_t o, std::size_t k) { return round_to(run.w[o * inputs + k], "bf16"_fmt); };
  const auto gradient = [&](std::size_t i, std::size_t o) {
    return round_to(run.dy.row(i)[o], "e5m2"_fmt, toward_zero);
  };
  const auto loop = [](std::vector<float>& out, std::size_t m, std::size_t n, std::size_t k, const auto& a,
                       const auto& b) {
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        float sum = 0;
        for (std::size_t p = 0; p < k; ++p) {
          const float term = a(i, p) * b(j, p);
          sum += term;
        }
        out.push_back(sum);
      }
  };
  loop(y, rows, outputs, inputs, activation, weight);
  loop(dx, rows, inputs, outputs, gradient, [&](std::size_t k, std::size_t o) { return weight(o, k); });
  loop(
      dw, outputs, inputs, rows, [&](std::size_t o, std::size_t i) { return gradient(i, o); },
      [&](std::size_t k, std::size_t i) { return activation(i, k); });
  CHECK(count_different(run.y.data, y) == 0);
  CHECK(count_different(run.dx.data, dx) == 0);
  CHECK(count_different(run.dw, dw) == 0);
}

TEST_CASE("train: with a tensor-core model a linear layer is gemm bit for bit") {
  for (const char* plan_text : {"chain", "split:64"}) {
    CAPTURE(plan_text);
    const DotModel& model = *find_dot_model("hopper.wgmma.f32.bf16.bf16");
    const Plan plan = parse_plan(plan_text);
    Policy policy;
    OperationPolicy& p = policy[Operation::linear];
    set_formats(p, {"bf16"_fmt}, {"bf16"_fmt});
    p.forward = p.dgrad = p.wgrad = {Accumulation::model, {}, &model, plan};
    const Run run(policy);
    const auto half = [](const std::vector<float>& x) { return codes<std::uint16_t>(x, "bf16"_fmt); };
    CHECK(count_different(run.y.data,
                          model_product(model, plan, half(run.x.data), half(run.w), rows, outputs, inputs)) == 0);
    CHECK(count_different(run.dx.data,
                          model_product(model, plan, half(run.dy.data), half(transposed(run.w, outputs, inputs)), rows,
                                        inputs, outputs)) == 0);
    CHECK(count_different(run.dw, model_product(model, plan, half(transposed(run.dy.data, rows, outputs)),
                                                half(transposed(run.x.data, rows, inputs)), outputs, inputs, rows)) ==
          0);
    // Not what FP32 sums give: the model has a say.
    Policy plain;
    set_formats(plain[Operation::linear], {"bf16"_fmt}, {"bf16"_fmt});
    CHECK(count_different(run.y.data, Run(plain).y.data) > 0);
  }
}

TEST_CASE("train: TF32 operands travel as words") {
  const DotModel& model = *find_dot_model("hopper.wgmma.f32.tf32.tf32");
  Policy policy;
  OperationPolicy& p = policy[Operation::linear];
  set_formats(p, {"tf32"_fmt}, {"tf32"_fmt});
  p.forward = {Accumulation::model, {}, &model, {}};
  const Run run(policy);
  const auto words = [](std::vector<float> x) {
    round_array(x, std::span<float>(x), "tf32"_fmt);
    return codes<std::uint32_t>(x, "fp32"_fmt);
  };
  CHECK(count_different(run.y.data, model_product(model, {}, words(run.x.data), words(run.w), rows, outputs, inputs)) ==
        0);
}

TEST_CASE("train: int8 operands on an integer model are exact sums times the inverse scales") {
  const DotModel& model = *find_dot_model("hopper.wgmma.s32.s8.s8");
  Policy policy;
  OperationPolicy& p = policy[Operation::linear];
  set_formats(p, {"int8"_fmt, {}, Scaling::tensor_current}, {"int8"_fmt, {}, Scaling::tensor_current});
  p.forward = {Accumulation::model, {}, &model, {}};
  const Run run(policy);
  const Quantised x = per_tensor(run.x.data, rows, inputs, "int8"_fmt),
                  w = per_tensor(run.w, outputs, inputs, "int8"_fmt);
  std::vector<float> y;
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t o = 0; o < outputs; ++o) {
      int sum = 0;
      for (std::size_t k = 0; k < inputs; ++k)
        sum += static_cast<std::int8_t>(x.codes[i * inputs + k]) * static_cast<std::int8_t>(w.codes[o * inputs + k]);
      y.push_back(static_cast<float>(sum) * (x.scales[0] * w.scales[0]));
    }
  CHECK(count_different(run.y.data, y) == 0);
}

TEST_CASE("train: with a tensor-core model the scores of a head are gemm bit for bit") {
  const DotModel& model = *find_dot_model("hopper.wgmma.f32.f16.f16");
  Policy policy;
  OperationPolicy& p = policy[Operation::scores];
  p.activations.format = p.gradients.format = "fp16"_fmt;
  p.forward = p.dgrad = p.wgrad = {Accumulation::model, {}, &model, {}};
  check(policy);
  const Heads heads{2, 9, 3, 20};
  Store<float> store(policy, 1);
  Scores<float> scores(store, "scores", Mask::none);
  const Tensor<float> q = values({18, 60}, 1), k = values({18, 60}, 2), ds = values({6, 9, 9}, 3);
  Tensor<float> s, dq, dk;
  scores.forward(heads, q, k, s);
  scores.backward(ds, dq, dk);
  // Head 1 of sequence 1: rows 9 to 17, columns 20 to 39; its scores are the fifth square of six.
  const auto part = [](const Tensor<float>& x) {
    std::vector<float> out;
    for (std::size_t i = 9; i < 18; ++i) out.insert(out.end(), x.row(i) + 20, x.row(i) + 40);
    return out;
  };
  const auto square = [](const Tensor<float>& x) {
    return std::vector<float>(x.data.data() + 4 * 81, x.data.data() + 5 * 81);
  };
  const auto half = [](const std::vector<float>& x) { return codes<std::uint16_t>(x, "fp16"_fmt); };
  CHECK(count_different(square(s), model_product(model, {}, half(part(q)), half(part(k)), 9, 9, 20)) == 0);
  CHECK(count_different(part(dq),
                        model_product(model, {}, half(square(ds)), half(transposed(part(k), 9, 20)), 9, 20, 9)) == 0);
  CHECK(count_different(part(dk), model_product(model, {}, half(transposed(square(ds), 9, 9)),
                                                half(transposed(part(q), 9, 20)), 9, 20, 9)) == 0);
}

TEST_CASE("train: FP8 operands with one scale a tensor are gemm with these scales") {
  const DotModel& forward = *find_dot_model("hopper.wgmma.f32.e4m3.e4m3");
  const DotModel& backward = *find_dot_model("hopper.wgmma.f32.e5m2.e4m3");
  const Plan chain = {}, promote = parse_plan("promote:128");
  Policy policy;
  OperationPolicy& p = policy[Operation::linear];
  set_formats(p, {"e4m3"_fmt, {}, Scaling::tensor_current}, {"e5m2"_fmt, {}, Scaling::tensor_current});
  p.forward = {Accumulation::model, {}, &forward, chain};
  p.dgrad = p.wgrad = {Accumulation::model, {}, &backward, promote};
  const Run run(policy);
  const Quantised x = per_tensor(run.x.data, rows, inputs, "e4m3"_fmt),
                  w = per_tensor(run.w, outputs, inputs, "e4m3"_fmt),
                  g = per_tensor(run.dy.data, rows, outputs, "e5m2"_fmt);
  GemmOptions options;
  options.output = "fp32"_fmt;
  options.scale_a = {x.scales, 0, 0}, options.scale_b = {w.scales, 0, 0};
  CHECK(count_different(run.y.data, model_product(forward, chain, x.codes, w.codes, rows, outputs, inputs, options)) ==
        0);

  const auto turned = [](const Quantised& q) {
    std::vector<std::uint8_t> out(q.codes.size());
    for (std::size_t i = 0; i < q.rows; ++i)
      for (std::size_t j = 0; j < q.cols; ++j) out[j * q.rows + i] = q.codes[i * q.cols + j];
    return out;
  };
  options.scale_a = {g.scales, 0, 0}, options.scale_b = {x.scales, 0, 0};
  CHECK(count_different(run.dw,
                        model_product(backward, promote, turned(g), turned(x), outputs, inputs, rows, options)) == 0);
}

TEST_CASE("train: FP8 operands without a model are sums of their elements times the inverse scales") {
  for (const Format& f : {"e4m3"_fmt, "int8"_fmt}) {
    Policy policy;
    set_formats(policy[Operation::linear], {f, {}, Scaling::tensor_current}, {});
    const Run run(policy);
    const Quantised x = per_tensor(run.x.data, rows, inputs, f), w = per_tensor(run.w, outputs, inputs, f);
    std::vector<float> y;
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t o = 0; o < outputs; ++o) {
        float sum = 0;
        for (std::size_t k = 0; k < inputs; ++k)
          sum += static_cast<float>(decode(x.codes[i * inputs + k], f) * decode(w.codes[o * inputs + k], f));
        y.push_back(sum * (x.scales[0] * w.scales[0]));
      }
    CHECK(count_different(run.y.data, y) == 0);
  }
}

// Scales of 2^-74 and 2^-69 have a product of 2^-143, of which FP32 keeps 7 bits; the result is normal again.
TEST_CASE("train: two tiny scales come one after the other") {
  constexpr Format f = "e4m3"_fmt;
  Policy policy;
  set_formats(policy[Operation::linear], {f, {}, Scaling::tensor_current}, {});
  Store<float> store(policy, 3);
  Linear<float> linear(store, "linear", 2, 1, {Start::constant(0x1p-60f), false});
  Tensor<float> x, y;
  x.resize({1, 2});
  x.data = {0x1p-65f, 0x1p-65f};
  linear.forward(x, y);
  const float first = per_tensor(x.data, 1, 2, f).scales[0];
  const float second = per_tensor(store.parameters()[0]->value.data, 1, 2, f).scales[0];
  CHECK(std::fpclassify(first * second) == FP_SUBNORMAL);
  const float sum = 2.0f * 448 * 448;
  CHECK(test::bits(y.data[0]) == test::bits(sum * first * second));
  CHECK(test::bits(y.data[0]) != test::bits(sum * (first * second)));
}

TEST_CASE("train: blocks run along the sum of each product") {
  const DotModel& model = *find_dot_model("hopper.wgmma.f32.e4m3.e4m3");
  const Plan promote = parse_plan("promote:128");
  Policy policy;
  OperationPolicy& p = policy[Operation::linear];
  p.activations = p.gradients = {"e4m3"_fmt, {}, Scaling::block_1x128};
  p.weights = {"e4m3"_fmt, {}, Scaling::block_128x128};
  p.forward = p.dgrad = p.wgrad = {Accumulation::model, {}, &model, promote};
  const Run run(policy);
  const BlockFormat lines{"e4m3"_fmt, "fp32"_fmt, 1, 128, ScaleRule::te_block},
      tiles{"e4m3"_fmt, "fp32"_fmt, 128, 128, ScaleRule::te_block};
  GemmOptions options;
  options.output = "fp32"_fmt;
  {
    const Quantised x = quantise(run.x.data, rows, inputs, lines), w = quantise(run.w, outputs, inputs, tiles);
    options.scale_a = {x.scales, 1, 128}, options.scale_b = {w.scales, 128, 128};
    CHECK(count_different(run.y.data,
                          model_product(model, promote, x.codes, w.codes, rows, outputs, inputs, options)) == 0);
  }
  const Quantised g = quantise(transposed(run.dy.data, rows, outputs), outputs, rows, lines);
  const Quantised x = quantise(transposed(run.x.data, rows, inputs), inputs, rows, lines);
  options.scale_a = {g.scales, 1, 128}, options.scale_b = {x.scales, 1, 128};
  CHECK(count_different(run.dw, model_product(model, promote, g.codes, x.codes, outputs, inputs, rows, options)) == 0);
}

TEST_CASE("train: MX operands on a block-scaled model are gemm with E8M0 scales") {
  const DotModel* found = nullptr;
  for (const DotModel& m : dot_models())
    if (m.is_block_scaled() && m.scale_block == 32 && m.a.format == "e4m3"_fmt && m.b.format == "e4m3"_fmt &&
        found == nullptr)
      found = &m;
  REQUIRE(found != nullptr);
  Policy policy;
  OperationPolicy& p = policy[Operation::linear];
  set_formats(p, {"e4m3"_fmt, {}, Scaling::mx}, {"e4m3"_fmt, {}, Scaling::mx});
  p.forward = {Accumulation::model, {}, found, {}};
  const Run run(policy);
  const BlockFormat mx = require_block_format("mxfp8_e4m3");
  const Quantised x = quantise(run.x.data, rows, inputs, mx), w = quantise(run.w, outputs, inputs, mx);
  const std::vector<std::uint8_t> sx = scale_codes(x.scales, mx), sw = scale_codes(w.scales, mx);
  GemmOptions options;
  options.block_a = sx, options.block_b = sw;
  CHECK(count_different(run.y.data, model_product(*found, {}, x.codes, w.codes, rows, outputs, inputs, options)) == 0);
}

TEST_CASE("train: both operands of the weights' gradient are turned by one orthogonal matrix before their blocks") {
  // 40 rows: two runs of 16 are turned, eight rows stay. Eighths keep the sums of the transform exact.
  constexpr std::size_t count = 40, width = 6, height = 5;
  Policy policy;
  OperationPolicy& p = policy[Operation::linear];
  p.weights = {"e2m1"_fmt, {}, Scaling::nvfp4_16x16};
  p.activations = p.gradients = {"e2m1"_fmt, {}, Scaling::nvfp4};
  p.wgrad.hadamard = true;
  check(policy);
  Store<float> store(policy, 3);
  Linear<float> linear(store, "linear", width, height, {Start::constant(1), false});
  Tensor<float> x, y, dy, dx;
  x.resize({count, width}), dy.resize({count, height});
  const auto fill = [](std::vector<float>& data, std::uint64_t seed) {
    for (std::size_t i = 0; i < data.size(); ++i)
      data[i] = static_cast<float>(static_cast<int>(random_bits(seed, i) % 15) - 7) / 8;
  };
  fill(x.data, 1), fill(dy.data, 2);
  linear.forward(x, y);
  linear.backward(dy, &dx);
  const auto turned = [](const std::vector<float>& data, std::size_t cols) {
    std::vector<float> out = transposed(data, count, cols);
    std::vector<float> from = out;
    for (std::size_t line = 0; line < cols; ++line)
      for (std::size_t i = 0; i < 32; ++i) {
        double sum = 0;
        for (std::size_t j = 0; j < 16; ++j) {
          const bool minus = (std::popcount(i % 16 & j) + static_cast<int>(random_bits(0, 0) >> j & 1)) % 2 != 0;
          sum += (minus ? -1 : 1) * static_cast<double>(from[line * count + i / 16 * 16 + j]);
        }
        out[line * count + i] = static_cast<float>(sum / 4);
      }
    return dequantise(quantise(out, cols, count, require_block_format("nvfp4")));
  };
  const std::vector<float> g = turned(dy.data, height), a = turned(x.data, width);
  std::vector<float> dw;
  for (std::size_t o = 0; o < height; ++o)
    for (std::size_t i = 0; i < width; ++i) {
      float sum = 0;
      for (std::size_t k = 0; k < count; ++k) {
        const float term = g[o * count + k] * a[i * count + k];
        sum = sum + term;
      }
      dw.push_back(sum);
    }
  CHECK(count_different(store.parameters()[0]->gradient.data, dw) == 0);
}

TEST_CASE("train: every operation of a product rounded to FP16") {
  Policy policy;
  OperationPolicy& p = policy[Operation::linear];
  set_formats(p, {"fp16"_fmt}, {"fp16"_fmt});
  p.forward = {Accumulation::every_operation, "fp16"_fmt};
  const Run run(policy);
  const auto fp16 = [](float v) { return round_to(v, "fp16"_fmt); };
  std::vector<float> y;
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t o = 0; o < outputs; ++o) {
      float sum = 0;
      for (std::size_t k = 0; k < inputs; ++k) {
        const float term = fp16(fp16(run.x.row(i)[k]) * fp16(run.w[o * inputs + k]));
        sum = fp16(sum + term);
      }
      y.push_back(sum);
    }
  CHECK(count_different(run.y.data, y) == 0);
}

}  // namespace narrow::train

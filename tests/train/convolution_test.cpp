// Convolutions against loops over the definition, central differences, and linear layers on their windows.
#include "narrow/train/operations/convolution.hpp"

#include <doctest/doctest.h>

#include "narrow/base/error.hpp"
#include "narrow/dot/gemm.hpp"
#include "narrow/round/round_to.hpp"
#include "narrow/train/operations/linear.hpp"
#include "narrow/train/policy/recipe.hpp"
#include "support/inputs.hpp"
#include "train/probe.hpp"

namespace narrow::train {

using trial::Probe;
using trial::random_tensor;

namespace {

struct Case {
  std::vector<std::size_t> sizes;
  std::vector<Sliding> dimensions;
};
const Case cases[] = {
    {{7}, {{3, 1, 1}}},
    {{9}, {{4, 3, 2}}},
    {{6, 5}, {{3, 2, 1}, {3, 2, 1}}},
    {{5, 8}, {{1, 1, 0}, {4, 2, 0}}},
    {{3, 4, 5}, {{2, 1, 1}, {3, 2, 1}, {3, 1, 0}}},
    {{4, 4, 4}, {{4, 5, 0}, {1, 3, 2}, {2, 2, 0}}},  // strides beyond the kernel: places that no window sees
};

std::vector<std::size_t> tensor_shape(std::size_t batch, const std::vector<std::size_t>& sizes, std::size_t channels) {
  std::vector<std::size_t> shape{batch};
  shape.insert(shape.end(), sizes.begin(), sizes.end());
  shape.push_back(channels);
  return shape;
}

// Steps through all indices of a shape, the last one fastest; false at the end.
bool next_index(std::vector<std::size_t>& index, const std::vector<std::size_t>& shape) {
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (++index[d] < shape[d]) return true;
    index[d] = 0;
  }
  return false;
}
std::size_t offset(const std::vector<std::size_t>& index, const std::vector<std::size_t>& shape) {
  std::size_t at = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) at = at * shape[d] + index[d];
  return at;
}

// The element of x that tap t of window o sees; 0 in the padding.
template <class T>
T seen(const Tensor<T>& x, const Case& c, const std::vector<std::size_t>& o, const std::vector<std::size_t>& t,
       std::size_t channel) {
  std::vector<std::size_t> at{o[0]};
  for (std::size_t d = 0; d < c.sizes.size(); ++d) {
    const auto place = static_cast<std::ptrdiff_t>(o[d + 1] * c.dimensions[d].stride + t[d]) -
                       static_cast<std::ptrdiff_t>(c.dimensions[d].padding);
    if (place < 0 || place >= static_cast<std::ptrdiff_t>(c.sizes[d])) return 0;
    at.push_back(static_cast<std::size_t>(place));
  }
  at.push_back(channel);
  return x.data[offset(at, x.shape)];
}

std::vector<std::size_t> taps_of(const Case& c) {
  std::vector<std::size_t> taps;
  for (const Sliding& s : c.dimensions) taps.push_back(s.kernel);
  return taps;
}

// y[o, f] = b[f] + sum over t, i of w[f, t, i] x[o stride + t - padding, i], as it is written.
double worst_error(const Tensor<double>& x, const Case& c, Store<double>& store, const Tensor<double>& y) {
  const Tensor<double>&w = store.parameters()[0]->value, &b = store.parameters()[1]->value;
  double worst = 0;
  std::vector<std::size_t> o(y.shape.size(), 0);
  do {
    long double sum = b.data[o.back()];
    std::vector<std::size_t> t(c.sizes.size(), 0);
    do {
      for (std::size_t i = 0; i < x.cols(); ++i) {
        std::vector<std::size_t> at{o.back()};
        at.insert(at.end(), t.begin(), t.end());
        at.push_back(i);
        sum += static_cast<long double>(w.data[offset(at, w.shape)]) * seen(x, c, o, t, i);
      }
    } while (next_index(t, taps_of(c)));
    worst = std::max(worst, static_cast<double>(std::abs(sum - y.data[offset(o, y.shape)])));
  } while (next_index(o, y.shape));
  return worst;
}

// The windows as rows, by the definition.
Tensor<float> windows_of(const Tensor<float>& x, const Case& c, const std::vector<std::size_t>& y_shape) {
  Tensor<float> rows;
  std::vector<std::size_t> places(y_shape.begin(), y_shape.end() - 1), o(places.size(), 0);
  do {
    std::vector<std::size_t> t(c.sizes.size(), 0);
    do {
      for (std::size_t i = 0; i < x.cols(); ++i) rows.data.push_back(seen(x, c, o, t, i));
    } while (next_index(t, taps_of(c)));
  } while (next_index(o, places));
  std::size_t k = x.cols();
  for (const std::size_t taps : taps_of(c)) k *= taps;
  rows.shape = {rows.data.size() / k, k};
  return rows;
}

Tensor<float> floats(const Tensor<double>& x) { return {x.shape, {x.data.begin(), x.data.end()}}; }

}  // namespace

// 54 products at most, each below 1.5 * 6: every sum on the way stays below 54 * 9 and is off by half of its quantum.
TEST_CASE("train: a convolution is its definition in one and two and three dimensions") {
  constexpr double sum_error = 54 * (54 * 9) * 0x1p-53;
  for (const Case& c : cases) {
    Store<double> store({}, 1);
    Convolution<double> convolution(store, "c", 3, 4, {c.dimensions, Start::normal(1)});
    trial::shake(store);
    const Tensor<double> x = random_tensor(tensor_shape(2, c.sizes, 3), 1);
    Tensor<double> y;
    convolution.forward(x, y);
    for (std::size_t d = 0; d < c.sizes.size(); ++d) {
      const Sliding& s = c.dimensions[d];
      CHECK(y.shape[d + 1] == (c.sizes[d] + 2 * s.padding - s.kernel) / s.stride + 1);
    }
    CHECK(worst_error(x, c, store, y) <= sum_error);
  }
}

TEST_CASE("train: gradients of convolutions are central differences") {
  for (const Case& c : cases)
    for (const bool has_bias : {true, false}) {
      Store<double> store({}, 1);
      Convolution<double> convolution(store, "c", 2, 3, {c.dimensions, Start::normal(1), has_bias});
      trial::shake(store);
      Tensor<double> x = random_tensor(tensor_shape(2, c.sizes, 2), 1), y, dx;
      convolution.forward(x, y);
      const Probe probe(y.shape);
      convolution.backward(probe.weights, &dx);
      trial::check_all(store, x, dx, [&] { return convolution.forward(x, y), probe(y); });
    }
}

TEST_CASE("train: a convolution is a linear layer on its windows, bit for bit, in every recipe") {
  const Case c{{6, 5}, {{3, 2, 1}, {3, 1, 1}}};
  for (const RecipeRow& row : recipe_table()) {
    CAPTURE(std::string(row.name));
    Policy policy = row.policy();
    policy[Operation::convolution] = policy[Operation::linear];
    Store<float> ours(policy, 1), theirs(policy, 1);
    Convolution<float> convolution(ours, "c", 5, 6, {c.dimensions, Start::normal(1)});
    Linear<float> linear(theirs, "c", 45, 6, {Start::normal(1)});
    const Tensor<float> x = floats(random_tensor(tensor_shape(3, c.sizes, 5), 1));
    Tensor<float> y, z, dx;
    convolution.forward(x, y);
    const Tensor<float> windows = windows_of(x, c, y.shape);
    linear.forward(windows, z);
    CHECK(y.data == z.data);
    const Tensor<float> dy = floats(random_tensor(y.shape, 2));
    convolution.backward(dy, &dx);
    linear.backward(dy, nullptr);
    for (std::size_t k = 0; k < 2; ++k)
      CHECK(ours.parameters()[k]->gradient.data == theirs.parameters()[k]->gradient.data);
    // A window of one place: also what flows back.
    Store<float> one(policy, 1), flat(policy, 1);
    Convolution<float> point(one, "c", 5, 6, {{{}, {}}, Start::normal(1)});
    Linear<float> same(flat, "c", 5, 6, {Start::normal(1)});
    const Tensor<float> dz = floats(random_tensor({3, 6, 5, 6}, 3));
    Tensor<float> dx_same;
    point.forward(x, y), same.forward(x, z);
    point.backward(dz, &dx), same.backward(dz, &dx_same);
    CHECK(y.data == z.data);
    CHECK(dx.data == dx_same.data);
  }
}

TEST_CASE("train: a convolution on a tensor core is gemm of the unfolded codes") {
  const Case c{{5, 5}, {{3, 2, 1}, {3, 2, 1}}};
  Policy policy;
  const Precision bf16{"bf16"_fmt};
  OperationPolicy& p = policy[Operation::convolution];
  p.weights = p.activations = p.gradients = bf16;
  p.forward = {Accumulation::model, {}, find_dot_model("hopper.wgmma.f32.bf16.bf16"), {}};
  Store<float> store(policy, 1);
  Convolution<float> convolution(store, "c", 4, 3, {c.dimensions, Start::normal(1), false});
  const Tensor<float> x = floats(random_tensor(tensor_shape(2, c.sizes, 4), 1));
  Tensor<float> y;
  convolution.forward(x, y);
  const Tensor<float> windows = windows_of(x, c, y.shape);
  const auto codes = [](const std::vector<float>& values) {
    std::vector<std::uint32_t> all;
    for (const float v : values) all.push_back(static_cast<std::uint32_t>(encode(v, "bf16"_fmt)));
    return all;
  };
  const std::vector<std::uint32_t> a = codes(windows.data), b = codes(store.parameters()[0]->value.data);
  std::vector<std::uint32_t> d(y.size());
  const std::size_t m = windows.rows(), k = 36, n = 3;
  gemm(*p.forward.model, Plan{}, MatrixView<const std::uint32_t>{a.data(), m, k},
       MatrixView<const std::uint32_t>{b.data(), k, n, k, Layout::column_major},
       MatrixView<const std::uint32_t>{nullptr, m, n}, MatrixView<std::uint32_t>{d.data(), m, n});
  for (std::size_t i = 0; i < d.size(); ++i) CHECK(::test::bits(y.data[i]) == d[i]);
}

TEST_CASE("train: a convolution that cannot be is refused") {
  Store<float> store({}, 1);
  using C = Convolution<float>;
  CHECK_THROWS_AS(C(store, "c", 1, 1, {{}, Start::normal(1)}), Error);
  CHECK_THROWS_AS(C(store, "c", 1, 1, {{{}, {}, {}, {}}, Start::normal(1)}), Error);
  CHECK_THROWS_AS(C(store, "c", 1, 1, {{{3, 0, 0}}, Start::normal(1)}), Error);
  C line(store, "c", 2, 1, {{{4, 1, 0}}, Start::normal(1)});
  Tensor<float> y;
  CHECK_THROWS_AS(line.forward(floats(random_tensor({1, 3, 2}, 1)), y), Error);     // the kernel does not fit
  CHECK_THROWS_AS(line.forward(floats(random_tensor({1, 5, 3}, 1)), y), Error);     // other channels
  CHECK_THROWS_AS(line.forward(floats(random_tensor({1, 5, 5, 2}, 1)), y), Error);  // other dimensions
}

}  // namespace narrow::train

// Each role of each operation rounds its own tensors and no others; and cases whose result is known by hand.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "narrow/base/random.hpp"
#include "narrow/train/models/block.hpp"
#include "narrow/train/operations/cross_entropy.hpp"
#include "support/inputs.hpp"

namespace narrow::train {

namespace {

constexpr Format coarse = "bf16"_fmt, half = "fp16"_fmt;

// Counts what was seen of one role of one operation, and everything that is not as it should be.
struct Watch : Observer {
  Operation operation;
  Role role;
  std::size_t tensors = 0, wrong = 0;
  std::vector<std::string> names;

  Watch(Operation o, Role r) : operation(o), role(r) {}
  void saw(const Site& site, std::span<const float> before, std::span<const float> after) override {
    if (site.tensor.find(".running_") != std::string_view::npos) return;  // buffers: batch_norm_test
    if (site.operation != operation || site.role != role) {
      wrong += before.data() != after.data() ? 1 : 0;
      return;
    }
    ++tensors;
    names.emplace_back(site.tensor);
    for (std::size_t i = 0; i < before.size(); ++i)
      wrong += test::bits(round_to(before[i], coarse)) != test::bits(after[i]) ? 1 : 0;
  }
};

ModelShape small_shape() {
  ModelShape s;
  s.kind = ModelKind::transformer;
  s.layers = 1, s.width = 8, s.heads = 2, s.context = 6, s.vocabulary = 9, s.soft_cap = 5;
  return s;
}

Batch small_batch(const ModelShape& s) {
  Batch b;
  b.size = 2;
  for (std::size_t i = 0; i < 2 * s.context; ++i) {
    b.tokens.push_back(static_cast<std::int32_t>(random_bits(1, i) % s.vocabulary));
    b.targets.push_back(static_cast<std::int32_t>(random_bits(2, i) % s.vocabulary));
  }
  return b;
}

// A model that has the operation, and a batch for it.
struct Subject {
  ModelShape shape = small_shape();
  Batch batch = small_batch(shape);
  explicit Subject(Operation o) {
    if (o != Operation::convolution && o != Operation::batch_norm) return;
    shape.kind = ModelKind::cnn, shape.hidden = {3, 4}, shape.image = 5, shape.classes = 3;
    batch = {.size = 3, .tokens = {}, .inputs = {}, .targets = {2, 0, 1}};
    for (std::size_t i = 0; i < 75; ++i) batch.inputs.push_back(static_cast<float>(random_bits(3, i) % 999) / 999);
  }
};

// Away from the start, where gains are 1 and scores nearly 0.
std::unique_ptr<Model<float>> shaken_model(const ModelShape& shape, const Policy& policy) {
  auto model = make_model<float>(shape, policy, 1);
  std::uint64_t n = 0;
  for (auto* p : model->parameters())
    for (float& x : p->value.data) x += static_cast<float>(random_bits(6, n++) >> 40) * 0x1p-24f - 0.5f;
  return model;
}

std::vector<float> all_gradients(Model<float>& model) {
  std::vector<float> all;
  for (const auto* p : model.parameters()) all.insert(all.end(), p->gradient.data.begin(), p->gradient.data.end());
  return all;
}

Tensor<float> tensor(std::vector<std::size_t> shape, std::vector<float> data) {
  return {std::move(shape), std::move(data)};
}

}  // namespace

TEST_CASE("train: a role rounds its own tensors and no others") {
  for (std::size_t o = 0; o < operation_count; ++o) {
    const auto operation = static_cast<Operation>(o);
    const auto [shape, batch] = Subject(operation);
    const auto plain = shaken_model(shape, {});
    const float plain_loss = plain->forward(batch);
    plain->backward(1);
    const std::vector<float> plain_gradients = all_gradients(*plain);
    for (std::size_t r = 0; r < role_count; ++r) {
      const auto role = static_cast<Role>(r);
      CAPTURE(name_of(operation));
      CAPTURE(name_of(role));
      Policy policy;
      policy[operation].role(role).format = coarse;
      const auto model = shaken_model(shape, policy);
      Watch watch(operation, role);
      model->set_observer(&watch);
      const float loss = model->forward(batch);
      // 1/3: a scale that coarse cannot hold, so that even the gradient of the loss is rounded.
      model->backward(role == Role::gradients && operation == Operation::loss ? 1.0f / 3 : 1);
      CHECK((watch.tensors > 0) == has_role(operation, role));
      CHECK(watch.wrong == 0);
      if (!has_role(operation, role)) {
        CHECK(test::bits(loss) == test::bits(plain_loss));
        CHECK(all_gradients(*model) == plain_gradients);
        continue;
      }
      const bool changes_loss =
          role != Role::gradients && role != Role::input_gradients && role != Role::weight_gradients;
      CHECK((test::bits(loss) != test::bits(plain_loss)) == changes_loss);
      const bool changes_gradients = operation != Operation::loss || role != Role::output;
      CHECK((all_gradients(*model) != plain_gradients) == changes_gradients);
    }
  }
}

TEST_CASE("train: narrow arithmetic changes the operations that have some") {
  for (std::size_t o = 0; o < operation_count; ++o) {
    const auto operation = static_cast<Operation>(o);
    // Their arithmetic is a bias, which these models do not have there.
    if (operation == Operation::logits || operation == Operation::convolution) continue;
    const auto [shape, batch] = Subject(operation);
    const auto plain = shaken_model(shape, {});
    plain->forward(batch);
    plain->backward(1);
    CAPTURE(name_of(operation));
    Policy policy;
    policy[operation].arithmetic.format = coarse;
    const auto model = shaken_model(shape, policy);
    model->forward(batch);
    model->backward(1);
    CHECK((all_gradients(*model) != all_gradients(*plain)) == has_arithmetic(operation));
  }
}

TEST_CASE("train: nobody watches a model any more after a forward that threw") {
  const ModelShape shape = small_shape();
  const Batch good = small_batch(shape);
  Batch bad = good;
  bad.targets[0] = -1;
  const auto model = make_model<float>(shape, {}, 1);
  Watch watch(Operation::loss, Role::activations);
  CHECK_THROWS([&] {
    const Watching watching(*model, &watch);
    model->forward(bad);
  }());
  watch.tensors = 0;
  model->forward(good);
  CHECK(watch.tensors == 0);
  const Watching watching(*model, &watch);
  model->forward(good);
  CHECK(watch.tensors == 1);
}

TEST_CASE("train: an operand that the format cannot tell from 1 counts as 1") {
  Policy policy;
  policy[Operation::linear].activations.format = coarse;  // 8 bits of significand
  Store<float> store(policy, 1);
  Linear<float> linear(store, "linear", 1, 1, {Start::constant(3)});
  Tensor<float> y, dx;
  const Tensor<float> x = tensor({1, 1}, {1 + 0x1p-9f});
  linear.forward(x, y);
  CHECK(y.data[0] == 3);
  linear.backward(tensor({1, 1}, {0x1p-40f}), &dx);
  CHECK(store.parameters()[0]->gradient.data[0] == 0x1p-40f);  // the gradient of the weight saw the rounded input too
  CHECK(dx.data[0] == 3 * 0x1p-40f);
}

TEST_CASE("train: an FP16 output overflows and an FP16 gradient underflows where a loss scale keeps it") {
  Policy policy;
  policy[Operation::linear].output.format = half;
  policy[Operation::linear].input_gradients.format = half;
  Store<float> store(policy, 1);
  Linear<float> linear(store, "linear", 1, 1, {Start::constant(1)});
  Tensor<float> y, dx;
  const Tensor<float> x = tensor({2, 1}, {65519, 65520});
  linear.forward(x, y);
  CHECK(y.data[0] == 65504);
  CHECK(std::isinf(y.data[1]));
  linear.backward(tensor({2, 1}, {0x1p-26f, 0x1p-26f * 1024}), &dx);
  CHECK(dx.data[0] == 0);
  CHECK(dx.data[1] == 0x1p-16f);
}

TEST_CASE("train: a residual sum in BF16 loses what is below half its quantum") {
  Policy policy;
  policy[Operation::residual].output.format = coarse;
  Store<float> store(policy, 1);
  Residual<float> residual(store, "residual");
  Tensor<float> y;
  residual.forward(tensor({1, 3}, {256, 256, 256}), tensor({1, 3}, {1, 1.0625f, 3}), y);
  CHECK(y.data == std::vector<float>{256, 258, 260});  // quantum 2: a tie to even, above, a tie to even
}

TEST_CASE("train: LayerNorm in FP16 arithmetic squares 300 to infinity") {
  for (const bool narrow_arithmetic : {false, true}) {
    Policy policy;
    if (narrow_arithmetic) policy[Operation::norm].arithmetic.format = half;
    Store<float> store(policy, 1);
    Norm<float> norm(store, "norm", 2, NormKind::layer);
    Tensor<float> y;
    norm.forward(tensor({1, 2}, {300, -300}), y);
    CHECK(y.data[0] == (narrow_arithmetic ? 0.0f : 1.0f));
  }
}

TEST_CASE("train: a bias gradient summed in BF16 arithmetic stops at 256") {
  Policy policy;
  policy[Operation::linear].arithmetic.format = coarse;
  Store<float> store(policy, 1);
  Linear<float> linear(store, "linear", 1, 1, {Start::constant(1)});
  Tensor<float> y;
  const Tensor<float> x = tensor({300, 1}, std::vector<float>(300, 0));
  linear.forward(x, y);
  linear.backward(tensor({300, 1}, std::vector<float>(300, 1)), nullptr);
  CHECK(store.parameters()[1]->gradient.data[0] == 256);
}

TEST_CASE("train: softmax in FP16 arithmetic is exp and sum and quotient rounded one by one") {
  Policy policy;
  policy[Operation::softmax].arithmetic.format = half;
  Store<float> store(policy, 1);
  Softmax<float> softmax(store, "softmax", Mask::none);
  const float x[3] = {0.1f, -1.7f, 2.3f};
  Tensor<float> p = tensor({1, 3}, {x[0], x[1], x[2]});
  softmax.forward(p, 3);
  const auto r = [](float v) { return round_to(v, half); };
  const float e0 = r(train::exp(r(x[0] - x[2]))), e1 = r(train::exp(r(x[1] - x[2])));
  const float sum = r(r(e0 + 1) + e1);  // the tree over eight: (s0 + s2) + s1
  CHECK(p.data == std::vector<float>{r(e0 / sum), r(e1 / sum), r(1 / sum)});
}

TEST_CASE("train: a narrow loss gradient is scaled before it is rounded") {
  Policy policy;
  policy[Operation::loss].input_gradients.format = half;
  Store<float> store(policy, 1);
  CrossEntropy<float> loss(store, "loss");
  const Tensor<float> logits = tensor({1, 2}, {20, 0});  // p of the second: 2e-9
  loss.forward(logits, {0});
  Tensor<float> dx;
  loss.backward(1, dx);
  CHECK(dx.data[1] == 0);
  loss.backward(65536, dx);
  CHECK(dx.data[1] > 0);
  CHECK(dx.data[1] == doctest::Approx(65536 * 2.0611536e-9).epsilon(0x1p-11));  // half a quantum of FP16
}

}  // namespace narrow::train

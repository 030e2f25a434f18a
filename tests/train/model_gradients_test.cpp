// The gradients of whole models, every parameter, against central differences in double.
#include <doctest/doctest.h>

#include "narrow/base/random.hpp"
#include "narrow/train/models/model.hpp"
#include "train/central_difference.hpp"

namespace narrow::train {

namespace {

ModelShape small_transformer() {
  ModelShape s;
  s.kind = ModelKind::transformer;
  s.layers = 2, s.width = 12, s.heads = 3, s.context = 7, s.vocabulary = 11;
  return s;
}

Batch token_batch(const ModelShape& s, std::size_t size) {
  Batch b;
  b.size = size;
  for (std::size_t i = 0; i < size * s.context; ++i) {
    b.tokens.push_back(static_cast<std::int32_t>(random_bits(1, i) % s.vocabulary));
    b.targets.push_back(static_cast<std::int32_t>(random_bits(2, i) % s.vocabulary));
  }
  return b;
}

Batch image_batch(std::size_t size, std::size_t inputs, std::size_t classes) {
  Batch b;
  b.size = size;
  for (std::size_t i = 0; i < size * inputs; ++i)
    b.inputs.push_back(static_cast<float>(random_bits(3, i) % 1024) / 1024);
  for (std::size_t i = 0; i < size; ++i) b.targets.push_back(static_cast<std::int32_t>(random_bits(4, i) % classes));
  return b;
}

// Far from the start of training, where norms and biases are trivial: everything is shaken.
void check_gradients(const ModelShape& shape, const Batch& batch) {
  const auto model = make_model<double>(shape, Policy{}, 5);
  std::uint64_t n = 0;
  for (Parameter<double>* p : model->parameters())
    for (double& x : p->value.data) x += 0.4 * (static_cast<double>(random_bits(6, n++) >> 11) * 0x1p-53 - 0.5);
  model->forward(batch);
  constexpr double loss_scale = 4;
  model->backward(loss_scale);
  for (Parameter<double>* p : model->parameters()) {
    CAPTURE(p->name);
    const std::vector<double> gradient = p->gradient.data;
    const std::size_t stride = std::max<std::size_t>(1, p->value.size() / 24);
    CHECK(trial::worst_difference(
              p->value.span(), gradient, [&] { return loss_scale * model->forward(batch); }, stride) <
          trial::gradient_tolerance);
  }
}

}  // namespace

TEST_CASE("train: gradients of the perceptron are central differences") {
  ModelShape s;
  s.inputs = 9, s.hidden = {10, 7}, s.classes = 5;
  check_gradients(s, image_batch(6, s.inputs, s.classes));
}

TEST_CASE("train: gradients of the transformer are central differences") {
  const ModelShape s = small_transformer();
  check_gradients(s, token_batch(s, 3));
}

TEST_CASE("train: gradients with RMSNorm and normed queries and a soft cap are central differences") {
  ModelShape s = small_transformer();
  s.rms_norm = true, s.qk_norm = true, s.soft_cap = 2;
  check_gradients(s, token_batch(s, 2));
}

TEST_CASE("train: gradients of the vision transformer are central differences") {
  ModelShape s = small_transformer();
  s.kind = ModelKind::vision;
  s.image = 6, s.patch = 2, s.classes = 4, s.layers = 1;
  check_gradients(s, image_batch(3, s.image * s.image, s.classes));
}

TEST_CASE("train: gradients of the convolutional model are central differences") {
  ModelShape s;
  s.kind = ModelKind::cnn, s.hidden = {3, 4, 2}, s.image = 7, s.classes = 4;
  check_gradients(s, image_batch(4, s.image * s.image, s.classes));
}

}  // namespace narrow::train

#include "narrow/train/models/model.hpp"

#include <algorithm>
#include <cmath>

#include "narrow/base/error.hpp"
#include "narrow/train/models/cnn.hpp"
#include "narrow/train/models/mlp.hpp"
#include "narrow/train/models/transformer.hpp"
#include "narrow/train/models/vision.hpp"

namespace narrow::train {

namespace {

// Limits that keep a mistyped size from taking the whole memory.
void check_size(const char* what, std::size_t size, std::size_t most) {
  if (size == 0 || size > most)
    throw Error("model: " + std::string(what) + " " + std::to_string(size) + " is not within 1 to " +
                std::to_string(most));
}

void check_blocks(const ModelShape& s) {
  check_size("layers", s.layers, 256);
  check_size("width", s.width, 16384);
  check_size("heads", s.heads, s.width);
  if (s.width % s.heads != 0)
    throw Error("model: width " + std::to_string(s.width) + " does not divide into " + std::to_string(s.heads) +
                " heads");
  if (!(s.soft_cap >= 0) || std::isinf(s.soft_cap))
    throw Error("model: the soft cap must be 0 (none) or a finite number above");
}

}  // namespace

void check(const ModelShape& s) {
  constexpr std::size_t widest = 65536;
  if (s.kind != ModelKind::transformer) check_size("classes", s.classes, widest);
  switch (s.kind) {
    case ModelKind::mlp:
      check_size("inputs", s.inputs, widest);
      for (const std::size_t width : s.hidden) check_size("hidden layer", width, widest);
      return;
    case ModelKind::transformer:
      check_blocks(s);
      check_size("context", s.context, widest);
      check_size("vocabulary", s.vocabulary, std::size_t{1} << 20);
      return;
    case ModelKind::vision:
      check_blocks(s);
      check_size("image", s.image, 1024);
      check_size("patch", s.patch, s.image);
      if (s.image % s.patch != 0)
        throw Error("model: an image of " + std::to_string(s.image) + " does not divide into patches of " +
                    std::to_string(s.patch));
      return;
    case ModelKind::cnn:
      check_size("image", s.image, 1024);
      check_size("number of convolutions", s.hidden.size(), 16);
      for (const std::size_t channels : s.hidden) check_size("convolution of channels", channels, 4096);
  }
}

template <class T>
std::unique_ptr<Model<T>> make_model(const ModelShape& shape, const Policy& policy, std::uint64_t seed) {
  check(shape);
  check(policy);
  switch (shape.kind) {
    case ModelKind::mlp: return std::make_unique<Mlp<T>>(shape, policy, seed);
    case ModelKind::vision: return std::make_unique<Vision<T>>(shape, policy, seed);
    case ModelKind::cnn: return std::make_unique<Cnn<T>>(shape, policy, seed);
    case ModelKind::transformer: break;
  }
  return std::make_unique<Transformer<T>>(shape, policy, seed);
}

template <class T>
std::size_t count_right(const Tensor<T>& logits, const std::vector<std::int32_t>& targets) {
  std::size_t right = 0;
  for (std::size_t i = 0; i < targets.size() && i < logits.rows(); ++i) {
    const T* row = logits.row(i);
    right += std::max_element(row, row + logits.cols()) - row == targets[i] ? 1 : 0;
  }
  return right;
}

template std::unique_ptr<Model<float>> make_model<float>(const ModelShape&, const Policy&, std::uint64_t);
template std::unique_ptr<Model<double>> make_model<double>(const ModelShape&, const Policy&, std::uint64_t);
template std::size_t count_right<float>(const Tensor<float>&, const std::vector<std::int32_t>&);
template std::size_t count_right<double>(const Tensor<double>&, const std::vector<std::int32_t>&);

}  // namespace narrow::train

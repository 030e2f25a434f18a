// A model that can be trained: parameters in a fixed order, a loss, and its gradients. Which one, and in which
// precision, is decided when it is made.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "narrow/train/operations/observer.hpp"
#include "narrow/train/operations/store.hpp"
#include "narrow/train/operations/tensor.hpp"
#include "narrow/train/policy/policy.hpp"
#include "narrow/train/policy/settings.hpp"

namespace narrow::train {

// transformer: tokens [size, length], length <= context; a target for each token. Others: inputs [size, inputs], a
// target for each row. The model reads what its kind needs.
struct Batch {
  std::size_t size = 0;
  std::vector<std::int32_t> tokens;
  std::vector<float> inputs;
  std::vector<std::int32_t> targets;
};

template <class T>
class Model {
 public:
  virtual ~Model() = default;

  virtual std::vector<Parameter<T>*> parameters() = 0;  // always the same, in the same order

  // Before forward: which random bits stochastic rounding takes. The seed is that of the run.
  virtual void set_step(std::uint64_t seed, std::uint64_t number) = 0;
  virtual void set_observer(Observer* observer) = 0;  // nullptr: nobody; must outlive the step
  virtual void set_threads(int threads) = 0;          // 0: the default; the bits do not depend on it
  // false: forward is for evaluation, with the running statistics of batch norm, which stay as they are.
  virtual void set_training(bool is_training) = 0;

  // The mean loss over the targets. Throws Error for a batch that does not fit.
  virtual T forward(const Batch& batch) = 0;
  // Gradients of loss * loss_scale of the last forward, written to the parameters. The scale enters at the loss, so
  // that what narrow formats see on the way is scaled.
  virtual void backward(T loss_scale) = 0;
  // After the last backward of a step: what delayed scaling saw joins its history.
  virtual void end_step() = 0;

  virtual const Tensor<T>& logits() const = 0;  // of the last forward: [targets, classes]
  // Multiplications of one forward and backward in matrix products.
  virtual std::uint64_t multiply_adds(std::size_t batch_size) const = 0;

  virtual std::vector<LayerState> states() const = 0;
  virtual void restore(const std::vector<LayerState>& states) = 0;  // Error for names or sizes that do not fit
};

// What is the same for every model.
template <class T>
class StoredModel : public Model<T> {
 public:
  StoredModel(const Policy& policy, std::uint64_t seed) : store_(policy, seed) {}
  std::vector<Parameter<T>*> parameters() override { return store_.parameters(); }
  void set_step(std::uint64_t seed, std::uint64_t number) override {
    store_.step.seed = seed, store_.step.number = number;
  }
  void set_observer(Observer* observer) override { store_.step.observer = observer; }
  void set_threads(int threads) override { store_.step.threads = threads; }
  void set_training(bool is_training) override { store_.step.is_training = is_training; }
  void end_step() override { store_.end_step(); }
  std::vector<LayerState> states() const override { return store_.states(); }
  void restore(const std::vector<LayerState>& states) override { store_.restore(states); }

 protected:
  Store<T> store_;
};

// Watches a model for as long as it lives, also when forward throws on the way: an observer may die with the step.
class Watching {
 public:
  Watching(Model<float>& model, Observer* observer) : model_(model) { model_.set_observer(observer); }
  ~Watching() { model_.set_observer(nullptr); }
  Watching(const Watching&) = delete;
  Watching& operator=(const Watching&) = delete;

 private:
  Model<float>& model_;
};

// Parameters are drawn from seed: N(0, 0.02) for matrices and embeddings of transformers, projections back into the
// residual stream divided by sqrt(2 layers); an MLP's and a CNN's uniform within 1 / sqrt(terms); biases 0, norms 1.
//
// Names. transformer: token_embedding, position_embedding, blocks.N.norm1, blocks.N.attention.{query,key,value,output},
// blocks.N.norm2, blocks.N.mlp.{up,down}, final_norm, head (no bias); each with .weight and .bias; with qk_norm also
// blocks.N.attention.{query_norm,key_norm}.weight. mlp: layers.N. vision: patch_embedding, position_embedding, then as
// above. cnn: convolutions.N.weight, norms.N, head. Linear weights are [outputs, inputs], those of convolutions
// [outputs, kernel..., inputs].
template <class T>
std::unique_ptr<Model<T>> make_model(const ModelShape& shape, const Policy& policy, std::uint64_t seed);

extern template std::unique_ptr<Model<float>> make_model<float>(const ModelShape&, const Policy&, std::uint64_t);
extern template std::unique_ptr<Model<double>> make_model<double>(const ModelShape&, const Policy&, std::uint64_t);

// How many rows of logits are largest at their target.
template <class T>
std::size_t count_right(const Tensor<T>& logits, const std::vector<std::int32_t>& targets);

}  // namespace narrow::train

// What the layers of one model share: parameters, quantisers, the policy and the step that is running.
#pragma once

#include <deque>
#include <memory>

#include "narrow/train/operations/quantiser.hpp"

namespace narrow::train {

// What a model remembers between steps beside its parameters, as a checkpoint keeps it: the scales of delayed scaling
// (tensor and role: "blocks.0.mlp.up.weights"), the running statistics of batch norm ("norms.0.running_mean").
struct LayerState {
  std::string name;
  std::vector<float> values;
};

// How a parameter starts.
struct Start {
  enum class Law : std::uint8_t { constant, normal, uniform } law = Law::constant;
  double size = 0;  // the value; the deviation; the bound

  static Start constant(double value) { return {Law::constant, value}; }
  static Start normal(double deviation) { return {Law::normal, deviation}; }
  static Start uniform(double bound) { return {Law::uniform, bound}; }
};

template <class T>
class Store {
 public:
  Store(const Policy& rules, std::uint64_t seed) : policy(rules), seed_(seed) {}
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // References stay valid. Element i of parameter n starts from random bits of (seed, n, i) alone.
  Parameter<T>& parameter(std::string name, std::vector<std::size_t> shape, const Start& start);
  Quantiser<T>& quantiser(std::string tensor, Operation operation, Role role);
  Quantiser<T>& buffer_quantiser(std::string tensor, Operation operation);  // as the policy keeps buffers
  // Numbers that a layer changes in training and checkpoints keep.
  std::vector<T>& memory(std::string name, std::size_t size, T start);

  std::vector<Parameter<T>*> parameters();
  std::vector<LayerState> states() const;
  void restore(const std::vector<LayerState>& states);
  void end_step();

  const Policy policy;
  Step step;

 private:
  std::uint64_t seed_;
  std::deque<Parameter<T>> parameters_;
  std::deque<Quantiser<T>> quantisers_;
  std::deque<std::pair<std::string, std::vector<T>>> memories_;
};

// The roles of an operation without weights.
template <class T>
struct Roles {
  Quantiser<T>&activations, &gradients, &output, &input_gradients;
  Roles(Store<T>& store, const std::string& name, Operation o)
      : activations(store.quantiser(name, o, Role::activations)),
        gradients(store.quantiser(name, o, Role::gradients)),
        output(store.quantiser(name, o, Role::output)),
        input_gradients(store.quantiser(name, o, Role::input_gradients)) {}
};

}  // namespace narrow::train

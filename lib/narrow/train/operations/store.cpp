#include "narrow/train/operations/store.hpp"

#include <cmath>

#include "narrow/base/error.hpp"
#include "narrow/base/random.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/train/operations/math.hpp"

namespace narrow::train {

namespace {

// In (-1, 1), symmetric, 53 bits.
double signed_uniform(std::uint64_t bits) { return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-52 - 1; }

// Marsaglia's polar method: a point (u, v) in the unit circle, s = u^2 + v^2, gives u sqrt(-2 log(s) / s). Points
// outside are thrown away and the next pair of words is taken.
double normal(std::uint64_t seed, std::uint64_t index) {
  const std::uint64_t own = random_bits(seed, index);
  for (std::uint64_t pair = 0;; ++pair) {
    const double u = signed_uniform(random_bits(own, 2 * pair)), v = signed_uniform(random_bits(own, 2 * pair + 1));
    const double s = u * u + v * v;
    if (s < 1 && s > 0) return u * std::sqrt(-2 * train::log(s) / s);
  }
}

double start_value(const Start& start, std::uint64_t seed, std::uint64_t index) {
  switch (start.law) {
    case Start::Law::normal: return start.size * normal(seed, index);
    case Start::Law::uniform: return start.size * signed_uniform(random_bits(seed, index));
    case Start::Law::constant: break;
  }
  return start.size;
}

template <class T>
std::string state_name(const Quantiser<T>& q) {
  return q.tensor() + "." + std::string(name_of(q.role()));
}

}  // namespace

template <class T>
Parameter<T>& Store<T>::parameter(std::string name, std::vector<std::size_t> shape, const Start& start) {
  Parameter<T>& p = parameters_.emplace_back();
  p.name = std::move(name);
  p.decays = shape.size() > 1;
  p.value.resize(shape);
  p.gradient.resize(shape);
  const std::uint64_t own = random_bits(seed_, parameters_.size());
  // Through FP32, so that a model in double starts where the one in float does.
  for (std::size_t i = 0; i < p.value.size(); ++i)
    p.value.data[i] = static_cast<T>(static_cast<float>(start_value(start, own, i)));
  return p;
}

template <class T>
Quantiser<T>& Store<T>::quantiser(std::string tensor, Operation operation, Role role) {
  return quantisers_.emplace_back(std::move(tensor), operation, role, policy);
}

template <class T>
Quantiser<T>& Store<T>::buffer_quantiser(std::string tensor, Operation operation) {
  Policy own = policy;
  own[operation].weights = policy.training.buffers;
  return quantisers_.emplace_back(std::move(tensor), operation, Role::weights, own);
}

template <class T>
std::vector<T>& Store<T>::memory(std::string name, std::size_t size, T start) {
  return memories_.emplace_back(std::move(name), std::vector<T>(size, start)).second;
}

template <class T>
std::vector<Parameter<T>*> Store<T>::parameters() {
  std::vector<Parameter<T>*> all;
  for (Parameter<T>& p : parameters_) all.push_back(&p);
  return all;
}

template <class T>
void Store<T>::end_step() {
  for (Quantiser<T>& q : quantisers_) q.end_step();
}

template <class T>
std::vector<LayerState> Store<T>::states() const {
  std::vector<LayerState> all;
  for (const Quantiser<T>& q : quantisers_)
    if (q.has_state()) all.push_back({state_name(q), q.state()});
  for (const auto& [name, values] : memories_) all.push_back({name, {values.begin(), values.end()}});
  return all;
}

template <class T>
void Store<T>::restore(const std::vector<LayerState>& states) {
  std::size_t at = 0;
  const auto next = [&](const std::string& name) -> const std::vector<float>& {
    if (at == states.size() || states[at].name != name)
      throw Error("states of the layers: " + quote(name) + " is expected at place " + std::to_string(at) +
                  (at == states.size() ? ", and there is none" : ", not " + quote(states[at].name)));
    return states[at++].values;
  };
  for (Quantiser<T>& q : quantisers_)
    if (q.has_state()) q.restore(next(state_name(q)));
  for (auto& [name, values] : memories_) {
    const std::vector<float>& theirs = next(name);
    if (theirs.size() != values.size())
      throw Error("state of " + name + ": " + std::to_string(theirs.size()) + " values, not " +
                  std::to_string(values.size()));
    values.assign(theirs.begin(), theirs.end());
  }
  if (at != states.size())
    throw Error("states of the layers: " + quote(states[at].name) + " is not of this model and policy");
}

template class Store<float>;
template class Store<double>;

}  // namespace narrow::train

// Softmax of the part of each row that may be seen:  p_j = e^(x_j - max) / sum,  zero elsewhere.
//   dx_j = p_j (dp_j - sum over k of p_k dp_k)
#pragma once

#include "narrow/train/operations/store.hpp"

namespace narrow::train {

// Which columns of a square of `length` x `length` row i may see: all, or none after its own.
enum class Mask : std::uint8_t { none, causal };
constexpr std::size_t visible(Mask mask, std::size_t row, std::size_t length) noexcept {
  return mask == Mask::causal ? row + 1 : length;
}

template <class T>
class Softmax {
 public:
  Softmax(Store<T>& store, const std::string& name, Mask mask);
  // Rows of `length`, one square after the other; in place.
  void forward(Tensor<T>& x, std::size_t length);
  // p: what forward left. dp becomes dx.
  void backward(const Tensor<T>& p, Tensor<T>& dp, std::size_t length);

 private:
  Store<T>& store_;
  const OperationPolicy& policy_;
  Roles<T> roles_;
  Mask mask_;
};

}  // namespace narrow::train

// A convolution over one to three dimensions as products of unfolded tensors, channels last:
//   y  = windows(x) W^T + b                W: [outputs, kernel..., inputs]; K = taps * inputs
//   dW = dy^T windows(x)                   K = all windows of the batch
//   dx = places(dy) W'^T                   W': the same as [inputs, kernel..., outputs]; K = taps * outputs
// Each is one product, so that one accumulator (or tensor core) holds the whole sum of an element. An element is
// rounded once, however many windows see it; blocks of scales run along K, hence are formed of the unfolded tensor.
#pragma once

#include "narrow/train/operations/bias.hpp"
#include "narrow/train/operations/unfold.hpp"

namespace narrow::train {

template <class T>
class Convolution {
 public:
  struct Options {
    std::vector<Sliding> dimensions;  // one to three
    Start weight;
    bool has_bias = true;
  };
  // Throws Error for a kernel or stride of 0 and a number of dimensions that is not 1 to 3.
  Convolution(Store<T>& store, const std::string& name, std::size_t inputs, std::size_t outputs,
              const Options& options);

  // x: [batch, places..., inputs], y: [batch, windows..., outputs]. x must stay as it is until backward is done. Throws
  // Error when x has another shape or the kernel does not fit.
  void forward(const Tensor<T>& x, Tensor<T>& y);
  // dx == nullptr: nobody asks for it (the first layer).
  void backward(const Tensor<T>& dy, Tensor<T>* dx);

  // For so many images (or lines, or volumes) with so many places, and windows, each.
  std::uint64_t multiply_adds(std::size_t batch, std::size_t places, std::size_t windows, bool has_dx = true) const {
    return batch * taps_ * inputs_ * outputs_ * (2 * windows + (has_dx ? places : 0));
  }

 private:
  Factor<T> unfolded(Quantiser<T>& quantiser, const Tensor<T>& x, const Readings& readings, Tensor<T>& rows);
  Factor<T> turned_weights();

  Store<T>& store_;
  const OperationPolicy& policy_;
  std::string name_;
  std::size_t inputs_, outputs_, taps_;
  std::vector<Sliding> dimensions_;
  Parameter<T>& weight_;
  Roles<T> roles_;
  Quantiser<T>&weights_, &weight_gradients_;
  std::optional<Bias<T>> bias_;
  std::vector<std::size_t> shape_;  // of x
  Tensor<T> windows_, places_, turned_;
};

}  // namespace narrow::train

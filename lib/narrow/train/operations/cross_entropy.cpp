#include "narrow/train/operations/cross_entropy.hpp"

#include "narrow/base/error.hpp"
#include "narrow/train/operations/parts.hpp"
#include "narrow/train/operations/softmax_row.hpp"

namespace narrow::train {

template <class T>
CrossEntropy<T>::CrossEntropy(Store<T>& store, const std::string& name)
    : store_(store), policy_(store.policy[Operation::loss]), roles_(store, name, Operation::loss) {}

template <class T>
T CrossEntropy<T>::forward(const Tensor<T>& logits, const std::vector<std::int32_t>& targets) {
  const std::size_t rows = logits.rows(), classes = logits.cols();
  if (targets.size() != rows)
    throw Error("batch: " + std::to_string(targets.size()) + " targets for " + std::to_string(rows) +
                " rows of logits");
  for (const std::int32_t t : targets)
    if (t < 0 || static_cast<std::size_t>(t) >= classes)
      throw Error("batch: target " + std::to_string(t) + " is none of " + std::to_string(classes) + " classes");
  targets_ = targets;
  exps_.resize(logits.shape), sums_.resize(rows), losses_.resize(1);
  roles_.activations.keep(logits.span(), rows, classes, store_.step);
  std::vector<T> each(rows);
  with_arithmetic<T>(policy_.arithmetic, [&](const auto& r) {
    parallel_parts(rows, rows_a_part(classes), store_.step.threads, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        const T* x = roles_.activations.kept().data() + i * classes;
        const SoftmaxRow<T> s = exp_row(x, classes, exps_.row(i), r);
        sums_[i] = s.sum;
        each[i] = r(r(train::log(s.sum)) - r(x[targets_[i]] - s.max));
      }
    });
    const T total = sum_of<T>(rows, r, [&](std::size_t i, auto kind) { return take(each.data() + i, kind); });
    losses_[0] = r(total / static_cast<T>(rows));
  });
  roles_.output.round(losses_, store_.step);
  return losses_[0];
}

template <class T>
void CrossEntropy<T>::backward(T loss_scale, Tensor<T>& dx) {
  const std::size_t rows = exps_.rows(), classes = exps_.cols();
  dx.resize(exps_.shape);
  std::vector<T> top{loss_scale / static_cast<T>(rows)};
  roles_.gradients.round(top, store_.step);
  const T factor = top[0];
  with_arithmetic<T>(policy_.arithmetic, [&](const auto& r) {
    parallel_parts(rows, rows_a_part(classes), store_.step.threads, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        T *e = exps_.row(i), *d = dx.row(i);
        const auto target = static_cast<std::size_t>(targets_[i]);
        for_elements<T>(classes, r,
                        [&](std::size_t j, auto kind) { put(d + j, r(r(take(e + j, kind) / sums_[i]) * factor)); });
        d[target] = r(r(r(e[target] / sums_[i]) - 1) * factor);
      }
    });
  });
  roles_.input_gradients.round(dx.span(), store_.step);
}

template class CrossEntropy<float>;
template class CrossEntropy<double>;

}  // namespace narrow::train

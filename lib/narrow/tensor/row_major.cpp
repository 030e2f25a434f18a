#include "narrow/tensor/row_major.hpp"

#include <algorithm>
#include <cstring>

#include "narrow/base/error.hpp"

namespace narrow {

std::vector<std::uint64_t> indices_of(std::uint64_t flat, std::span<const std::uint64_t> shape) {
  std::vector<std::uint64_t> indices(shape.size());
  for (std::size_t k = shape.size(); k-- > 0;) {
    indices[k] = shape[k] == 0 ? 0 : flat % shape[k];
    flat = shape[k] == 0 ? 0 : flat / shape[k];
  }
  return indices;
}

namespace {

// Element (i0, i1, ..) of C order lies at i0 + shape0 * (i1 + shape1 * (..)) in Fortran's.
class Transposed : public ByteSource {
 public:
  Transposed(const Tensor& tensor)
      : shape_(tensor.shape), size_(static_cast<std::uint64_t>(tensor.type.bits) / 8), source_(tensor.source) {
    std::uint64_t step = 1;
    for (const std::uint64_t n : shape_) stride_.push_back(step), step *= n;
    if (!source_->mapped().empty() || tensor.bytes() == 0) return;
    copy_.resize(tensor.bytes());
    source_->read(0, copy_);
  }

  // Offsets in the middle of an element are possible: complex elements are read by halves.
  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    if (out.empty()) return;
    const std::span<const std::byte> from = copy_.empty() ? source_->mapped() : std::span<const std::byte>(copy_);
    std::vector<std::uint64_t> index = indices_of(offset / size_, shape_);
    std::uint64_t at = 0;
    for (std::size_t k = 0; k < index.size(); ++k) at += index[k] * stride_[k];
    for (std::size_t done = 0; done < out.size();) {
      const std::uint64_t inside = (offset + done) % size_;
      const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(size_ - inside, out.size() - done));
      if (at * size_ + inside + n > from.size()) throw Error("tensor data ends before its last element");
      std::memcpy(out.data() + done, from.data() + at * size_ + inside, n);
      done += n;
      if (inside + n < size_) break;
      for (std::size_t k = shape_.size(); k-- > 0;) {  // the next index of C order
        at += stride_[k];
        if (++index[k] < shape_[k]) break;
        at -= stride_[k] * shape_[k];
        index[k] = 0;
      }
    }
  }

 private:
  std::vector<std::uint64_t> shape_, stride_;
  std::uint64_t size_;
  std::shared_ptr<const ByteSource> source_;
  std::vector<std::byte> copy_;
};

}  // namespace

Tensor row_major(const Tensor& tensor) {
  if (!tensor.column_major) return tensor;
  Tensor out = tensor;
  out.column_major = false;
  const auto long_dimensions = std::count_if(tensor.shape.begin(), tensor.shape.end(), [](auto n) { return n != 1; });
  if (long_dimensions < 2 || tensor.elements() == 0) return out;  // one order only
  out.source = std::make_shared<Transposed>(tensor);
  return out;
}

}  // namespace narrow

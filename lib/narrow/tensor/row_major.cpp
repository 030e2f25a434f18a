#include "narrow/tensor/tensor.hpp"

#include <algorithm>
#include <cstring>

#include "narrow/base/error.hpp"
#include "narrow/tensor/mapped_file.hpp"

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

// Element (i0, i1, ..) of C order lies at i0 + shape0 * (i1 + shape1 * (..)) in Fortran's. A piece of C order is cut
// into boxes (some i_k, everything behind k), and each box is walked in the order of the source, so that a file is read
// forwards, once a box.
class Transposed : public ByteSource {
 public:
  Transposed(const Tensor& tensor)
      : shape_(tensor.shape),
        inner_(tensor.shape.size(), 1),
        size_(static_cast<std::size_t>(tensor.type.bits) / 8),
        source_(tensor.source) {
    std::uint64_t step = 1;
    for (const std::uint64_t n : shape_) stride_.push_back(step), step *= n;
    for (std::size_t k = shape_.size(); k-- > 1;) inner_[k - 1] = inner_[k] * shape_[k];
    if (!source_->mapped().empty()) return;
    if (tensor.bytes() > largest_copy) {
      file_ = MappedFile::copy_of(*source_, tensor.bytes());
    } else {
      copy_.resize(tensor.bytes());
      source_->read(0, copy_);
    }
  }

  // Offsets in the middle of an element are possible: complex elements are read by halves.
  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    if (out.empty()) return;
    const std::uint64_t first = offset / size_, end = (offset + out.size() + size_ - 1) / size_;
    if (source_bytes().size() / size_ < inner_[0] * shape_[0] || end > inner_[0] * shape_[0])
      throw Error("tensor data ends before its last element");
    if (offset % size_ == 0 && out.size() % size_ == 0) return copy_range(0, 0, first, end - first, out.data());
    std::vector<std::byte> whole((end - first) * size_);
    copy_range(0, 0, first, end - first, whole.data());
    std::memcpy(out.data(), whole.data() + offset % size_, out.size());
  }
  void check() const override { source_->check(); }

 private:
  static constexpr std::uint64_t largest_copy = std::uint64_t{1} << 26;    // kept in memory
  static constexpr std::ptrdiff_t forget_after = std::ptrdiff_t{1} << 25;  // of the source, as the walk goes on

  std::span<const std::byte> source_bytes() const {
    return file_ ? file_->bytes() : copy_.empty() ? source_->mapped() : std::span<const std::byte>(copy_);
  }

  // Elements [first, first + count) in the C order of the dimensions from k on; base: the index of their first in the
  // source.
  void copy_range(std::size_t k, std::uint64_t base, std::uint64_t first, std::uint64_t count, std::byte* to) const {
    const std::uint64_t inner = inner_[k];
    if (first % inner != 0 || count < inner) {
      const std::uint64_t n = std::min(count, inner - first % inner);
      copy_range(k + 1, base + first / inner * stride_[k], first % inner, n, to);
      first += n, count -= n, to += n * size_;
    }
    if (const std::uint64_t full = count / inner; full > 0) {
      copy_box(k, base + first / inner * stride_[k], full, to);
      first += full * inner, count -= full * inner, to += full * inner * size_;
    }
    if (count > 0) copy_range(k + 1, base + first / inner * stride_[k], 0, count, to);
  }

  void copy_box(std::size_t k, std::uint64_t base, std::uint64_t full, std::byte* to) const {
    switch (size_) {
      case 1: return copy_box_of<1>(k, base, full, to);
      case 2: return copy_box_of<2>(k, base, full, to);
      case 4: return copy_box_of<4>(k, base, full, to);
      default: return copy_box_of<8>(k, base, full, to);
    }
  }

  template <std::size_t size>
  void copy_box_of(std::size_t k, std::uint64_t base, std::uint64_t full, std::byte* to) const {
    // Tiles of two dimensions: the lines that they write stay in the first cache until they are full.
    constexpr std::uint64_t tile = 16;
    const std::byte* from = source_bytes().data() + base * size;
    const std::byte* forgotten = from;
    const bool has_next = k + 1 < shape_.size();
    const std::uint64_t rows_from = stride_[k] * size, rows_to = inner_[k] * size;
    const std::uint64_t cols = has_next ? shape_[k + 1] : 1, cols_from = has_next ? stride_[k + 1] * size : 0,
                        cols_to = has_next ? inner_[k + 1] * size : 0;
    std::vector<std::uint64_t> index(shape_.size(), 0);
    for (std::size_t m = 0; m < shape_.size();) {
      for (std::uint64_t col = 0; col < cols; col += tile) {
        for (std::uint64_t row = 0; row < full; row += tile)
          for (std::uint64_t j = col; j < std::min(col + tile, cols); ++j)
            for (std::uint64_t i = row; i < std::min(row + tile, full); ++i)
              std::memcpy(to + i * rows_to + j * cols_to, from + i * rows_from + j * cols_from, size);
        const std::byte* here = from + col * cols_from;
        if (file_ && here - forgotten > forget_after) file_->forget(), forgotten = here;
      }
      for (m = k + 2; m < shape_.size(); ++m) {  // the next of the dimensions behind, the first of them running fastest
        from += stride_[m] * size, to += inner_[m] * size;
        if (++index[m] < shape_[m]) break;
        from -= stride_[m] * shape_[m] * size, to -= inner_[m] * shape_[m] * size;
        index[m] = 0;
      }
    }
    if (file_) file_->forget();
  }

  std::vector<std::uint64_t> shape_, stride_, inner_;  // inner: elements behind one index of C order
  std::size_t size_;
  std::shared_ptr<const ByteSource> source_;
  std::vector<std::byte> copy_;
  std::shared_ptr<const MappedFile> file_;
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

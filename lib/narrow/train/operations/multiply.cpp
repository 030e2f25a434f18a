#include "narrow/train/operations/multiply.hpp"

#include <algorithm>
#include <list>
#include <mutex>
#include <vector>

#include "narrow/simd/carrier_lanes.hpp"
#include "narrow/train/operations/parts.hpp"

namespace narrow::train {

namespace {

// A tile of C lives in registers while k runs: 8 rows x 2 vectors are 16 accumulators. SSE has 16 registers in all.
#if defined(__x86_64__)
constexpr std::size_t tile_rows = 4;
#else
constexpr std::size_t tile_rows = 8;
#endif
template <class T>
constexpr std::size_t tile_cols = 2 * lanes_of<T>;

constexpr std::size_t divide_up(std::size_t n, std::size_t by) { return (n + by - 1) / by; }

// `width` lines of a matrix side by side, k after k: what a tile reads runs through memory. Missing lines are zeros.
template <std::size_t Width, class T>
void pack(const T* from, std::size_t lines, std::size_t line_stride, std::size_t k, std::size_t k_stride, T* to) {
  if (lines == Width && line_stride == 1) {
    for (std::size_t i = 0; i < k; ++i) std::copy_n(from + i * k_stride, Width, to + i * Width);
    return;
  }
  if (lines < Width) std::fill_n(to, k * Width, T{0});
  for (std::size_t line = 0; line < lines; ++line)
    for (std::size_t i = 0; i < k; ++i) to[i * Width + line] = from[line * line_stride + i * k_stride];
}

template <class T>
void multiply_tile(const T* a, const T* b, std::size_t k, T (&sums)[tile_rows][tile_cols<T>]) {
  using V = LanesOf<T>;
  V acc[tile_rows][2] = {};
  for (std::size_t i = 0; i < k; ++i, a += tile_rows, b += tile_cols<T>) {
    const V left = load(b), right = load(b + lanes_of<T>);
    for (std::size_t r = 0; r < tile_rows; ++r) {
      acc[r][0] = acc[r][0] + a[r] * left;
      acc[r][1] = acc[r][1] + a[r] * right;
    }
  }
  std::memcpy(sums, acc, sizeof sums);
}

// Memory for an operand, kept for the next product. Not thread_local: where no memory is left to note its destructor,
// glibc ends the program.
template <class T, int operand>
class Scratch {
 public:
  explicit Scratch(std::size_t size) {
    {
      const std::lock_guard hold(lock);
      if (!kept.empty()) mine_.splice(mine_.end(), kept, kept.begin());
    }
    if (mine_.empty()) mine_.emplace_back();
    if (mine_.front().size() < size) mine_.front().resize(size);
  }
  ~Scratch() {
    const std::lock_guard hold(lock);
    kept.splice(kept.begin(), mine_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  T* data() { return mine_.front().data(); }

 private:
  static inline std::mutex lock;
  static inline std::list<std::vector<T>> kept;
  std::list<std::vector<T>> mine_;  // one
};

// Rows [first, last) of C, with B packed.
template <class T>
void multiply_rows(const Matrix<const T>& a, const T* packed_b, std::size_t cols, const Matrix<T>& c, std::size_t first,
                   std::size_t last) {
  const std::size_t k = a.cols, panels = divide_up(cols, tile_cols<T>), row_tiles = divide_up(last - first, tile_rows);
  Scratch<T, 0> packed_a(row_tiles * tile_rows * k);
  for (std::size_t tile = 0; tile < row_tiles; ++tile) {
    const std::size_t row = first + tile * tile_rows;
    pack<tile_rows>(a.data + row * a.row_stride, std::min(tile_rows, last - row), a.row_stride, k, a.col_stride,
                    packed_a.data() + tile * tile_rows * k);
  }
  for (std::size_t panel = 0; panel < panels; ++panel)
    for (std::size_t tile = 0; tile < row_tiles; ++tile) {
      T sums[tile_rows][tile_cols<T>];
      multiply_tile(packed_a.data() + tile * tile_rows * k, packed_b + panel * tile_cols<T> * k, k, sums);
      const std::size_t row = first + tile * tile_rows, col = panel * tile_cols<T>;
      const std::size_t height = std::min(tile_rows, last - row), width = std::min(tile_cols<T>, cols - col);
      for (std::size_t r = 0; r < height; ++r) {
        if (c.col_stride == 1) std::copy_n(sums[r], width, &c(row + r, col));
        else
          for (std::size_t j = 0; j < width; ++j) c(row + r, col + j) = sums[r][j];
      }
    }
}

template <class T>
void multiply_any(const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& c, int threads) {
  const std::size_t k = a.cols, panels = divide_up(b.cols, tile_cols<T>);
  Scratch<T, 1> packed_b(panels * tile_cols<T> * k);
  T* const packed = packed_b.data();
  parallel_parts(panels, rows_a_part(tile_cols<T> * k), threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t panel = begin; panel < end; ++panel) {
      const std::size_t col = panel * tile_cols<T>;
      pack<tile_cols<T>>(b.data + col * b.col_stride, std::min(tile_cols<T>, b.cols - col), b.col_stride, k,
                         b.row_stride, packed + col * k);
    }
  });
  const std::size_t at_once = divide_up(std::min<std::size_t>(lines_a_part(k * b.cols), 64), tile_rows) * tile_rows;
  parallel_parts(a.rows, at_once, threads,
                 [&](std::size_t first, std::size_t last) { multiply_rows(a, packed, b.cols, c, first, last); });
}

}  // namespace

void multiply(const Matrix<const float>& a, const Matrix<const float>& b, const Matrix<float>& c, int threads) {
  multiply_any(a, b, c, threads);
}
void multiply(const Matrix<const double>& a, const Matrix<const double>& b, const Matrix<double>& c, int threads) {
  multiply_any(a, b, c, threads);
}

}  // namespace narrow::train

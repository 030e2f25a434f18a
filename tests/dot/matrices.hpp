// Matrices of codes in the widths that gemm() takes, in any layout and with gaps between the lines.
#pragma once

#include <cstring>

#include "dot/problems.hpp"
#include "narrow/dot/gemm.hpp"

namespace test {

inline bool is_tf32(const Format& f) {
  static const Format tf32 = narrow::find_format("tf32").value();
  return f == tf32;
}

// Bytes of a code in a matrix: TF32 travels as a 32-bit word.
inline int code_bytes(const Format& f) {
  const int width = is_tf32(f) ? 32 : oracle::width(f);
  return width <= 8 ? 1 : width <= 16 ? 2 : width <= 32 ? 4 : 8;
}

class Matrix {
 public:
  Matrix(std::size_t rows, std::size_t cols, int bytes, narrow::Layout layout = narrow::Layout::row_major,
         std::size_t gap = 0)
      : rows_(rows),
        cols_(cols),
        bytes_(bytes),
        layout_(layout),
        pitch_((layout == narrow::Layout::row_major ? cols : rows) + gap),
        data_((layout == narrow::Layout::row_major ? rows : cols) * pitch_ * static_cast<std::size_t>(bytes) + 1,
              0xA5) {}

  void set(std::size_t i, std::size_t j, Code code) {
    std::memcpy(&data_[at(i, j)], &code, static_cast<std::size_t>(bytes_));
  }
  Code get(std::size_t i, std::size_t j) const {
    Code code = 0;
    std::memcpy(&code, &data_[at(i, j)], static_cast<std::size_t>(bytes_));
    return code;
  }
  narrow::CodeMatrix codes() const { return {data_.data(), bytes_, rows_, cols_, pitch_, layout_}; }
  template <class U>
  narrow::MatrixView<U> view() {
    return {reinterpret_cast<U*>(data_.data()), rows_, cols_, pitch_, layout_};
  }
  std::size_t rows() const { return rows_; }
  std::size_t cols() const { return cols_; }
  int bytes() const { return bytes_; }
  // Whether the gaps between the lines are as they were.
  bool gaps_intact() const {
    const bool by_rows = layout_ == narrow::Layout::row_major;
    const auto bytes = static_cast<std::size_t>(bytes_);
    const std::size_t lines = by_rows ? rows_ : cols_, used = (by_rows ? cols_ : rows_) * bytes;
    for (std::size_t line = 0; line < lines; ++line)
      for (std::size_t x = line * pitch_ * bytes + used; x < (line + 1) * pitch_ * bytes; ++x)
        if (data_[x] != 0xA5) return false;
    return true;
  }

 private:
  // The memory of a vector is aligned for every code.
  std::size_t at(std::size_t i, std::size_t j) const {
    return (layout_ == narrow::Layout::row_major ? i * pitch_ + j : j * pitch_ + i) * static_cast<std::size_t>(bytes_);
  }
  std::size_t rows_, cols_;
  int bytes_;
  narrow::Layout layout_;
  std::size_t pitch_;
  std::vector<std::uint8_t> data_;
};

// The word of an operand in a matrix: TF32 with noise in the 13 bits that nobody reads.
inline Code matrix_code(Code code, const Format& f, std::uint64_t noise) {
  return is_tf32(f) ? code << 13 | (mix(noise + code) & 0x1FFF) : code;
}

struct Layouts {
  narrow::Layout a = narrow::Layout::row_major, b = narrow::Layout::column_major, c = narrow::Layout::row_major,
                 d = narrow::Layout::row_major;
  std::size_t gap = 0;
};

struct Matrices {
  Matrix a, b, c;
  std::vector<std::uint8_t> block_a, block_b;

  Matrices(const DotModel& m, const Problem& p, const Layouts& l = {})
      : a(p.rows, p.k, code_bytes(m.a.format), l.a, l.gap),
        b(p.k, p.cols, code_bytes(m.b.format), l.b, l.gap),
        c(p.rows, p.cols, code_bytes(m.accumulator.format), l.c, l.gap) {
    for (std::size_t i = 0; i < p.rows; ++i)
      for (std::size_t k = 0; k < p.k; ++k) a.set(i, k, matrix_code(p.a[i * p.k + k], m.a.format, i + k));
    for (std::size_t j = 0; j < p.cols; ++j)
      for (std::size_t k = 0; k < p.k; ++k) b.set(k, j, matrix_code(p.b[j * p.k + k], m.b.format, j + k));
    for (std::size_t i = 0; i < p.rows; ++i)
      for (std::size_t j = 0; j < p.cols; ++j) c.set(i, j, p.c[i * p.cols + j]);
    block_a.assign(p.scale_a.begin(), p.scale_a.end());
    block_b.assign(p.scale_b.begin(), p.scale_b.end());
  }
};

// gemm into a matrix of the output's width.
inline void run_gemm(const DotModel& m, const narrow::Plan& plan, const narrow::CodeMatrix& a,
                     const narrow::CodeMatrix& b, const narrow::CodeMatrix& c, Matrix& d,
                     const narrow::GemmOptions& options) {
  switch (d.bytes()) {
    case 1: return narrow::gemm(m, plan, a, b, c, d.view<std::uint8_t>(), options);
    case 2: return narrow::gemm(m, plan, a, b, c, d.view<std::uint16_t>(), options);
    case 4: return narrow::gemm(m, plan, a, b, c, d.view<std::uint32_t>(), options);
    default: return narrow::gemm(m, plan, a, b, c, d.view<std::uint64_t>(), options);
  }
}

inline Matrix product(const DotModel& m, const narrow::Plan& plan, const Matrices& x, bool with_c = true,
                      narrow::GemmOptions options = {}, const Layouts& l = {}) {
  const Format output = options.output.value_or(m.accumulator.format);
  Matrix d(x.a.rows(), x.b.cols(), code_bytes(output), l.d, l.gap);
  if (m.is_block_scaled()) options.block_a = x.block_a, options.block_b = x.block_b;
  run_gemm(m, plan, x.a.codes(), x.b.codes(), with_c ? x.c.codes() : narrow::CodeMatrix{}, d, options);
  return d;
}

}  // namespace test

#include "products/product_options.hpp"

#include <cmath>

#include "narrow/tensor/tensor.hpp"
#include "narrow/tensor/tensor_file.hpp"
#include "narrow/text/exact_number.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/text.hpp"
#include "options/tensor_text.hpp"

namespace app {
namespace {

std::string shape_of(const LoadedMatrix& m) { return std::to_string(m.rows) + "x" + std::to_string(m.cols); }

std::size_t blocks_of(std::size_t n, std::size_t block) { return (n + block - 1) / block; }

bool is_number(const std::string& text) {
  try {
    (void)narrow::parse_number(text);
    return true;
  } catch (const narrow::Error&) {
    return false;
  }
}

// A scale file as lines (rows of A, columns of B) times parts of K, K running fastest.
struct ScaleGrid {
  narrow::Tensor tensor;  // in C order
  std::size_t lines = 1, parts = 1;
  bool turned = false;  // the file has K first
};

// A's scales stand like A (rows, K), B's like B (K, columns); a vector has one for each row of A, or column of B.
ScaleGrid open_scales(const char* flag, const std::string& file, bool is_b, bool transposed) {
  ScaleGrid grid{blame(flag, [&] { return narrow::row_major(narrow::open_tensor(file)); }), 1, 1, is_b != transposed};
  const std::vector<std::uint64_t>& shape = grid.tensor.shape;
  if (shape.size() > 2)
    throw narrow::Error(std::string(flag) + ": " + narrow::quote(file) + " has the shape " + shape_text(shape) +
                        "; scales are one number, a vector or a matrix");
  if (grid.tensor.elements() == 0) throw narrow::Error(std::string(flag) + ": " + narrow::quote(file) + " is empty");
  if (shape.size() == 1) grid.lines = static_cast<std::size_t>(shape[0]);
  if (shape.size() == 2) {
    grid.lines = static_cast<std::size_t>(shape[grid.turned ? 1 : 0]);
    grid.parts = static_cast<std::size_t>(shape[grid.turned ? 0 : 1]);
  }
  grid.turned = grid.turned && shape.size() == 2;
  return grid;
}

template <class T>
std::vector<T> ordered(const ScaleGrid& grid, const std::vector<T>& in) {
  if (!grid.turned) return in;
  std::vector<T> out(in.size());
  for (std::size_t line = 0; line < grid.lines; ++line)
    for (std::size_t part = 0; part < grid.parts; ++part) out[line * grid.parts + part] = in[part * grid.lines + line];
  return out;
}

// How many rows (or how much of K) share a scale: all of them, one, or 128.
std::size_t shared_by(const char* flag, const std::string& file, std::size_t scales, std::size_t n, const char* what,
                      bool one_each) {
  constexpr std::size_t block = 128;
  if (scales == 1) return 0;
  if (one_each && scales == n) return 1;
  if (scales == blocks_of(n, block)) return block;
  throw narrow::Error(std::string(flag) + ": " + narrow::quote(file) + " has " + std::to_string(scales) +
                      " scales for " + std::to_string(n) + " " + what + "; right are 1, " +
                      (one_each ? std::to_string(n) + ", " : "") + "or " + std::to_string(blocks_of(n, block)) +
                      " (one for each 128)");
}

struct ScaleTarget {
  std::vector<float>& values;
  std::vector<std::uint8_t>& blocks;
  narrow::OperandScales& scales;
  std::span<const std::uint8_t>& block_codes;
};

void load_scales(const char* flag, const std::string& text, bool is_b, const MatrixFlags& of, std::size_t lines,
                 std::size_t k, const ScaleTarget& to) {
  if (is_number(text)) {
    to.values = {parse_float(flag, text)};
    to.scales = {to.values, 0, 0};
    return;
  }
  const ScaleGrid grid = open_scales(flag, text, is_b, of.transpose);
  const auto count = static_cast<std::size_t>(grid.tensor.elements());
  const char* line_name = is_b ? "columns of B" : "rows of A";
  if (grid.tensor.type.bits == 8) {  // codes of a block-scaled model: e8m0 or e4m3, each row its own
    std::vector<std::uint8_t> codes(count);
    blame(flag, [&] { return narrow::read_codes(grid.tensor, 0, std::span(codes)), 0; });
    if (grid.lines != lines)
      throw narrow::Error(std::string(flag) + ": " + narrow::quote(text) + " has the shape " +
                          shape_text(grid.tensor.shape) + " for " + std::to_string(lines) + " " + line_name);
    to.blocks = ordered(grid, codes);
    to.block_codes = to.blocks;
    return;
  }
  if (!grid.tensor.type.has_format())
    throw narrow::Error(std::string(flag) + ": " + narrow::quote(text) + " holds " +
                        std::string(grid.tensor.type.name) +
                        "; scales are F32, or U8 and F8 codes for block-scaled models");
  std::vector<float> values(count);
  blame(flag, [&] { return narrow::read_values(grid.tensor, 0, std::span(values)), 0; });
  to.values = ordered(grid, values);
  to.scales = {to.values, shared_by(flag, text, grid.lines, lines, line_name, true),
               shared_by(flag, text, grid.parts, k, "of K", false)};
}

void require(const MatrixFlags& flags, const char* command) {
  if (!flags.file)
    throw narrow::Error(std::string(command) + ": " + flags.name + " is missing; for example " + flags.name +
                        " matrices.safetensors:" + (flags.name + 2));
}

}  // namespace

void ProductOptions::declare(Arguments& arguments) {
  arguments.option("--model", model, "NAME", "a model of narrow models");
  arguments.option("--plan", plan, "PLAN",
                   "chain, promote:128, split:1408, slice:4, even:3, blocks:128, streamk:132; then ,pairwise ,reversed "
                   ",halving ,stored ,serial "
                   ",output ,rne ,rna ,run=8 ,tile=128x128x64 ,residue=64 ,c=first ,c=last ,c=after");
  arguments.option("--a", a.file, "FILE",
                   "A, m x k: FILE or FILE:TENSOR (.npy, .npz, .safetensors); a third dimension in front is a batch");
  arguments.option("--b", b.file, "FILE", "B, k x n");
  arguments.option("--c", c.file, "FILE", "C, m x n, or a bias of n numbers, one a column (default zero)");
  arguments.option("--a-format", a.format, "F", "what integers in A are codes of: bf16, e4m3, tf32, ...");
  arguments.option("--b-format", b.format, "F", "the same for B");
  arguments.option("--c-format", c.format, "F", "the same for C");
  arguments.flag("--transpose-a", a.transpose, "the file holds A transposed, k x m");
  arguments.flag("--transpose-b", b.transpose, "the file holds B transposed, n x k");
  arguments.option("--alpha", alpha, "X", "D = alpha * (A B) + beta * C (default 1)");
  arguments.option("--beta", beta, "X", "(default 1)");
  arguments.option("--scale-a", scale_a, "X|FILE",
                   "scales of A: a number, one for each row, 1x128 or 128x128 blocks; codes for block-scaled models");
  arguments.option("--scale-b", scale_b, "X|FILE", "scales of B, K first");
  arguments.option("--epilogue", epilogue, "WORDS",
                   "what follows the sum, joined by +: bias (C has one row), round (to D's format), then relu, gelu, "
                   "gelu_tanh or silu, in FP32");
  arguments.option("--threads", threads, "N", "threads (default: all cores); the bits do not depend on it");
}

float parse_float(const char* flag, const std::string& text) {
  const auto f = narrow::operator""_fmt("fp32", 4);
  const auto code = blame(flag, [&] { return narrow::parse_value(text, f); });
  const auto x = static_cast<float>(narrow::decode(code, f));
  if (!std::isfinite(x))
    throw narrow::Error(std::string(flag) + ": " + narrow::quote(text) + " is no finite FP32 number");
  return x;
}

int parse_threads(const std::optional<std::string>& text) {
  if (!text) return 0;
  int n = 0;
  for (const char c : *text) n = c >= '0' && c <= '9' && n < 100000 ? 10 * n + (c - '0') : 1000000;
  if (text->empty() || n < 1 || n > 1024)
    throw narrow::Error("--threads: " + narrow::quote(*text) + "; accepted: 1 to 1024");
  return n;
}

void load_product(const ProductOptions& options, const char* command, ProductInputs& in) {
  require(options.a, command);
  require(options.b, command);
  if (options.alpha) in.options.alpha = parse_float("--alpha", *options.alpha);
  if (options.beta) in.options.beta = parse_float("--beta", *options.beta);
  in.options.threads = parse_threads(options.threads);
  MatrixFlags a = options.a, b = options.b;
  a.scales = options.scale_a.has_value(), b.scales = options.scale_b.has_value();
  in.a = load_matrix(a);
  in.b = load_matrix(b);
  if (in.a.cols != in.b.rows) {
    const bool turned = in.a.cols == in.b.cols;
    throw narrow::Error(std::string(command) + ": A is " + shape_of(in.a) + " and B is " + shape_of(in.b) +
                        ": A must have as many columns as B has rows" +
                        (turned ? "; --transpose-b would do that" : ""));
  }
  const auto fits_batch = [&](const LoadedMatrix& m, const char* name) {
    if (m.items != 1 && m.items != in.items())
      throw narrow::Error(std::string(command) + ": " + name + " has " + std::to_string(m.items) +
                          " matrices and the others have " + std::to_string(in.items()));
  };
  fits_batch(in.a, "A"), fits_batch(in.b, "B");
  constexpr std::size_t most = std::size_t{1} << 30;  // D is not in any file: two thin matrices could ask for any size
  if (in.a.rows > most / in.b.cols / in.items())
    throw narrow::Error(std::string(command) + ": D would be " + std::to_string(in.a.rows) + "x" +
                        std::to_string(in.b.cols) + "; at most 2^30 outputs");
  if (options.c.file) {
    in.c = load_matrix(options.c, in.a.rows);
    if (in.c->rows != in.a.rows || in.c->cols != in.b.cols)
      throw narrow::Error(
          std::string(command) + ": A B is " + std::to_string(in.a.rows) + "x" + std::to_string(in.b.cols) +
          (in.c->one_row_for_all ? " and the bias has " + std::to_string(in.c->cols) + " numbers: it has one a column"
                                 : " and C is " + shape_of(*in.c)));
    if (in.c->items > in.items())
      throw narrow::Error(std::string(command) + ": C has " + std::to_string(in.c->items) +
                          " matrices, A and B have one");
    fits_batch(*in.c, "C");
    in.options.c_format = in.c->format;
  } else if (options.c.format || (options.beta && command == std::string_view("gemm"))) {
    throw narrow::Error(std::string(options.beta ? "--beta" : "--c-format") + ": there is no --c");
  }
  narrow::GemmOptions& o = in.options;
  if (options.scale_a)
    load_scales("--scale-a", *options.scale_a, false, options.a, in.a.rows, in.a.cols,
                {in.scales_a, in.blocks_a, o.scale_a, o.block_a});
  if (options.scale_b)
    load_scales("--scale-b", *options.scale_b, true, options.b, in.b.cols, in.a.cols,
                {in.scales_b, in.blocks_b, o.scale_b, o.block_b});
}

std::size_t ProductInputs::items() const { return std::max(a.items, b.items); }

std::string product_shape(const ProductInputs& in) {
  const std::string batch = in.items() > 1 ? std::to_string(in.items()) + " times " : "";
  return batch + std::to_string(in.a.rows) + "x" + std::to_string(in.b.cols) + " = " + shape_of(in.a) + " * " +
         shape_of(in.b);
}

}  // namespace app

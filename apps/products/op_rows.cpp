// Operations whose operands are rows: their files read, their shapes held against each other, the variants that take them.
#include <cmath>
#include <memory>

#include "narrow/special/operation.hpp"
#include "products/op_loaders.hpp"

namespace app {
namespace of_operation {

std::vector<float> values_of(const Tensor& t, const char* flag) {
  std::vector<float> values(count_of(t));
  blame(flag, [&] { return narrow::read_values(t, 0, std::span(values)), 0; });
  return values;
}

std::vector<std::int64_t> load_target(const MatrixFlags& flags, const Shape& x) {
  Tensor t = open_operand(flags);
  const bool is_signed = t.type.kind == narrow::ElementKind::signed_integer;
  if (!is_signed && t.type.kind != narrow::ElementKind::unsigned_integer)
    throw Error(held_by(flags, t) + "; targets are integers, a column for each row of x");
  Shape rows = without_last(x), given = t.shape;
  std::erase(rows, 1u), std::erase(given, 1u);
  if (rows != given)
    throw Error(std::string(flags.name) + ": " + narrow::quote(*flags.file) + " has the shape " + shape_text(t.shape) +
                " and x " + shape_text(x) + ": a column for each row of x is needed");
  t = narrow::row_major(t);
  std::vector<std::uint64_t> words(count_of(t));
  blame(flags.name, [&] { return narrow::read_codes(t, 0, std::span(words)), 0; });
  std::vector<std::int64_t> targets;
  const int unused = is_signed ? 64 - t.type.bits : 0;
  for (const std::uint64_t word : words) targets.push_back(static_cast<std::int64_t>(word << unused) >> unused);
  return targets;
}

// The spans of the request point into the vectors.
struct RowData {
  narrow::OperationRequest request;
  std::vector<float> x, w, b, g;
  std::vector<std::int64_t> target;
};

// Of the result, whose first operand has the shape `first`.
Shape shape_of_rows(const std::string& name, const Shape& first, const narrow::OperationRequest& r) {
  if (name == "sum" || name == "mean") return without_last(first);
  if (name == "cross_entropy") return {};
  if (name == "embedding_backward") return {r.words, r.cols};
  if (name == "sum_rows" || name.ends_with("_w") || name.ends_with("_b")) return {r.cols};
  return first;
}

std::size_t parse_words(const std::string& text) {
  const double words = parse_double("--words", text);
  if (!(words >= 1 && words <= 0x1p31) || words != std::floor(words))
    throw Error("--words: " + narrow::quote(text) + " is no number of words; the rows of the table, for example 50257");
  return static_cast<std::size_t>(words);
}

LoadedOperation load_rows(const OperationFlags& flags) {
  const bool has_x = flags.x.file.has_value();  // gradients that do not ask for it have g alone
  const Tensor x = load_operand(has_x ? flags.x : flags.g);
  const auto data = std::make_shared<RowData>();
  narrow::OperationRequest& r = data->request;
  r.type = x.type.format, r.cols = cols_of(x), r.rows = count_of(x) / r.cols;
  r.threads = parse_threads(flags.threads);
  if (flags.eps) r.eps = parse_double("--eps", *flags.eps);
  bool mixed = false;  // a weight of another type: torch then composes rms_norm of other operations
  if (flags.w.file) {
    const Tensor w = flags.name == "rms_norm" ? load_operand(flags.w) : load_beside(flags.w, x, "x");
    mixed = !(w.type.format == r.type);
    data->w = values_of(w, "--w");
  }
  if (flags.b.file) data->b = values_of(load_beside(flags.b, x, "x"), "--b");
  if (has_x && flags.g.file) {
    const Tensor g = load_beside(flags.g, x, "x");
    const bool one = flags.name == "cross_entropy_backward";  // the gradient of the loss
    if (one ? g.elements() != 1 : g.shape != x.shape)
      throw Error("--g: " + narrow::quote(*flags.g.file) + " has the shape " + shape_text(g.shape) +
                  (one ? "; the loss has one gradient" : " and x " + shape_text(x.shape) + ": they are the same"));
    data->g = values_of(g, "--g");
  }
  if (flags.words) r.words = parse_words(*flags.words);
  if (r.words > (std::size_t{1} << 30) / r.cols)  // the table is not in any file
    throw Error("--words: a table of " + std::to_string(r.words) + " rows of " + std::to_string(r.cols) +
                " numbers; at most 2^30 numbers");
  if (flags.target.file) data->target = load_target(flags.target, x.shape);
  for (const auto& [flag, values] : {std::pair{"--w", &data->w}, std::pair{"--b", &data->b}})
    if (!values->empty() && values->size() != r.cols)
      throw Error(std::string(flag) + ": it has " + std::to_string(values->size()) + " numbers and a row of x " +
                  std::to_string(r.cols));
  const std::size_t classes = flags.words ? r.words : r.cols;
  for (const std::int64_t t : data->target)
    if ((flags.words || t != r.ignore_index) && (t < 0 || static_cast<std::uint64_t>(t) >= classes))
      throw Error("--target: " + std::to_string(t) +
                  (flags.words ? " is no word of " : " is no column of x, which has ") + std::to_string(classes) +
                  (flags.words ? "" : "; rows that do not count have -100"));
  (has_x ? data->x : data->g) = values_of(x, has_x ? "--x" : "--g");
  r.x = data->x, r.w = data->w, r.b = data->b, r.g = data->g, r.target = data->target;

  LoadedOperation operation{flags.name, r.type, shape_of_rows(flags.name, x.shape, r), {}};
  std::vector<std::string_view> known;
  for (const narrow::OperationRow* row : narrow::operation_rows(flags.name)) {
    known.push_back(row->variant);
    const bool is_kernel = row->variant != "double" && row->variant != "exact";
    const std::string kernel = row->kernel(r);
    if (kernel.empty() || (mixed && is_kernel && row->variant != "torch-composite")) continue;
    operation.variants.push_back({std::string(row->variant), kernel, std::string(row->what), is_kernel, [data, row] {
                                    return narrow::run_operation(row->operation, row->variant, data->request);
                                  }});
  }
  choose(flags, known, operation);
  return operation;
}

}  // namespace of_operation
}  // namespace app

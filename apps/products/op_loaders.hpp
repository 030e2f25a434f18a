// What the loaders of operations share: of rows (norms, softmax and their gradients), attention and products.
#pragma once

#include "narrow/text/quote.hpp"
#include "narrow/text/text.hpp"
#include "options/tensor_text.hpp"
#include "products/op_request.hpp"
#include "products/product_options.hpp"

namespace app {
namespace of_operation {

using narrow::Error;
using narrow::Format;
using narrow::Tensor;
using Shape = std::vector<std::uint64_t>;

constexpr Format fp64 = narrow::operator""_fmt("fp64", 4), fp32 = narrow::operator""_fmt("fp32", 4),
                 tf32 = narrow::operator""_fmt("tf32", 4), fp16 = narrow::operator""_fmt("fp16", 4),
                 bf16 = narrow::operator""_fmt("bf16", 4);

inline std::size_t count_of(const Tensor& t) { return static_cast<std::size_t>(t.elements()); }
inline std::size_t cols_of(const Tensor& t) { return t.shape.empty() ? 1 : static_cast<std::size_t>(t.shape.back()); }
Shape without_last(Shape shape);

std::string held_by(const MatrixFlags& flags, const Tensor& t);  // "--x: 'FILE' holds F16"
double parse_double(const char* flag, const std::string& text);  // throws narrow::Error, as all that load

// Operands in other types than x has: a kernel reads one.
Tensor load_beside(const MatrixFlags& flags, const Tensor& first, const char* name);

// Of the variants that apply, the one that was asked for.
void choose(const OperationFlags& flags, const std::vector<std::string_view>& known, LoadedOperation& operation);

LoadedOperation load_rows(const OperationFlags& flags);
LoadedOperation load_attention(const OperationFlags& flags);

}  // namespace of_operation
}  // namespace app

#include "narrow/special/gpt_block.hpp"

#include <utility>

#include "narrow/array/array.hpp"
#include "narrow/base/error.hpp"
#include "narrow/base/float_environment.hpp"
#include "narrow/dot/gemm.hpp"
#include "narrow/special/attention.hpp"
#include "narrow/special/operation.hpp"
#include "narrow/special/operation_parts.hpp"

namespace narrow {

namespace {

using Codes = std::vector<std::uint16_t>;

std::vector<float> values_of(const Codes& codes, const Format& type) {
  std::vector<float> values(codes.size());
  decode_array(std::span<const std::uint16_t>(codes), type, std::span(values));
  return values;
}

Codes narrowed(const std::vector<std::uint32_t>& codes) { return {codes.begin(), codes.end()}; }

// What the block computes with: sizes, and every operation as a function of codes.
class BlockRun {
 public:
  BlockRun(const GptBlock& block, const GptArithmetic& how, std::size_t tokens)
      : block_(block), how_(how), tokens_(tokens) {
    const std::string operand = block.type == "bf16"_fmt ? "bf16" : "f16";
    model_ = find_dot_model(how.product + "." + operand + "." + operand);
    if (model_ == nullptr) throw Error("a block: no dot model '" + how.product + "." + operand + "." + operand + "'");
    plan_ = parse_plan(how.plan);
  }

  Codes norm(const std::string& variant, const Codes& x, const Codes& weight, const Codes& bias) const {
    const std::vector<float> values = values_of(x, block_.type), w = values_of(weight, block_.type),
                             b = values_of(bias, block_.type);
    return narrowed(run_operation("layer_norm", variant,
                                  {.type = block_.type,
                                   .rows = tokens_,
                                   .cols = block_.width,
                                   .x = values,
                                   .w = w,
                                   .b = b,
                                   .threads = how_.threads}));
  }
  Codes gelu(const Codes& x) const {
    const std::vector<float> values = values_of(x, block_.type);
    return narrowed(run_operation(
        "gelu_tanh", how_.gelu,
        {.type = block_.type, .rows = tokens_, .cols = x.size() / tokens_, .x = values, .threads = how_.threads}));
  }
  // x W^T + b, as nn.Linear: the bias joins the finished sum before it is rounded.
  Codes linear(const Codes& x, const Codes& weight, const Codes& bias) const {
    const std::size_t in = x.size() / tokens_, out = bias.size();
    Codes y(tokens_ * out);
    const CodeMatrix c{bias.data(), 2, tokens_, out, 0, Layout::row_major};  // pitch 0: one row for all
    gemm(*model_, plan_, code_matrix(MatrixView<const std::uint16_t>{x.data(), tokens_, in}),
         code_matrix(MatrixView<const std::uint16_t>{weight.data(), in, out, 0, Layout::column_major}), c,
         MatrixView<std::uint16_t>{y.data(), tokens_, out},
         {.output = block_.type, .c_format = block_.type, .threads = how_.threads});
    return y;
  }
  // Of rows with Q, K and V of all heads one behind the other; head by head.
  Codes attend(const Codes& qkv) const {
    const std::size_t width = block_.width, dim = width / block_.heads;
    Codes parts[3];
    for (std::size_t part = 0; part < 3; ++part)
      for (std::size_t head = 0; head < block_.heads; ++head)
        for (std::size_t token = 0; token < tokens_; ++token) {
          const auto from = qkv.begin() + static_cast<std::ptrdiff_t>((token * 3 + part) * width + head * dim);
          parts[part].insert(parts[part].end(), from, from + static_cast<std::ptrdiff_t>(dim));
        }
    return run_attention(how_.attention, {.type = block_.type,
                                          .heads = block_.heads,
                                          .kv_heads = block_.heads,
                                          .queries = tokens_,
                                          .keys = tokens_,
                                          .dim = dim,
                                          .q = parts[0],
                                          .k = parts[1],
                                          .v = parts[2],
                                          .causal = true,
                                          .threads = how_.threads});
  }
  Codes joined(const Codes& heads) const {
    const std::size_t width = block_.width, dim = width / block_.heads;
    Codes rows(heads.size());
    for (std::size_t i = 0; i < heads.size(); ++i) {
      const std::size_t head = i / dim / tokens_, token = i / dim % tokens_;
      rows[token * width + head * dim + i % dim] = heads[i];
    }
    return rows;
  }
  // In FP32, rounded once.
  Codes sum(const Codes& x, const Codes& branch) const {
    const std::vector<float> a = values_of(x, block_.type), b = values_of(branch, block_.type);
    Codes out(x.size());
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<std::uint16_t>(detail::store_code(a[i] + b[i], block_.type));
    return out;
  }

 private:
  const GptBlock& block_;
  const GptArithmetic& how_;
  const std::size_t tokens_;
  const DotModel* model_ = nullptr;
  Plan plan_ = {};
};

void check_block(const GptBlock& b, std::size_t inputs) {
  if (b.type != "bf16"_fmt && b.type != "fp16"_fmt) throw Error("a block: the type is fp16 or bf16");
  if (b.width == 0 || b.heads == 0 || b.width % b.heads != 0)
    throw Error("a block: the width is a multiple of the heads, not " + std::to_string(b.width) + " with " +
                std::to_string(b.heads) + " of them");
  if (inputs == 0 || inputs % b.width != 0)
    throw Error("a block: the input has " + std::to_string(inputs) + " numbers, no rows of " + std::to_string(b.width));
  const std::size_t w = b.width, inner = b.fc_bias.size();
  const auto is = [](const Codes& codes, std::size_t size) { return codes.size() == size; };
  if (inner == 0 || !is(b.norm1_weight, w) || !is(b.norm1_bias, w) || !is(b.qkv_weight, 3 * w * w) ||
      !is(b.qkv_bias, 3 * w) || !is(b.proj_weight, w * w) || !is(b.proj_bias, w) || !is(b.norm2_weight, w) ||
      !is(b.norm2_bias, w) || !is(b.fc_weight, inner * w) || !is(b.down_weight, w * inner) || !is(b.down_bias, w))
    throw Error("a block: the weights do not fit a width of " + std::to_string(w));
}

}  // namespace

std::vector<GptStage> run_gpt_block(const GptBlock& block, std::span<const std::uint16_t> x, const GptArithmetic& how) {
  check_block(block, x.size());
  const DefaultFloats guard;
  const BlockRun run(block, how, x.size() / block.width);
  std::vector<GptStage> stages;
  stages.reserve(10);  // references to earlier stages stay
  const auto keep = [&](const char* name, Codes codes) -> const Codes& {
    return stages.emplace_back(GptStage{name, std::move(codes)}).codes;
  };
  const Codes input(x.begin(), x.end());
  const Codes& norm1 = keep("norm1", run.norm(how.norm1, input, block.norm1_weight, block.norm1_bias));
  const Codes& qkv = keep("attention.qkv", run.linear(norm1, block.qkv_weight, block.qkv_bias));
  const Codes& heads = keep("attention.attend", run.attend(qkv));
  const Codes& proj = keep("attention.proj", run.linear(run.joined(heads), block.proj_weight, block.proj_bias));
  const Codes& sum1 = keep("sum1", run.sum(input, proj));
  const Codes& norm2 = keep("norm2", run.norm(how.norm2, sum1, block.norm2_weight, block.norm2_bias));
  const Codes& fc = keep("mlp.fc", run.linear(norm2, block.fc_weight, block.fc_bias));
  const Codes& gelu = keep("mlp.gelu", run.gelu(fc));
  const Codes& down = keep("mlp.proj", run.linear(gelu, block.down_weight, block.down_bias));
  keep("sum2", run.sum(sum1, down));
  return stages;
}

}  // namespace narrow

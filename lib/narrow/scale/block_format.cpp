#include "narrow/scale/block_format.hpp"

#include "narrow/base/error.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/text.hpp"

namespace narrow {

namespace {

constexpr Format e8m0 = "e8m0"_fmt, e4m3 = "e4m3"_fmt, e5m2 = "e5m2"_fmt, e2m1 = "e2m1"_fmt, fp32 = "fp32"_fmt,
                 int8 = "int8"_fmt, int4 = "int4"_fmt;

// A two's complement integer of `bits` bits times 2^(2 - bits): values from -2 to just below 2, emax 0.
constexpr Format fixed_point(int bits) noexcept {
  Format f = integer(bits, true);
  f.bias = 0;
  return f;
}
static_assert(fixed_point(8).min_quantum_exponent() == -6 && fixed_point(8).max_exponent() == 0);
static_assert(fixed_point(2).min_quantum_exponent() == 0);

constexpr std::string_view mx = "OCP MX 1.0, 2023";
constexpr std::string_view te = "TransformerEngine Float8BlockScaling; DeepGEMM";
constexpr std::string_view torchao = "torchao float8; TransformerEngine Float8CurrentScaling";
constexpr std::string_view ct = "compressed-tensors int-quantized";
constexpr ScaleRule fp8_rule = ScaleRule::te_current, block_rule = ScaleRule::te_block, int_rule = ScaleRule::ct_int;

constexpr BlockFormatRow table[] = {
    {"mxfp8_e4m3", {e4m3, e8m0, 1, 32, ScaleRule::ocp_floor}, "mxfp8", mx},
    {"mxfp8_e5m2", {e5m2, e8m0, 1, 32, ScaleRule::ocp_floor}, "", mx},
    {"mxfp6_e2m3", {"e2m3"_fmt, e8m0, 1, 32, ScaleRule::ocp_floor}, "mxfp6", mx},
    {"mxfp6_e3m2", {"e3m2"_fmt, e8m0, 1, 32, ScaleRule::ocp_floor}, "", mx},
    {"mxfp4", {e2m1, e8m0, 1, 32, ScaleRule::ocp_floor}, "mxfp4_e2m1", mx},
    {"mxint8", {fixed_point(8), e8m0, 1, 32, ScaleRule::ocp_floor}, "", mx},
    {"nvfp4", {e2m1, e4m3, 1, 16, ScaleRule::te_nvfp4}, "nvfp4_1x16", "TransformerEngine common/cast/nvfp4"},
    {"nvfp4_16x16", {e2m1, e4m3, 16, 16, ScaleRule::te_nvfp4}, "", "TransformerEngine common/cast/nvfp4 (weights)"},
    {"fp8_1x128", {e4m3, fp32, 1, 128, block_rule}, "fp8_1x128_e4m3", te},
    {"fp8_128x128", {e4m3, fp32, 128, 128, block_rule}, "fp8_128x128_e4m3", te},
    {"fp8_row_e4m3", {e4m3, fp32, 1, 0, fp8_rule}, "fp8_row fp8_rowwise", torchao},
    {"fp8_row_e5m2", {e5m2, fp32, 1, 0, fp8_rule}, "", torchao},
    {"fp8_tensor_e4m3", {e4m3, fp32, 0, 0, fp8_rule}, "fp8_tensor fp8_tensorwise", torchao},
    {"fp8_tensor_e5m2", {e5m2, fp32, 0, 0, fp8_rule}, "", torchao},
    {"int8_row", {int8, fp32, 1, 0, int_rule}, "int8_channel", ct},
    {"int8_tensor", {int8, fp32, 0, 0, int_rule}, "", ct},
    {"int4_1x32", {int4, fp32, 1, 32, int_rule}, "", "compressed-tensors pack-quantized"},
    {"int4_1x128", {int4, fp32, 1, 128, int_rule}, "", "compressed-tensors pack-quantized"},
};

bool is_called(const ScaleRuleRow& row, std::string_view name) {
  return detail::same_word(row.name, name) || detail::has_word(row.aliases, name);
}

// Two rules are for one kind of elements, and give the other one scales that no system has.
bool fits(const ScaleRuleRow& row, const BlockFormat& format) {
  if (row.scale != row_of(format.rule).scale) return false;
  if (row.rule == ScaleRule::ct_int) return format.element.is_integer();
  if (row.rule == ScaleRule::te_nvfp4_row) return format.block_rows == 1;
  return row.rule != ScaleRule::ct_fp8 || !format.element.is_integer();
}

// "bfp8x16".
std::optional<BlockFormat> parse_bfp(std::string_view name) {
  if (name.size() < 6 || !detail::same_word(name.substr(0, 3), "bfp")) return {};
  name.remove_prefix(3);
  const int bits = detail::take_number(name);
  if (bits < 2 || bits > 8 || name.empty() || detail::lower(name[0]) != 'x') return {};
  name.remove_prefix(1);
  constexpr std::size_t largest_block = std::size_t{1} << 20;
  std::size_t block = 0;
  for (const char c : name) {
    if (c < '0' || c > '9') return {};
    block = block * 10 + static_cast<std::size_t>(c - '0');
    if (block > largest_block) return {};
  }
  if (block == 0 || name.front() == '0') return {};
  return BlockFormat{fixed_point(bits), e8m0, 1, block, ScaleRule::ocp_floor};
}

std::optional<BlockFormat> find_without_rule(std::string_view name) {
  for (const BlockFormatRow& row : table)
    if (detail::same_word(row.name, name) || detail::has_word(row.aliases, name)) return row.format;
  return parse_bfp(name);
}

std::string list(const std::vector<std::string_view>& words) {
  std::string text;
  for (const std::string_view word : words) text += (text.empty() ? "" : " ") + std::string(word);
  return text;
}

}  // namespace

std::span<const BlockFormatRow> block_format_table() { return table; }

double BlockFormat::bits_per_element() const noexcept {
  const auto block = static_cast<double>(block_rows * block_cols);
  return element.width() + (block == 0 ? 0 : scale.width() / block);
}

const ScaleRuleRow* find_scale_rule(std::string_view name, ScaleKind scale) {
  for (const ScaleRuleRow& row : scale_rule_table)
    if (row.scale == scale && is_called(row, name)) return &row;
  return nullptr;
}

std::vector<std::string_view> rules_for(const BlockFormat& format) {
  std::vector<std::string_view> names;
  for (const ScaleRuleRow& row : scale_rule_table)
    if (fits(row, format)) names.push_back(row.name);
  return names;
}

std::optional<BlockFormat> find_block_format(std::string_view name) {
  const std::size_t colon = name.find(':');
  std::optional<BlockFormat> format = find_without_rule(name.substr(0, colon));
  if (!format || colon == std::string_view::npos) return format;
  for (const ScaleRuleRow& row : scale_rule_table)
    if (fits(row, *format) && is_called(row, name.substr(colon + 1))) return format->rule = row.rule, format;
  return {};
}

bool is_block_format_name(std::string_view name) {
  return find_without_rule(name.substr(0, name.find(':'))).has_value();
}

BlockFormat require_block_format(std::string_view name) {
  if (const std::optional<BlockFormat> format = find_block_format(name)) return *format;
  const std::size_t colon = name.find(':');
  if (const std::optional<BlockFormat> known = find_without_rule(name.substr(0, colon))) {
    const std::string_view word = name.substr(colon + 1);
    throw Error("block format " + quote(name.substr(0, colon)) + " has no rule " + quote(word) + "; " +
                hint(word, rules_for(*known)) + "accepted: " + list(rules_for(*known)));
  }
  std::vector<std::string_view> names;
  for (const BlockFormatRow& row : table) names.push_back(row.name);
  throw Error("block format " + quote(name) + " is unknown; " +
              hint(name, names) + "accepted: " + list(names) +
              " bfpNxB (N 2 to 8 bits, blocks of B)");
}

Cast element_cast(const BlockFormat& format) {
  Cast cast{.overflow = Overflow::saturate};
  if (format.rule == ScaleRule::deepgemm && format.element == e2m1)
    cast.rounding = Rounding::nearest_to_zero, cast.nan = Nan::zero, cast.zero = Zero::positive;
  return cast;
}

}  // namespace narrow

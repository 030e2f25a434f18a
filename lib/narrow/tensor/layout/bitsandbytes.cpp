// bitsandbytes: NF4 and FP4 over the flat weight, the first code in the HIGH half of a byte, what a code is worth in
// m.weight.quant_map, and a largest magnitude for each 64 in m.weight.absmax, itself quantised where that is U8; INT8
// rows with m.SCB.
#include <algorithm>
#include <cstring>

#include "narrow/base/error.hpp"
#include "narrow/tensor/layout/rows.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/strict_json.hpp"

namespace narrow {

namespace of_bitsandbytes {

nlohmann::json state_of(const Tensor& state) {
  constexpr std::uint64_t longest = 1 << 16;
  if (state.type.name != "U8" || state.elements() > longest) throw Error(quote(state.name) + " is no quant_state");
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(state.elements()));
  read_codes(state, 0, std::span(bytes));
  return parse_strict_json<nlohmann::json>({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                                           quote(state.name));
}

std::uint64_t whole_number(const nlohmann::json& state, const char* key, std::uint64_t most) {
  const auto found = state.find(key);
  if (found == state.end() || !found->is_number_unsigned() || found->get<std::uint64_t>() == 0 ||
      found->get<std::uint64_t>() > most)
    throw Error(std::string("quant_state: ") + key + " is no number from 1 to " + std::to_string(most));
  return found->get<std::uint64_t>();
}

std::vector<float> numbers(const Tensor& tensor, std::uint64_t count) {
  if (tensor.elements() != count || tensor.type.kind != ElementKind::floating)
    throw Error(quote(tensor.name) + " is " + describe(tensor) + "; " + std::to_string(count) + " numbers are right");
  std::vector<float> out(static_cast<std::size_t>(count));
  read_values(tensor, 0, std::span(out));
  return out;
}

// The scales that are quantised themselves as FP32: with the library's own two roundings, of the product and of the
// sum.
Tensor plain_scales(const CheckpointParts& all, const std::string& name, const Tensor& absmax,
                    const nlohmann::json& state) {
  const std::uint64_t block = whole_number(state, "nested_blocksize", 1 << 20), n = absmax.elements();
  const Tensor nested = all.require(name + ".nested_absmax", "the scales of the scales");
  const std::vector<float> map = numbers(all.require(name + ".nested_quant_map", "what the scales are worth"), 256);
  if (nested.elements() != (n + block - 1) / block || nested.type.kind != ElementKind::floating)
    throw Error(quote(nested.name) + " is " + describe(nested) + "; one number for each " + std::to_string(block) +
                " scales is right");
  const auto found = state.find("nested_offset");
  if (found == state.end() || !found->is_number()) throw Error("quant_state: no nested_offset");
  const auto offset = found->get<float>();
  return computed({absmax.name, *find_element_type("F32"), absmax.shape}, [=](std::uint64_t at,
                                                                              std::span<std::byte> out) {
    const std::uint64_t first = at / 4, last = (at + out.size() + 3) / 4;
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(last - first));
    read_codes(absmax, first, std::span(codes));
    std::vector<float> factors(codes.empty() ? 0 : static_cast<std::size_t>((last - 1) / block - first / block + 1));
    read_values(nested, first / block, std::span(factors));
    std::vector<float> values(codes.size());
    for (std::size_t i = 0; i < codes.size(); ++i)
      values[i] = map[codes[i]] * factors[static_cast<std::size_t>((first + i) / block - first / block)] + offset;
    std::memcpy(out.data(), std::as_bytes(std::span(values)).data() + at % 4, out.size());
  });
}

std::optional<BlockParts> four_bits(const CheckpointParts& all, const Tensor& codes, const Tensor& about) {
  const nlohmann::json state = state_of(about);
  BlockParts parts{.layout = "bitsandbytes", .format_name = {}, .format = {}, .codes = codes, .scales = {}};
  parts.name = codes.name;
  const auto shape = state.find("shape");
  if (shape == state.end() || !shape->is_array() || shape->size() > 16) throw Error("quant_state: no shape");
  std::uint64_t values = 1;
  for (const nlohmann::json& n : *shape) {
    if (!n.is_number_unsigned() || __builtin_mul_overflow(values, n.get<std::uint64_t>(), &values))
      throw Error("quant_state: a shape that no tensor has");
    parts.shape.push_back(n.get<std::uint64_t>());
  }
  if (values > (std::uint64_t{1} << 60)) throw Error("quant_state: a shape that no tensor has");
  if (codes.bytes() != (values + 1) / 2)
    throw Error(quote(codes.name) + " has " + std::to_string(codes.bytes()) + " bytes, " + std::to_string(values) +
                " codes of four bits need " + std::to_string((values + 1) / 2));
  const std::uint64_t block = whole_number(state, "blocksize", 1 << 20), blocks = (values + block - 1) / block;
  const Tensor& absmax = all.require(codes.name + ".absmax", "the scales");
  if (absmax.elements() != blocks)
    throw Error(quote(absmax.name) + " is " + describe(absmax) + "; " + std::to_string(blocks) + " blocks of " +
                std::to_string(block) + " need as many scales");
  parts.scales = absmax.type.name == "U8" ? plain_scales(all, codes.name, absmax, state) : absmax;
  if (parts.scales.type.kind != ElementKind::floating) throw Error(quote(absmax.name) + " is " + describe(absmax));
  parts.values = numbers(all.require(codes.name + ".quant_map", "what the codes are worth"), 16);
  parts.format = {"e2m1"_fmt, "fp32"_fmt, 1, static_cast<std::size_t>(block), ScaleRule::te_current};
  parts.format_name = text_at(state, "quant_type") + "_" + std::to_string(block);
  parts.packing = {4, true, 0};
  parts.is_flat = true;
  parts.beside.push_back(about);
  add_beside(parts, all, {codes.name + ".quant_map", codes.name + ".nested_absmax", codes.name + ".nested_quant_map"});
  return parts;
}

std::optional<BlockParts> parts_of(const CheckpointParts& all, const Tensor& codes) {
  const std::optional<std::string> module = before_ending(codes.name, "weight");
  if (!module) return {};
  for (const char* kind : {"nf4", "fp4"})
    if (const Tensor* about = all.find(codes.name + ".quant_state.bitsandbytes__" + kind))
      return four_bits(all, codes, *about);
  const Tensor* rows = all.find(*module + "SCB");
  if (rows == nullptr || codes.type.name != "I8" || codes.shape.size() != 2) return {};
  BlockParts parts = scaled_matrix("bitsandbytes", codes, *rows, "int8"_fmt, {});
  parts.divisor = 127;
  add_beside(parts, all, {*module + "weight_format"});
  return parts;
}

}  // namespace of_bitsandbytes

const Layout bitsandbytes_layout{"bitsandbytes", "bitsandbytes", of_bitsandbytes::parts_of};

}  // namespace narrow

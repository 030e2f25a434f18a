// What `narrow cast` writes: NAME, NAME.scale and NAME.scale2, and the metadata of the file name the block format and
// its rule.
#include "narrow/base/error.hpp"
#include "narrow/tensor/layout/rows.hpp"
#include "narrow/text/quote.hpp"

namespace narrow {

namespace of_narrow {

Tensor part_like(const CheckpointParts& all, const TensorHeader& expected, const std::string& format) {
  const Tensor& part = all.require(expected.name, "the scales of " + quote(format));
  if (part.type.name != expected.type.name || part.shape != expected.shape)
    throw Error(quote(expected.name) + " is " + describe(part) + ", in " + quote(format) + " it is " +
                describe(expected));
  return part;
}

std::optional<BlockParts> parts_of(const CheckpointParts& all, const Tensor& codes) {
  const std::string* format_name = all.metadata(block_format_key(codes.name));
  if (format_name == nullptr) return {};
  BlockParts parts{
      .format_name = *format_name, .format = require_block_format(*format_name), .codes = {}, .scales = {}};
  const std::vector<TensorHeader> expected = block_headers(codes, parts.format);
  parts.codes = part_like(all, expected[0], *format_name);
  parts.scales = part_like(all, expected[1], *format_name);
  if (expected.size() > 2) parts.scale2 = part_like(all, expected[2], *format_name);
  // Without the key of scale2 a file of te_nvfp4 holds the amax there: versions before the key wrote that.
  const std::string* second = all.metadata(scale2_key(codes.name));
  if (parts.format.rule == ScaleRule::te_nvfp4 && (second == nullptr || *second != scale2_is_factor))
    parts.second = BlockParts::Second::amax;
  parts.name = codes.name, parts.shape = codes.shape;
  return parts;
}

}  // namespace of_narrow

const Layout narrow_layout{"narrow", "narrow cast", of_narrow::parts_of, {}, block_headers};

}  // namespace narrow

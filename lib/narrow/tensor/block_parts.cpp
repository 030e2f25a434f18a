#include "narrow/tensor/block_tensor.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "narrow/array/parts.hpp"
#include "narrow/base/error.hpp"
#include "narrow/base/parallel.hpp"
#include "narrow/format/decode.hpp"
#include "narrow/scale/block_scale.hpp"
#include "narrow/scale/quantise.hpp"
#include "narrow/tensor/chunks.hpp"
#include "narrow/tensor/file_text.hpp"
#include "narrow/text/quote.hpp"

namespace narrow {

MatrixSize matrix_of(const TensorHeader& header) {
  const std::uint64_t values = header.values();
  const std::uint64_t cols =
      header.shape.empty() ? values : header.shape.back() * static_cast<std::uint64_t>(header.type.values());
  return {cols == 0 ? 0 : static_cast<std::size_t>(values / cols), static_cast<std::size_t>(cols)};
}

namespace {

// One scale for all: shape [1]. Else blocks of several rows make a grid, and blocks of one row stand like the tensor.
std::vector<std::uint64_t> scale_shape(const TensorHeader& header, const BlockFormat& f) {
  const MatrixSize m = matrix_of(header);
  if (f.block_rows == 0) return {1};
  if (f.block_rows > 1) return {grid_rows(f, m.rows), grid_cols(f, m.cols)};
  std::vector<std::uint64_t> shape = header.shape.empty() ? std::vector<std::uint64_t>{1} : header.shape;
  shape.back() = grid_cols(f, m.cols);
  return shape;
}

}  // namespace

std::vector<TensorHeader> block_headers(const TensorHeader& header, const BlockFormat& f) {
  const ElementType float32 = *find_element_type("F32");
  std::vector<TensorHeader> headers{header};
  headers[0].type = type_of_codes(f.element, header.elements()).type;
  const ElementType* scale = element_type_of(f.scale);
  headers.push_back({header.name + ".scale", scale != nullptr ? *scale : float32, scale_shape(header, f)});
  if (f.has_tensor_scale()) headers.push_back({header.name + ".scale2", float32, {1}});
  return headers;
}

namespace {

// The values of a block-quantised tensor as FP32 bytes. The scales are read once, when the first value is asked for.
class Dequantised : public ByteSource {
 public:
  explicit Dequantised(std::shared_ptr<const BlockParts> parts)
      : parts_(std::move(parts)), size_(matrix_of(parts_->codes)), across_(grid_cols(parts_->format, size_.cols)) {
    for (std::size_t c = 0; c < values_.size(); ++c)
      values_[c] = static_cast<float>(decode(c & parts_->format.element.code_mask(), parts_->format.element));
  }

  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    if (const std::uint64_t all = 4 * parts_->codes.values(); offset > all || out.size() > all - offset)
      throw Error("read beyond the end of a tensor in blocks");
    std::call_once(once_, [&] { read_factors(); });
    const std::uint64_t first = offset / 4, skip = offset % 4;
    const auto count = static_cast<std::size_t>((skip + out.size() + 3) / 4);
    parallel_parts(count, detail::part_size, 0, [&](std::size_t begin, std::size_t end) {
      std::vector<float> values(end - begin);
      decode_values(first + begin, values);
      const std::size_t from = begin == 0 ? skip : 0, at = 4 * begin + from - skip;
      std::memcpy(out.data() + at, std::as_bytes(std::span(values)).data() + from,
                  std::min(4 * values.size() - from, out.size() - at));
    });
  }
  void check() const override { parts_->codes.source->check(), parts_->scales.source->check(); }

 private:
  void read_factors() const {
    factors_.resize(static_cast<std::size_t>(parts_->scales.elements()));
    read_values(parts_->scales, 0, std::span(factors_));
    if (!parts_->scale2) return;
    float factor = 1;
    read_values(*parts_->scale2, 0, std::span(&factor, 1));
    if (parts_->scale2_is_amax) factor = file_factor(tensor_scale(factor, parts_->format), parts_->format);
    for (float& scale : factors_) scale *= factor;
  }

  void decode_values(std::uint64_t first, std::span<float> out) const {
    const BlockFormat& f = parts_->format;
    std::vector<std::uint8_t> codes(out.size());
    read_codes(parts_->codes, first, std::span(codes));
    for (std::size_t i = 0; i < codes.size();) {
      const std::uint64_t row = (first + i) / size_.cols, col = (first + i) % size_.cols;
      const std::uint64_t block = f.block_cols == 0 ? size_.cols : f.block_cols;
      const float factor =
          factors_[static_cast<std::size_t>(f.block_rows == 0 ? 0 : row / f.block_rows * across_ + col / block)];
      const std::uint64_t last = std::min<std::uint64_t>((col / block + 1) * block, size_.cols);
      const std::size_t end = i + static_cast<std::size_t>(std::min<std::uint64_t>(last - col, codes.size() - i));
      for (; i < end; ++i) {
        if (codes[i] > f.element.code_mask())
          throw Error("tensor " + quote(parts_->codes.name) + ": element " + std::to_string(first + i) + " is " +
                      std::to_string(codes[i]) + ", no code of " + std::to_string(f.element.width()) + " bits");
        out[i] = values_[codes[i]] * factor;
      }
    }
  }

  std::shared_ptr<const BlockParts> parts_;
  MatrixSize size_;
  std::size_t across_;
  std::array<float, 256> values_;
  mutable std::once_flag once_;
  mutable std::vector<float> factors_;
};

// What a layout says of one tensor: which parts belong together. Whether they fit is checked for all layouts alike.
struct Claim {
  std::string name, scales, scale2;  // name: of the codes and of the tensor
  std::string format_name;
  bool scale2_is_amax = false;
};

// What `narrow cast` writes. Without the key of scale2 a file of te_nvfp4 holds the amax there: versions before the key
// wrote that.
std::vector<Claim> claims_of_narrow(const TensorFile& file) {
  const std::string format_prefix = block_format_key(""), scale2_prefix = scale2_key("");
  std::unordered_set<std::string_view> factors;
  for (const auto& [key, value] : file.metadata)
    if (key.starts_with(scale2_prefix) && value == scale2_is_factor)
      factors.insert(std::string_view(key).substr(scale2_prefix.size()));
  std::vector<Claim> claims;
  for (const auto& [key, value] : file.metadata) {
    if (!key.starts_with(format_prefix)) continue;
    const std::string name = key.substr(format_prefix.size());
    const std::optional<BlockFormat> format = find_block_format(value);
    const bool is_amax = format && format->rule == ScaleRule::te_nvfp4 && !factors.contains(name);
    claims.push_back({name, name + ".scale", name + ".scale2", value, is_amax});
  }
  return claims;
}

// A layout of quantised tensors: how its files tell which tensors are parts of one.
struct Layout {
  std::string_view name;
  std::vector<Claim> (*claims)(const TensorFile&);
};
constexpr Layout layouts[] = {{"narrow", claims_of_narrow}};

using Index = std::unordered_map<std::string_view, std::size_t>;  // of the tensors of a file, by name

std::string describe(const TensorHeader& header) {
  return std::string(header.type.name) + " " + shape_text(header.shape);
}

const Tensor& part_of(const TensorFile& file, const Index& index, const TensorHeader& expected,
                      const std::string& format) {
  const auto found = index.find(expected.name);
  if (found == index.end())
    throw Error("no tensor " + quote(expected.name) + ", where the scales of " + quote(format) + " belong");
  const Tensor& part = file.tensors[found->second];
  if (part.type.name != expected.type.name || part.shape != expected.shape)
    throw Error(quote(expected.name) + " is " + describe(part) + ", in " + quote(format) + " it is " +
                describe(expected));
  return part;
}

Tensor join(const TensorFile& file, const Index& index, const Tensor& codes, const Claim& claim) {
  auto parts = std::make_shared<BlockParts>();
  parts->format_name = claim.format_name;
  parts->format = require_block_format(claim.format_name);
  parts->scale2_is_amax = claim.scale2_is_amax;
  std::vector<TensorHeader> expected = block_headers(codes, parts->format);
  parts->codes = part_of(file, index, expected[0], claim.format_name);
  expected[1].name = claim.scales;
  parts->scales = part_of(file, index, expected[1], claim.format_name);
  if (expected.size() > 2) {
    expected[2].name = claim.scale2;
    parts->scale2 = part_of(file, index, expected[2], claim.format_name);
  }
  Tensor whole;
  whole.name = codes.name;
  whole.type = *find_element_type("F32");
  whole.shape = codes.shape;
  whole.source = std::make_shared<Dequantised>(parts);
  whole.blocks = std::move(parts);
  return whole;
}

void join_claims(TensorFile& file, const std::vector<Claim>& claims) {
  Index index;
  for (std::size_t i = 0; i < file.tensors.size(); ++i) index.emplace(file.tensors[i].name, i);
  std::vector<std::pair<std::size_t, Tensor>> wholes;
  std::vector<bool> taken(file.tensors.size()), broken(file.tensors.size());
  for (const Claim& claim : claims) {
    const auto codes = index.find(claim.name);
    if (codes == index.end()) continue;  // metadata that outlived its tensor
    try {
      wholes.emplace_back(codes->second, join(file, index, file.tensors[codes->second], claim));
    } catch (const Error& error) {
      file.unreadable.push_back({claim.name, error.what()});
      broken[codes->second] = true;
    }
    for (const std::string& name : {claim.scales, claim.scale2})
      if (const auto part = index.find(name); part != index.end()) taken[part->second] = true;
  }
  for (auto& [at, whole] : wholes) file.tensors[at] = std::move(whole);
  std::vector<Tensor> kept;
  for (std::size_t i = 0; i < file.tensors.size(); ++i)
    if (!broken[i]) (taken[i] ? file.parts : kept).push_back(std::move(file.tensors[i]));
  file.tensors = std::move(kept);
}

}  // namespace

std::uint64_t BlockParts::bytes() const { return codes.bytes() + scales.bytes() + (scale2 ? scale2->bytes() : 0); }
std::uint64_t stored_bytes(const Tensor& tensor) { return tensor.blocks ? tensor.blocks->bytes() : tensor.bytes(); }

std::string block_format_key(std::string_view name) { return "narrow.block_format." + std::string(name); }
std::string scale2_key(std::string_view name) { return "narrow.scale2." + std::string(name); }

void join_blocks(TensorFile& file) {
  for (const Layout& layout : layouts)
    if (const std::vector<Claim> claims = layout.claims(file); !claims.empty()) join_claims(file, claims);
}

}  // namespace narrow

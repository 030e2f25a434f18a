#include <algorithm>
#include <unordered_set>

#include "narrow/base/error.hpp"
#include "narrow/scale/quantise.hpp"
#include "narrow/tensor/layout/layout.hpp"
#include "narrow/text/quote.hpp"

namespace narrow {

MatrixSize matrix_of(const TensorHeader& header) {
  const std::uint64_t values = header.values();
  const std::uint64_t cols =
      header.shape.empty() ? values : header.shape.back() * static_cast<std::uint64_t>(header.type.values());
  return {cols == 0 ? 0 : static_cast<std::size_t>(values / cols), static_cast<std::size_t>(cols)};
}

namespace {

std::vector<std::uint64_t> with_last(const TensorHeader& header, std::uint64_t n) {
  std::vector<std::uint64_t> shape = header.shape.empty() ? std::vector<std::uint64_t>{1} : header.shape;
  shape.back() = n;
  return shape;
}

// One scale for all: shape [1]. Else blocks of several rows make a grid, and blocks of one row stand like the tensor.
std::vector<std::uint64_t> scale_shape(const TensorHeader& header, const BlockFormat& f) {
  const MatrixSize m = matrix_of(header);
  if (f.block_rows == 0) return {1};
  if (f.block_rows > 1) return {grid_rows(f, m.rows), grid_cols(f, m.cols)};
  return with_last(header, grid_cols(f, m.cols));
}

}  // namespace

std::vector<TensorHeader> block_headers(const TensorHeader& header, const BlockFormat& f) {
  const ElementType float32 = *find_element_type("F32");
  std::vector<TensorHeader> headers{header};
  headers[0].type = type_of_codes(f.element, header.elements()).type;
  const ElementType* scale = element_type_of(f.scale);
  headers.push_back({header.name + ".scale", scale != nullptr ? *scale : float32, scale_shape(header, f)});
  if (f.has_tensor_scale()) headers.push_back({header.name + ".scale2", float32, {1}});
  if (f.has_row_scales())
    headers.push_back({header.name + ".scale2", float32, with_last(header, matrix_of(header).cols == 0 ? 0 : 1)});
  return headers;
}

std::uint64_t BlockParts::bytes() const {
  std::uint64_t sum = 0;
  for (const Tensor& part : stored) sum += part.bytes();
  return sum;
}
std::uint64_t stored_bytes(const Tensor& tensor) { return tensor.blocks ? tensor.blocks->bytes() : tensor.bytes(); }

std::string block_format_key(std::string_view name) { return "narrow.block_format." + std::string(name); }
std::string scale2_key(std::string_view name) { return "narrow.scale2." + std::string(name); }

namespace {

std::vector<std::string> names_of(const BlockParts& parts) {
  std::vector<std::string> names{parts.codes.name, parts.scales.name};
  if (parts.scale2) names.push_back(parts.scale2->name);
  for (const Tensor& tensor : parts.beside) names.push_back(tensor.name);
  return names;
}

// What would belong to codes of this name in one layout or another: no values, where the whole cannot be read.
std::vector<std::string> siblings_of(const std::string& codes) {
  std::string stem = codes;
  for (const std::string_view ending : {"_packed", "_blocks", ".blocks"})
    if (stem.ends_with(ending)) stem.erase(stem.size() - ending.size());
  std::vector<std::string> names;
  for (const char* ending :
       {".scale", ".scale2", "_scale", "_scale_2", "_scale_inv", "_global_scale", "_scales", ".scales", "_shape",
        "_zero_point", ".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map"})
    names.push_back(stem + ending);
  return names;
}

void join_all(TensorFile& file, std::optional<nlohmann::json> config) {
  std::vector<std::pair<std::size_t, Tensor>> wholes;
  std::vector<bool> broken(file.tensors.size());
  std::unordered_set<std::string> taken;
  {
    const CheckpointParts parts(file, std::move(config));
    for (std::size_t i = 0; i < file.tensors.size(); ++i) {
      const Tensor& codes = file.tensors[i];
      try {
        for (const Layout* layout : layouts()) {
          std::optional<BlockParts> found = layout->parts_of(parts, codes);
          if (!found) continue;
          for (const std::string& name : names_of(*found)) {
            taken.insert(name);
            found->stored.push_back(*parts.find(name));
          }
          if (found->name != codes.name && parts.find(found->name) != nullptr)
            throw Error("there is a tensor " + quote(found->name) + " as well");
          wholes.emplace_back(i, join_parts(std::move(*found)));
          break;
        }
      } catch (const Error& error) {
        file.unreadable.push_back({codes.name, error.what()});
        broken[i] = true;
        for (const std::string& name : siblings_of(codes.name)) taken.insert(name);
      }
    }
  }
  if (wholes.empty() && taken.empty() && file.unreadable.empty()) return;
  for (auto& [at, whole] : wholes) taken.erase(file.tensors[at].name), file.tensors[at] = std::move(whole);
  std::vector<Tensor> kept;
  for (std::size_t i = 0; i < file.tensors.size(); ++i)
    if (!broken[i]) (taken.contains(file.tensors[i].name) ? file.parts : kept).push_back(std::move(file.tensors[i]));
  file.tensors = std::move(kept);
}

}  // namespace

void join_blocks(TensorFile& file) { join_all(file, {}); }
void join_blocks(TensorFile& file, nlohmann::json config) { join_all(file, std::move(config)); }

}  // namespace narrow

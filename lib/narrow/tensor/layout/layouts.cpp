#include <algorithm>

#include "narrow/base/error.hpp"
#include "narrow/scale/quantise.hpp"
#include "narrow/tensor/file_text.hpp"
#include "narrow/tensor/layout/rows.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/strict_json.hpp"

namespace narrow {

std::span<const Layout* const> layouts() {
  // What a file says itself comes first; ModelOpt before compressed-tensors, whose names it shares where a
  // configuration says so.
  static constexpr const Layout* rows[] = {&narrow_layout,   &deepseek_layout,
                                           &modelopt_layout, &compressed_tensors_layout,
                                           &mxfp4_layout,    &bitsandbytes_layout};
  return rows;
}

const Layout* find_layout(std::string_view name) {
  for (const Layout* row : layouts())
    if (row->name == name) return row;
  return nullptr;
}

CheckpointParts::CheckpointParts(const TensorFile& file, std::optional<nlohmann::json> config)
    : file_(file), config_(std::move(config)) {
  index_.reserve(file.tensors.size());
  for (std::size_t i = 0; i < file.tensors.size(); ++i) index_.emplace(file.tensors[i].name, i);
  for (const auto& [key, value] : file.metadata)
    if (key.starts_with("narrow.")) metadata_.emplace(key, value);
}

const Tensor* CheckpointParts::find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &file_.tensors[found->second];
}

const Tensor& CheckpointParts::require(const std::string& name, std::string_view for_what) const {
  if (const Tensor* found = find(name)) return *found;
  throw MissingPart("no tensor " + quote(name) + ", where " + std::string(for_what) + " belong");
}

const std::string* CheckpointParts::metadata(const std::string& key) const {
  const auto found = metadata_.find(key);
  return found == metadata_.end() ? nullptr : &found->second;
}

const nlohmann::json& CheckpointParts::config() const {
  if (!config_) {
    const std::size_t slash = file_.path.rfind('/');
    config_ = file_.path == "-"
                  ? nlohmann::json::object()
                  : read_quantization_config(slash == std::string::npos ? "" : file_.path.substr(0, slash + 1));
  }
  return *config_;
}

nlohmann::json read_quantization_config(const std::string& folder) {
  const std::string path = folder + "config.json";
  const std::string text = file_exists(path) ? read_text(path) : "{}";
  try {
    const nlohmann::json all = parse_strict_json<nlohmann::json>(text, path);
    for (const char* key : {"quantization_config", "compression_config"})
      if (all.is_object() && all.contains(key) && all[key].is_object()) return all[key];
  } catch (const Error&) {  // no JSON: lint says so
  }
  return nlohmann::json::object();
}

std::optional<std::string> before_ending(std::string_view name, std::string_view ending) {
  if (!name.ends_with(ending)) return {};
  return std::string(name.substr(0, name.size() - ending.size()));
}

std::string text_at(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string describe(const TensorHeader& header) {
  return std::string(header.type.name) + " " + shape_text(header.shape);
}

void require_shape(const Tensor& part, const std::vector<std::uint64_t>& shape, std::string_view format) {
  if (part.shape != shape)
    throw Error(quote(part.name) + " is " + describe(part) + ", in " + quote(format) + " its shape is " +
                shape_text(shape));
}

namespace {

class Computed : public ByteSource {
 public:
  explicit Computed(std::function<void(std::uint64_t, std::span<std::byte>)> read) : read_(std::move(read)) {}
  void read(std::uint64_t offset, std::span<std::byte> out) const override { read_(offset, out); }

 private:
  std::function<void(std::uint64_t, std::span<std::byte>)> read_;
};

}  // namespace

Tensor computed(TensorHeader header, std::function<void(std::uint64_t, std::span<std::byte>)> read) {
  Tensor tensor;
  static_cast<TensorHeader&>(tensor) = std::move(header);
  tensor.source = std::make_shared<Computed>(std::move(read));
  return tensor;
}

Tensor retyped(Tensor tensor, std::string_view type, std::vector<std::uint64_t> shape) {
  tensor.type = *find_element_type(type);
  tensor.shape = std::move(shape);
  return tensor;
}

Tensor as_e8m0(const Tensor& scales) {
  return scales.type.name == "U8" ? retyped(scales, "F8_E8M0", scales.shape) : scales;
}

bool is_scale_type(const Tensor& tensor) {
  return tensor.type.kind == ElementKind::floating && tensor.type.bits >= 8 && tensor.type.bits <= 32;
}

BlockParts scaled_matrix(std::string_view layout, const Tensor& codes, const Tensor& scales, const Format& element,
                         MatrixSize block) {
  const std::string_view kind = element.is_integer() ? "int8" : "fp8";
  if (!is_scale_type(scales))
    throw Error(quote(scales.name) + " is " + describe(scales) + "; scales of " + quote(codes.name) + " are numbers");
  BlockParts parts{.layout = std::string(layout), .format_name = {}, .format = {}, .codes = codes, .scales = scales};
  parts.name = codes.name, parts.shape = codes.shape;
  const MatrixSize m = matrix_of(codes);
  BlockFormat& f = parts.format;
  f = {element, scales.type.format, 0, 0, ScaleRule::te_current};
  // [] and [1] are of the tensor; [N] and [N, 1] (and [N/b, 1, K/b, 1]) are rows or a grid without its ones.
  std::vector<std::uint64_t> shape;
  for (const std::uint64_t n : scales.shape)
    if (n != 1) shape.push_back(n);
  const std::vector<std::uint64_t> rows(codes.shape.begin(), codes.shape.end() - (codes.shape.empty() ? 0 : 1));
  std::vector<std::uint64_t> columns_of_one = rows;
  columns_of_one.push_back(1);
  const std::string suffix = element == "e5m2"_fmt ? "_e5m2" : element.is_integer() ? "" : "_e4m3";
  if (block.rows != 0 && block.cols != 0) {
    f.block_rows = block.rows, f.block_cols = block.cols;
    parts.format_name = std::string(kind) + "_" + std::to_string(block.rows) + "x" + std::to_string(block.cols);
    std::vector<std::uint64_t> grid;
    for (const std::uint64_t n : {std::uint64_t{grid_rows(f, m.rows)}, std::uint64_t{grid_cols(f, m.cols)}})
      if (n != 1) grid.push_back(n);
    if (block.rows > 1 && codes.shape.size() > 2 && codes.shape[codes.shape.size() - 2] % block.rows != 0)
      throw Error(quote(codes.name) + " is " + describe(codes) + ": blocks of " + std::to_string(block.rows) +
                  " rows would reach from one matrix into the next");
    std::vector<std::uint64_t> like_codes = codes.shape;
    if (codes.shape.size() > 2) {
      like_codes.back() = grid_cols(f, m.cols);
      like_codes[codes.shape.size() - 2] = codes.shape[codes.shape.size() - 2] / block.rows;
    }
    if (codes.shape.size() <= 2 ? shape != grid : scales.shape != like_codes)
      throw Error(quote(scales.name) + " is " + describe(scales) + ", but " + describe(codes) + " in blocks of " +
                  std::to_string(block.rows) + " x " + std::to_string(block.cols) + " has " +
                  std::to_string(grid_rows(f, m.rows)) + " x " + std::to_string(grid_cols(f, m.cols)));
  } else if (shape.empty()) {
    parts.format_name = std::string(kind) + "_tensor" + suffix;
  } else if (scales.shape == rows || scales.shape == columns_of_one) {
    f.block_rows = 1;
    parts.format_name = std::string(kind) + "_row" + suffix;
  } else {
    throw Error(quote(scales.name) + " is " + describe(scales) + ", which is neither one scale nor one a row of " +
                describe(codes) + ", and no configuration names a block");
  }
  return parts;
}

BlockParts fp4_blocks(std::string_view layout, const Tensor& bytes, std::vector<std::uint64_t> shape,
                      const Tensor& scales, std::size_t block) {
  if (shape.empty() || (bytes.type.name != "U8" && bytes.type.name != "I8"))
    throw Error(quote(bytes.name) + " is " + describe(bytes) + "; bytes of two E2M1 codes are right");
  if (scales.type.name != (block == 16 ? "F8_E4M3" : "F8_E8M0"))
    throw Error(quote(scales.name) + " is " + describe(scales) + "; scales of such blocks are " +
                (block == 16 ? "F8_E4M3" : "F8_E8M0 or U8"));
  const std::uint64_t cols = shape.back();
  const BlockFormat f = require_block_format(block == 16 ? "nvfp4" : "mxfp4");
  BlockParts parts{.layout = std::string(layout),
                   .format_name = block == 16 ? "nvfp4" : "mxfp4",
                   .format = f,
                   .codes = retyped(bytes, "F4", shape),
                   .scales = scales};
  if (cols % block != 0)
    throw Error(quote(bytes.name) + " has rows of " + std::to_string(cols) + " codes, no multiple of the block of " +
                std::to_string(block));
  std::vector<std::uint64_t> expected = shape;
  expected.back() = cols / block;
  require_shape(scales, expected, parts.format_name);
  parts.format.scale = scales.type.format;
  parts.shape = std::move(shape);
  return parts;
}

void add_beside(BlockParts& parts, const CheckpointParts& all, std::initializer_list<std::string> names) {
  for (const std::string& name : names)
    if (const Tensor* found = all.find(name)) parts.beside.push_back(*found);
}

const Tensor& require_one(const Tensor& tensor) {
  if (tensor.elements() != 1 || tensor.type.kind != ElementKind::floating)
    throw Error(quote(tensor.name) + " is " + describe(tensor) + "; one number is right");
  return tensor;
}

}  // namespace narrow

#include "cast_blocks.hpp"

#include <algorithm>
#include <filesystem>

#include "block_tensor.hpp"
#include "json_value.hpp"
#include "narrow/array/pack.hpp"
#include "narrow/scale/block_scale.hpp"
#include "narrow/scale/quantise.hpp"
#include "narrow/tensor/cast_tensor.hpp"
#include "narrow/tensor/tensor_writer.hpp"
#include "narrow/text/quote.hpp"
#include "progress.hpp"
#include "tensor_text.hpp"
#include "terminal.hpp"

namespace app {
namespace {

using narrow::BlockFormat;

// One tensor of the input and the tensors that it becomes: itself, or codes, scales and the level above.
struct Planned {
  narrow::Tensor source;
  std::vector<narrow::TensorHeader> headers;
  bool is_cast = false;
};

std::string block_key(const std::string& name) { return "narrow.block_format." + name; }

// The whole name, rule included: what reads the file need not know the defaults of this program.
std::string full_name(const ChosenBlockFormat& to) {
  return to.name.substr(0, to.name.find(':')) + ":" + std::string(narrow::row_of(to.format.rule).name);
}

std::vector<std::uint64_t> scale_shape(const narrow::TensorHeader& header, const BlockFormat& f) {
  const MatrixSize m = matrix_of(header);
  if (f.block_rows == 0) return {1};
  if (f.block_rows > 1) return {narrow::grid_rows(f, m.rows), narrow::grid_cols(f, m.cols)};
  std::vector<std::uint64_t> shape = header.shape.empty() ? std::vector<std::uint64_t>{1} : header.shape;
  shape.back() = narrow::grid_cols(f, m.cols);
  return shape;
}

Planned plan_tensor(const narrow::Tensor& tensor, const std::string& name, const BlockFormat& f, bool values) {
  Planned planned{tensor, {tensor}, true};
  narrow::TensorHeader& codes = planned.headers[0];
  codes.name = name;
  const narrow::ElementType float32 = *narrow::find_element_type("F32");
  if (values) {
    codes.type = float32;
    return planned;
  }
  codes.type = narrow::cast_type(float32, tensor.elements(), f.element, narrow::CastResult::codes).type;
  const narrow::ElementType* scale = narrow::element_type_of(f.scale);
  planned.headers.push_back({name + ".scale", scale != nullptr ? *scale : float32, scale_shape(tensor, f)});
  if (f.has_tensor_scale()) planned.headers.push_back({name + ".scale2", float32, {1}});
  return planned;
}

// Codes on their way out. Short codes are packed in groups of eight, whatever the pieces are that they come in.
class CodeWriter {
 public:
  CodeWriter(narrow::TensorWriter& writer, int bits) : writer_(writer), bits_(bits) {}

  void write(std::span<const std::uint8_t> codes) {
    if (bits_ == 8) return writer_.write(std::as_bytes(codes));
    waiting_.insert(waiting_.end(), codes.begin(), codes.end());
    flush(waiting_.size() / 8 * 8);
  }
  void finish() { flush(waiting_.size()); }

 private:
  void flush(std::size_t n) {
    std::vector<std::uint8_t> packed(narrow::packed_size(n, bits_));
    narrow::pack_codes(std::span(waiting_).first(n), bits_, packed);
    writer_.write(std::as_bytes(std::span<const std::uint8_t>(packed)));
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(n));
  }

  narrow::TensorWriter& writer_;
  int bits_;
  std::vector<std::uint8_t> waiting_;
};

void write_cast(const Planned& planned, const BlockFormat& f, bool values, narrow::TensorWriter& writer,
                const narrow::BytesDone& done) {
  const float amax = amax_for(planned.source, f, 1, done);
  const float tensor_stored = narrow::tensor_scale(amax, f).stored;
  std::vector<std::uint8_t> codes;
  std::vector<float> scales, piece_scales, decoded;
  CodeWriter out(writer, planned.headers[0].type.bits);
  for_each_piece(planned.source, f, done, [&](std::span<const float> x, std::size_t rows, std::size_t cols) {
    codes.resize(x.size());
    piece_scales.resize(narrow::grid_rows(f, rows) * narrow::grid_cols(f, cols));
    narrow::quantise_into(x, rows, cols, f, amax, codes, piece_scales);
    if (values) {
      decoded.resize(x.size());
      narrow::dequantise_into(codes, piece_scales, tensor_stored, rows, cols, f, decoded);
      return writer.write(std::as_bytes(std::span<const float>(decoded)));
    }
    out.write(codes);
    if (f.block_rows != 0 || scales.empty()) scales.insert(scales.end(), piece_scales.begin(), piece_scales.end());
  });
  if (values) return;
  out.finish();
  if (f.block_rows == 0 && scales.empty()) scales.push_back(1);  // of a tensor without elements
  if (f.scale.width() == 8) {
    const std::vector<std::uint8_t> scale_bytes = narrow::scale_codes(scales, f);
    writer.write(std::as_bytes(std::span<const std::uint8_t>(scale_bytes)));
  } else {
    writer.write(std::as_bytes(std::span<const float>(scales)));
  }
  if (f.has_tensor_scale()) writer.write(std::as_bytes(std::span<const float>(&tensor_stored, 1)));
}

std::string name_in_output(const narrow::Tensor& tensor, const std::string& input) {
  if (!tensor.name.empty()) return tensor.name;
  const std::string stem = std::filesystem::path(input).stem().string();
  return stem.empty() || stem == "-" ? "tensor" : stem;
}

std::vector<Planned> make_plan(const ChosenFile& input, const BlockFormat& f, bool values) {
  std::vector<Planned> plan;
  for (const narrow::Tensor& tensor : input.file.tensors) {
    const auto chosen = std::find_if(input.tensors.begin(), input.tensors.end(),
                                     [&](const narrow::Tensor& t) { return t.name == tensor.name; });
    if (chosen == input.tensors.end() && input.one_named) continue;
    const std::string name = name_in_output(tensor, input.file.path);
    const bool is_cast = chosen != input.tensors.end() && chosen->type.kind == narrow::ElementKind::floating;
    if (is_cast) {
      plan.push_back(plan_tensor(*chosen, name, f, values));
    } else {
      plan.push_back({tensor, {tensor}, false});
      plan.back().headers[0].name = name;
    }
  }
  return plan;
}

void check_plan(const std::vector<Planned>& plan, const ChosenFile& input, const BlockCastRequest& request) {
  const bool npy = request.output.ends_with(".npy");
  if (!npy && !request.output.ends_with(".safetensors"))
    throw narrow::Error("cast: the ending of " + narrow::quote(request.output) +
                        " says what to write; accepted: .safetensors" + (request.values ? ", .npy" : ""));
  if (std::none_of(plan.begin(), plan.end(), [](const Planned& p) { return p.is_cast; })) {
    (void)input.floating();  // says why
    throw narrow::Error("cast: nothing to cast in " + narrow::quote(input.argument) +
                        "; block formats take real tensors");
  }
  std::vector<std::string> names;
  for (const Planned& p : plan)
    for (const narrow::TensorHeader& h : p.headers) names.push_back(h.name);
  if (npy && names.size() != 1)
    throw narrow::Error("cast: " + narrow::quote(request.output) + " holds one tensor, codes and scales are " +
                        std::to_string(names.size()) + "; write .safetensors, or take one tensor with --values");
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end())
    throw narrow::Error("cast: " + narrow::quote(input.argument) + " has a tensor " + narrow::quote(*twice) +
                        " already, where the scales would go");
}

std::string summary(const std::vector<Planned>& plan, const BlockCastRequest& request, const ChosenBlockFormat& to) {
  std::size_t cast = 0;
  std::uint64_t before = 0, after = 0;
  const Planned* first = nullptr;
  for (const Planned& p : plan) {
    before += p.source.bytes();
    for (const narrow::TensorHeader& h : p.headers) after += h.bytes();
    if (p.is_cast && ++cast == 1) first = &p;
  }
  std::string types;
  for (const narrow::TensorHeader& h : first->headers)
    types += (types.empty() ? "" : h.name == first->headers.back().name ? " and " : ", ") + std::string(h.type.name);
  const std::size_t copied = plan.size() - cast;
  return printable(request.output) + ": " + std::to_string(cast) + (cast == 1 ? " tensor" : " tensors") + " cast to " +
         full_name(to) + (request.values ? " values in " : ", codes and scales in ") + types +
         (copied != 0 ? ", " + std::to_string(copied) + " copied" : "") + "; " + size_text(before) + " -> " +
         size_text(after) + "\n";
}

Json to_json(const std::vector<Planned>& plan, const BlockCastRequest& request, const ChosenBlockFormat& to) {
  Json tensors = Json::array();
  for (const Planned& p : plan)
    for (const narrow::TensorHeader& h : p.headers)
      tensors.push_back({{"name", h.name},
                         {"from", p.source.type.name},
                         {"dtype", h.type.name},
                         {"cast", p.is_cast},
                         {"bytes", h.bytes()}});
  return {{"file", request.output}, {"format", full_name(to)}, {"values", request.values}, {"tensors", tensors}};
}

}  // namespace

int cast_to_blocks(const BlockCastRequest& request) {
  const ChosenBlockFormat to = blame("--to", [&] { return choose_block_format(request.format); });
  const ChosenFile input = open_chosen(request.input, request.choice);
  const std::vector<Planned> plan = make_plan(input, to.format, request.values);
  check_plan(plan, input, request);

  std::vector<narrow::TensorHeader> headers;
  std::vector<std::pair<std::string, std::string>> metadata = input.file.metadata;
  std::uint64_t bytes = 0;
  for (const Planned& p : plan) {
    headers.insert(headers.end(), p.headers.begin(), p.headers.end());
    bytes += p.source.bytes() * (p.is_cast && to.format.needs_tensor_amax() ? 2 : 1);
    if (!p.is_cast) continue;
    const std::string name = p.headers[0].name, key = block_key(name);
    std::erase_if(metadata, [&](const auto& entry) { return entry.first == key || entry.first == format_key(name); });
    if (!request.values) metadata.emplace_back(key, full_name(to));
  }
  Progress progress("cast", bytes);
  const narrow::BytesDone done = [&](std::uint64_t n) { progress.add(n); };
  narrow::TensorWriter writer(request.output, std::move(headers), std::move(metadata));
  for (const Planned& p : plan) {
    if (p.is_cast) write_cast(p, to.format, request.values, writer, done);
    else narrow::copy_tensor(p.source, [&](std::span<const std::byte> piece) { writer.write(piece); }, {0, 0, done});
  }
  writer.finish();
  print(request.json ? json_text(to_json(plan, request, to)) : summary(plan, request, to));
  return 0;
}

}  // namespace app

#include "products/code_matrix.hpp"

#include "cli/command.hpp"
#include "narrow/array/pack.hpp"
#include "narrow/dot/model_table.hpp"
#include "narrow/round/convert.hpp"
#include "narrow/tensor/block_tensor.hpp"
#include "narrow/tensor/cast_tensor.hpp"
#include "narrow/tensor/tensor.hpp"
#include "narrow/tensor/tensor_file.hpp"
#include "narrow/tensor/tensor_writer.hpp"
#include "narrow/text/quote.hpp"
#include "options/format_list.hpp"
#include "options/tensor_choice.hpp"
#include "options/tensor_text.hpp"

namespace app {
namespace {

using narrow::Code;
using narrow::ElementKind;
using narrow::Format;

constexpr Format tf32 = narrow::operator""_fmt("tf32", 4), fp32 = narrow::operator""_fmt("fp32", 4);

int code_bytes(const Format& f) {
  const int width = f == tf32 ? 32 : f.width();
  return width <= 8 ? 1 : width <= 16 ? 2 : width <= 32 ? 4 : 8;
}

bool is_integer(const narrow::Tensor& t) {
  return t.type.kind == ElementKind::signed_integer || t.type.kind == ElementKind::unsigned_integer;
}

template <class U>
void read_all(narrow::Tensor tensor, const Format& format, std::vector<U>& out) {
  // Words of TF32 keep the bits below the format; everything else is read as codes of its format.
  if (!format.is_integer() && !(format == tf32) && tensor.type.kind != ElementKind::floating)
    tensor = narrow::with_format(std::move(tensor), format);
  out.resize(static_cast<std::size_t>(tensor.elements()));
  narrow::read_codes(tensor, 0, std::span(out));
}

void resize(LoadedMatrix& m, int bytes) {
  switch (bytes) {
    case 1: m.codes = std::vector<std::uint8_t>(); break;
    case 2: m.codes = std::vector<std::uint16_t>(); break;
    case 4: m.codes = std::vector<std::uint32_t>(); break;
    default: m.codes = std::vector<std::uint64_t>(); break;
  }
}

}  // namespace

narrow::Tensor open_operand(const MatrixFlags& flags) {
  return blame(flags.name, [&] {
    const std::string& argument = *flags.file;
    const ChosenFile chosen = open_chosen(argument, {});
    if (chosen.tensors.size() != 1 || !chosen.unreadable.empty())
      (void)narrow::open_tensor(argument);  // says which names
    if (chosen.tensors.size() != 1) throw narrow::Error(narrow::quote(argument) + " names no single tensor");
    return chosen.tensors.front();
  });
}

// What the codes of a tensor mean. Integers mean themselves only where their width leaves no doubt.
Format code_format_of(const narrow::Tensor& t, const MatrixFlags& flags) {
  const std::string flag = flags.format_name != nullptr ? flags.format_name : std::string(flags.name) + "-format";
  if (flags.format) {
    const Format f = blame(flag, [&] { return choose_code_format(*flags.format); });
    if (f.is_integer()) {
      if (is_integer(t) && t.type.bits == f.width()) return f;
      throw narrow::Error(flag + ": " + narrow::quote(*flags.file) + " holds " + std::string(t.type.name) +
                          ", no integers of " + std::to_string(f.width()) + " bits");
    }
    return blame(flag, [&] { return narrow::with_format(t, f).type.format; });
  }
  if (t.type.kind == ElementKind::floating) return t.type.format;
  if (t.type.name == "I8") return narrow::detail::s8.format;
  if (t.type.name == "I32") return narrow::detail::int32_format;
  throw narrow::Error(std::string(flags.name) + ": " + narrow::quote(*flags.file) + " holds " +
                      std::string(t.type.name) +
                      (is_integer(t) ? "; name what the codes are, for example " + flag +
                                           (t.type.bits == 8    ? " e4m3, or u8 for integers"
                                            : t.type.bits == 16 ? " bf16"
                                                                : " tf32")
                                     : "; a matrix product needs floating numbers, integers of 8 bits, or codes"));
}

narrow::CodeMatrix LoadedMatrix::view(std::size_t item) const {
  return std::visit(
      [&](const auto& v) {
        const std::size_t pitch = one_row_for_all ? 0 : layout == narrow::Layout::row_major ? cols : rows;
        return narrow::CodeMatrix{
            v.data() + item * item_step(), static_cast<int>(sizeof(v[0])), rows, cols, pitch, layout};
      },
      codes);
}

Format choose_code_format(std::string_view name) {
  if (name == "s32" || name == "int32" || name == "i32") return narrow::detail::int32_format;
  return choose_format(name).format;
}

std::string code_format_name(const Format& format) {
  if (format == narrow::detail::int32_format) return "s32";
  return narrow::name_of(format);
}

LoadedMatrix load_matrix(const MatrixFlags& flags, std::size_t rows_of_bias) {
  const std::string who = std::string(flags.name) + ": " + narrow::quote(*flags.file);
  narrow::Tensor tensor = open_operand(flags);
  if (flags.scales && tensor.blocks) tensor = narrow::Tensor(tensor.blocks->codes);
  const std::size_t dimensions = tensor.shape.size();
  const bool bias = dimensions == 1 && rows_of_bias != 0;
  if (dimensions != 2 && dimensions != 3 && !bias)
    throw narrow::Error(who + " has the shape " + shape_text(tensor.shape) +
                        "; a matrix has two dimensions, a batch of them three");
  if (tensor.elements() == 0)
    throw narrow::Error(who + " has the shape " + shape_text(tensor.shape) + ": an empty matrix has no product");
  if (dimensions == 3) tensor = narrow::row_major(tensor);
  LoadedMatrix m;
  m.cols = static_cast<std::size_t>(tensor.shape.back());
  m.rows = bias ? rows_of_bias : static_cast<std::size_t>(tensor.shape[dimensions - 2]);
  m.one_row_for_all = bias;
  if (dimensions == 3) m.items = static_cast<std::size_t>(tensor.shape[0]);
  m.layout = tensor.column_major && !bias ? narrow::Layout::column_major : narrow::Layout::row_major;
  m.format = code_format_of(tensor, flags);
  m.type = std::string(tensor.type.name);
  resize(m, code_bytes(m.format));
  blame(flags.name, [&] {
    std::visit([&](auto& v) { read_all(tensor, m.format, v); }, m.codes);
    return 0;
  });
  if (flags.transpose) {
    std::swap(m.rows, m.cols);
    m.layout = m.layout == narrow::Layout::row_major ? narrow::Layout::column_major : narrow::Layout::row_major;
  }
  return m;
}

void fit_matrix(LoadedMatrix& matrix, const MatrixFlags& flags, const narrow::DotType& wanted, std::string_view model,
                bool round) {
  const Format from = matrix.format, to = wanted.format;
  if (from == to) return;
  if (to == tf32 && from == fp32) {
    matrix.format = tf32;
    return;
  }
  const std::string name = code_format_name(to);
  if (from.is_integer() || to.is_integer() || !round)
    throw narrow::Error(std::string(flags.name) + ": " + narrow::quote(*flags.file) + " holds " + matrix.type + " (" +
                        code_format_name(from) + ") and " + std::string(model) + " takes " + name +
                        (from.is_integer() || to.is_integer()
                             ? "; choose a model that fits: narrow models --type " + code_format_name(from)
                             : "; convert it (narrow cast " + *flags.file + " OUT --to " + name + ") or add --round"));
  LoadedMatrix out = matrix;
  out.format = to;
  resize(out, code_bytes(to));
  const int shift = to == tf32 ? 32 - to.width() : 0;
  const auto rounded = [&](Code code) { return narrow::convert(from == tf32 ? code >> 13 : code, from, to) << shift; };
  std::visit(
      [&](const auto& codes, auto& result) {
        using U = std::remove_reference_t<decltype(result[0])>;
        result.resize(codes.size());
        for (std::size_t i = 0; i < codes.size(); ++i) result[i] = static_cast<U>(rounded(codes[i]));
      },
      matrix.codes, out.codes);
  matrix = std::move(out);
}

LoadedMatrix make_matrix(std::size_t rows, std::size_t cols, const Format& format, std::size_t items) {
  LoadedMatrix m;
  m.rows = rows, m.cols = cols, m.items = items, m.format = format;
  resize(m, code_bytes(format));
  std::visit([&](auto& v) { v.resize(rows * cols * items); }, m.codes);
  return m;
}

void write_matrices(const std::string& path, const std::vector<NamedMatrix>& matrices) {
  std::vector<narrow::TensorHeader> tensors;
  std::vector<std::pair<std::string, std::string>> metadata;
  for (const auto& [name, m] : matrices) {
    const std::uint64_t count = std::uint64_t{m->items} * m->rows * m->cols;
    const narrow::ResultType type =
        m->format == narrow::detail::int32_format
            ? narrow::ResultType{*narrow::find_element_type("I32"), true}
            : narrow::cast_type(*narrow::find_element_type("F32"), count, m->format, narrow::CastResult::codes);
    std::vector<std::uint64_t> shape{m->rows, m->cols};
    if (m->items > 1) shape.insert(shape.begin(), m->items);
    if (!type.names_format) metadata.emplace_back(format_key(name), code_format_name(m->format));
    tensors.push_back({name, type.type, shape});
  }
  narrow::TensorWriter writer(path, tensors, metadata);
  for (std::size_t n = 0; n < matrices.size(); ++n) {
    const LoadedMatrix& m = *matrices[n].matrix;
    std::visit(
        [&](const auto& codes) {
          using U = std::remove_cvref_t<decltype(codes[0])>;
          if constexpr (sizeof(U) == 1) {
            if (tensors[n].type.bits < 8) {
              std::vector<std::uint8_t> packed(narrow::packed_size(codes.size(), tensors[n].type.bits));
              narrow::pack_codes(codes, tensors[n].type.bits, packed);
              return writer.write(std::as_bytes(std::span(packed)));
            }
          }
          if constexpr (sizeof(U) == 4) {
            if (m.format == tf32) {  // the upper bits of its word
              std::vector<U> words(codes);
              for (U& word : words) word <<= 32 - tf32.width();
              return writer.write(std::as_bytes(std::span(words)));
            }
          }
          writer.write(std::as_bytes(std::span(codes)));
        },
        m.codes);
  }
  writer.finish();
}

}  // namespace app

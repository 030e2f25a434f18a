// Read, cast, write, read again: a byte that names the format, then a file as the other targets take it ('{': a header
// and data of .safetensors; 'Z': an .npy, to be a deflated member). The codes that come back are those of each element.

#include "fuzz/read_all.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/round/convert.hpp"
#include "narrow/tensor/cast_tensor.hpp"
#include "narrow/tensor/npy.hpp"
#include "narrow/tensor/npz.hpp"
#include "narrow/tensor/safetensors.hpp"
#include "narrow/tensor/tensor_writer.hpp"
#include "tensor/archive.hpp"

namespace {

constexpr std::uint64_t most_values = 4096;

narrow::TensorFile open(std::string file) {
  if (file.starts_with('Z'))
    return narrow::read_npz(test::in_memory(test::archive({test::deflated("a.npy", file.substr(1))})));
  if (file.starts_with("PK")) return narrow::read_npz(test::in_memory(file));
  if (file.starts_with(narrow::npy_magic)) return narrow::read_npy(test::in_memory(file));
  if (file.starts_with('{')) {
    const std::size_t end = std::min(file.find('\0'), file.size());
    file = test::safetensors(file.substr(0, end), file.substr(std::min(end + 1, file.size())));
  }
  return narrow::read_safetensors(test::in_memory(file));
}

// The place in the file of an element of C order: the first index runs fastest in Fortran's.
std::uint64_t place_of(const narrow::Tensor& tensor, std::uint64_t flat) {
  if (!tensor.column_major) return flat;
  std::uint64_t place = 0, rest = tensor.elements();
  for (std::size_t k = tensor.shape.size(); k-- > 0; flat /= tensor.shape[k]) {
    rest /= tensor.shape[k];
    place += flat % tensor.shape[k] * rest;
  }
  return place;
}

void check(const narrow::Tensor& tensor, const narrow::Format& f, const std::string& path) {
  const narrow::ElementType type = narrow::cast_type(tensor.type, tensor.elements(), f, narrow::CastResult::codes).type;
  narrow::TensorWriter writer(path, {{"t", type, tensor.shape}});
  narrow::cast_tensor(tensor, {f}, narrow::CastResult::codes, [&](auto bytes) { writer.write(bytes); });
  writer.finish();
  const narrow::TensorFile back = narrow::open_tensor_file(path);
  fuzz::require(back.tensors.size() == 1 && back.tensors[0].shape == tensor.shape);
  std::vector<std::uint64_t> codes(back.tensors[0].values());
  narrow::read_codes(back.tensors[0], 0, std::span(codes));
  fuzz::require(codes.size() == tensor.values());
  const int shift = f == narrow::operator""_fmt("tf32", 4) ? 13 : 0;  // the upper bits of a word
  for (std::size_t i = 0; i < codes.size(); ++i) {
    double x = 0;
    narrow::read_values(tensor, place_of(tensor, i), std::span(&x, 1));
    const bool wide = tensor.type.format.width() == 64;
    const std::uint64_t code = wide ? narrow::encode(x, f) : narrow::encode(static_cast<float>(x), f);
    fuzz::require(codes[i] == code << shift);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string folder = fuzz::scratch_folder();
  if (size == 0) return 0;
  const narrow::Format& f = narrow::format_table[data[0] / 2 % std::size(narrow::format_table)].format;
  const std::string path = folder + (data[0] % 2 == 0 ? "/t.safetensors" : "/t.npy");
  try {
    const narrow::TensorFile file = open({reinterpret_cast<const char*>(data) + 1, size - 1});
    int left = 4;
    for (const narrow::Tensor& tensor : file.tensors)
      if (tensor.type.kind == narrow::ElementKind::floating && tensor.values() <= most_values && --left >= 0)
        check(tensor, f, path);
  } catch (const narrow::Error& error) {
    fuzz::check_message(error.what());
  }
  return 0;
}

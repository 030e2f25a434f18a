// Tensor files: opened without reading, read when asked, written whole or not at all.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include "bindings.hpp"
#include "narrow/scale/block_scale.hpp"
#include "narrow/scale/quantise.hpp"
#include "narrow/tensor/block_tensor.hpp"
#include "narrow/tensor/tensor_file.hpp"
#include "narrow/tensor/tensor_writer.hpp"
#include "narrow/text/quote.hpp"

namespace narrow::python {
namespace {

std::vector<std::size_t> shape_of(const Tensor& t) { return {t.shape.begin(), t.shape.end()}; }

// All elements in C order: their values as float or double, or their codes as unsigned integers.
template <class T>
nb::object read_as(const Tensor& tensor) {
  std::vector<T> out;
  {
    nb::gil_scoped_release release;
    const Tensor t = row_major(tensor);
    out.resize(static_cast<std::size_t>(t.values()));
    if constexpr (std::is_floating_point_v<T>) read_values(t, 0, std::span(out));
    else read_codes(t, 0, std::span(out));
  }
  return numpy_of(std::move(out), shape_of(tensor));
}

// The bytes of the file where they lie, as a read-only array that keeps the file open; None where they must be moved.
nb::object mapped(const Tensor& tensor) {
  const std::span<const std::byte> bytes = tensor.source->mapped();
  if (bytes.empty() || tensor.column_major || tensor.big_endian || tensor.blocks != nullptr ||
      tensor.type.bits % 8 != 0)
    return nb::none();
  tensor.source->check();
  auto* kept = new std::shared_ptr<const ByteSource>(tensor.source);
  const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::shared_ptr<const ByteSource>*>(p); });
  const std::size_t size = static_cast<std::size_t>(tensor.bytes());
  return nb::cast(nb::ndarray<nb::numpy, const std::uint8_t>(bytes.data(), 1, &size, owner), nb::rv_policy::reference);
}

// What a file holds of a matrix in a block format: (name, bytes, type, shape) of codes, scales and the tensor's factor,
// and the metadata that join them.
nb::tuple block_file_parts(const std::string& name, const std::vector<std::uint64_t>& shape, const InArray& codes,
                           const InArray& scales, const InArray& kept, const std::string& format_name) {
  const BlockFormat format = require_block_format(format_name);
  TensorHeader header;
  header.name = name, header.type = *find_element_type("F32"), header.shape = shape;
  const std::span code_span(static_cast<const std::uint8_t*>(codes.data()), codes.size());
  const std::span scale_span(static_cast<const float*>(scales.data()), scales.size());
  const auto bytes_of = [](const void* data, std::size_t size) {
    const auto* first = static_cast<const std::uint8_t*>(data);
    return std::vector<std::uint8_t>(first, first + size);
  };
  const std::vector<TensorHeader> headers = block_headers(header, format);
  // Codes that do not fill whole bytes stand one a byte.
  std::vector<std::vector<std::uint8_t>> bytes{headers[0].bytes() == code_span.size()
                                                   ? bytes_of(code_span.data(), code_span.size())
                                                   : packed_codes(code_span, format)};
  bytes.push_back(format.scale.width() == 8 ? scale_codes(scale_span, format)
                                            : bytes_of(scale_span.data(), scale_span.size_bytes()));
  if (kept.kind() != 'f' || kept.itemsize() != sizeof(float)) throw Error("factors are float32");
  const auto* first = static_cast<const float*>(kept.data());
  std::vector<float> factors(first, first + kept.size());
  for (float& factor : factors) factor = file_factor(factor, format);
  bytes.push_back(bytes_of(factors.data(), factors.size() * sizeof(float)));
  nb::list parts;
  for (std::size_t n = 0; n < headers.size(); ++n) {
    if (bytes[n].size() != headers[n].bytes() || codes.itemsize() != 1 || scales.kind() != 'f')
      throw Error(headers[n].name + ": " + std::to_string(bytes[n].size()) + " bytes where " +
                  std::to_string(headers[n].bytes()) + " are right: codes and scales do not fit each other");
    parts.append(nb::make_tuple(headers[n].name,
                                numpy_of(std::move(bytes[n]), {static_cast<std::size_t>(headers[n].bytes())}),
                                std::string(headers[n].type.name), headers[n].shape));
  }
  nb::dict said;
  said[block_format_key(name).c_str()] = format_name;
  if (headers.size() > 2) said[scale2_key(name).c_str()] = std::string(scale2_is_factor);
  return nb::make_tuple(parts, said);
}

void save(const std::string& path,
          const std::vector<std::tuple<std::string, InArray, std::string, std::vector<std::uint64_t>>>& tensors,
          const std::vector<std::pair<std::string, std::string>>& metadata) {
  std::vector<TensorHeader> headers;
  std::vector<Tensor> parts;
  for (const auto& [name, array, type, shape] : tensors) {
    parts.push_back(tensor_of(name, array, type));
    headers.push_back(parts.back());
    headers.back().shape = shape;
  }
  nb::gil_scoped_release release;
  TensorWriter writer(path, headers, metadata);
  for (const Tensor& part : parts) writer.write(part.source->mapped());
  writer.finish();
}

}  // namespace

void bind_tensors(nb::module_& m) {
  nb::class_<Tensor>(m, "FileTensor")
      .def_prop_ro("name", [](const Tensor& t) { return t.name; })
      .def_prop_ro("type", [](const Tensor& t) { return std::string(t.type.name); })
      .def_prop_ro("bits", [](const Tensor& t) { return t.type.bits; })
      .def_prop_ro("shape", [](const Tensor& t) { return nb::tuple(nb::cast(t.shape)); })
      .def_prop_ro("block_format", [](const Tensor& t) { return t.blocks ? t.blocks->format_name : std::string(); })
      .def("mapped", &mapped, nb::sig("def mapped(self) -> typing.Any"))
      .def(
          "values", [](const Tensor& t, bool wide) { return wide ? read_as<double>(t) : read_as<float>(t); },
          nb::sig("def values(self, wide: bool) -> typing.Any"))
      .def(
          "codes",
          [](const Tensor& t) {
            if (t.type.bits <= 8) return read_as<std::uint8_t>(t);
            if (t.type.bits <= 16) return read_as<std::uint16_t>(t);
            return t.type.bits <= 32 ? read_as<std::uint32_t>(t) : read_as<std::uint64_t>(t);
          },
          nb::sig("def codes(self) -> typing.Any"));
  m.def("open_file", [](const std::string& path) {
    TensorFile file;
    {
      nb::gil_scoped_release release;
      file = open_tensor_file(path);
    }
    nb::list tensors;
    for (Tensor& tensor : file.tensors) tensors.append(nb::cast(std::move(tensor)));
    nb::dict metadata, unreadable;
    for (const auto& [key, value] : file.metadata) metadata[key.c_str()] = value;
    for (const Unreadable& broken : file.unreadable) unreadable[broken.name.c_str()] = broken.why;
    return nb::make_tuple(tensors, metadata, unreadable);
  });
  m.def("save_file", &save);
  m.def("block_file_parts", &block_file_parts);
}

}  // namespace narrow::python

// The extension module narrow._narrow: what the package narrow is made of. Errors of the library are ValueError.
#include "bindings.hpp"
#include "cli/command.hpp"
#include "cli/terminal.hpp"
#include "narrow/base/version.hpp"
#include "narrow/simd/target.hpp"

namespace narrow::python {
namespace {

// A sentence about a flag is one about the argument of that name: "--random-bits: ..." is "random_bits: ...".
std::string without_flags(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const bool starts = text.compare(i, 2, "--") == 0 && (i == 0 || text[i - 1] == ' ' || text[i - 1] == '(');
    if (!starts) {
      out += text[i++];
      continue;
    }
    for (i += 2; i < text.size() && (text[i] == '-' || (text[i] >= 'a' && text[i] <= 'z')); ++i)
      out += text[i] == '-' ? '_' : text[i];
  }
  return out;
}

class ArraySource final : public ByteSource {
 public:
  ArraySource(const void* data, std::size_t bytes) : bytes_(static_cast<const std::byte*>(data), bytes) {}
  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    const auto piece = bytes_.subspan(static_cast<std::size_t>(offset), out.size());
    std::copy(piece.begin(), piece.end(), out.begin());
  }
  std::span<const std::byte> mapped() const override { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

// The program's answer to a command line: status, standard output, standard error.
nb::tuple run_command(const std::vector<std::string>& words) {
  std::vector<const char*> argv{"narrow"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  app::Captured captured;
  const int status = app::run_command_line(static_cast<int>(argv.size()), argv.data());
  return nb::make_tuple(status, captured.out, captured.err);
}

}  // namespace

nb::object to_python(const app::Json& value) {
  if (value.is_null()) return nb::none();
  if (value.is_boolean()) return nb::cast(value.get<bool>());
  if (value.is_number_unsigned()) return nb::cast(value.get<std::uint64_t>());
  if (value.is_number_integer()) return nb::cast(value.get<std::int64_t>());
  if (value.is_number_float()) return nb::cast(value.get<double>());
  if (value.is_string()) return nb::cast(value.get<std::string>());
  if (value.is_array()) {
    nb::list list;
    for (const app::Json& item : value) list.append(to_python(item));
    return list;
  }
  nb::dict record;
  for (const auto& item : value.items()) record[item.key().c_str()] = to_python(item.value());
  return record;
}

Tensor tensor_of(std::string name, const InArray& array, const std::string& type) {
  const ElementType* row = find_element_type(type);
  if (row == nullptr) throw Error(name + ": no element type is called " + type);
  Tensor tensor;
  tensor.name = std::move(name), tensor.type = *row;
  for (std::size_t i = 0; i < array.ndim(); ++i) tensor.shape.push_back(array.shape(i));
  if (!is_dense(array)) {
    if (!is_dense(array, false)) throw Error(tensor.name + ": an array with gaps");
    tensor.column_major = true;
  }
  tensor.source = std::make_shared<ArraySource>(array.data(), array.nbytes());
  return tensor;
}

}  // namespace narrow::python

NB_MODULE(_narrow, m) {
  namespace nb = nanobind;
  using namespace narrow::python;
  // A loss that a script still has when it ends holds torch's graph, and that our objects, beyond the end of modules:
  // no leak.
  nb::set_leak_warnings(false);
  m.def("version", [] { return std::string(narrow::version); });
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const narrow::Error& error) {
      PyErr_SetString(PyExc_ValueError, without_flags(error.what()).c_str());
    }
  });
  m.def("run_command", &run_command);
  m.def("instruction_set", [] { return std::string(narrow::simd::name_of(narrow::simd::current_target())); });
  bind_arrays(m);
  if constexpr (NARROW_HAS_CUDA) bind_device(m);
  bind_operations(m);
  bind_products(m);
  bind_scaling(m);
  bind_tensors(m);
  bind_training(m);
}

// Whole operations and the search for what made one, on arrays that the program's own requests name.
#include <nanobind/stl/map.h>
#include <nanobind/stl/tuple.h>

#include "bindings.hpp"
#include "narrow/tensor/tensor_file.hpp"
#include "products/op.hpp"
#include "products/op_validate.hpp"

namespace narrow::python {
namespace {

using Operand = std::tuple<std::string, InArray, std::string>;  // name, memory, type
using Words = std::map<std::string, std::string>;               // the flags by name: x, x_format, variant, ...

TensorsInMemory hold_operands(const std::vector<Operand>& operands) {
  std::vector<Tensor> tensors;
  for (const auto& [name, array, type] : operands) tensors.push_back(tensor_of(name, array, type));
  return TensorsInMemory(std::move(tensors));
}

void take(const Words& words, const char* name, std::optional<std::string>& to) {
  if (const auto found = words.find(name); found != words.end()) to = found->second;
}

app::OperationFlags flags_of(const std::string& name, const Words& words, bool causal) {
  app::OperationFlags flags;
  flags.name = name, flags.causal = causal;
  take(words, "variant", flags.variant), take(words, "model", flags.model), take(words, "eps", flags.eps);
  take(words, "scale", flags.scale);
  for (app::MatrixFlags* m : {&flags.x, &flags.w, &flags.b, &flags.target, &flags.q, &flags.k, &flags.v}) {
    const std::string word = m->name + 2;
    take(words, word.c_str(), m->file), take(words, (word + "_format").c_str(), m->format);
  }
  return flags;
}

// Codes in C order, their format, the shape; and what gave them.
nb::tuple operate(const std::string& name, const std::vector<Operand>& operands, const Words& words, bool causal) {
  app::Operated result;
  {
    const TensorsInMemory held = hold_operands(operands);
    nb::gil_scoped_release release;
    result = app::operate(flags_of(name, words, causal));
  }
  const std::size_t count = result.codes.size();
  nb::object codes = result.format.width() == 32
                         ? numpy_of(std::move(result.codes), {count})
                         : numpy_of(std::vector<std::uint16_t>(result.codes.begin(), result.codes.end()), {count});
  nb::list shape;
  for (const std::uint64_t n : result.shape) shape.append(n);
  return nb::make_tuple(codes, app::code_format_name(result.format), nb::tuple(shape));
}

nb::tuple validate_operation(const std::string& name, const std::vector<Operand>& operands, const Words& words,
                             bool causal) {
  app::OperationQuestion question{.operation = flags_of(name, words, causal), .gpu = {}, .vector = {}, .test = {}};
  take(words, "d", question.d.file), take(words, "d_format", question.d.format), take(words, "gpu", question.gpu);
  app::Validated result;
  {
    const TensorsInMemory held = hold_operands(operands);
    nb::gil_scoped_release release;
    result = app::validate_operation(question);
  }
  return nb::make_tuple(to_python(result.json), result.text);
}

}  // namespace

void bind_operations(nb::module_& m) {
  m.def("operate", &operate);
  m.def("validate_operation", &validate_operation);
}

}  // namespace narrow::python

// Whole operations and the search for what made one, on arrays that the program's own requests name.
#include <nanobind/stl/map.h>
#include <nanobind/stl/tuple.h>

#include "bindings.hpp"
#include "narrow/base/error.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/special/attention.hpp"
#include "narrow/special/operation.hpp"
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
  take(words, "scale", flags.scale), take(words, "words", flags.words), take(words, "plan", flags.plan);
  for (app::MatrixFlags* m : {&flags.x, &flags.w, &flags.b, &flags.g, &flags.target, &flags.q, &flags.k, &flags.v}) {
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

template <class T, class Array>
auto span_of(const Array& array) {
  if (array.itemsize() != sizeof(T))
    throw Error("an array of elements of " + std::to_string(sizeof(T)) + " bytes is needed");
  return std::span(static_cast<T*>(array.data()), array.size());
}

Format format_named(const std::string& name) {
  const std::optional<Format> f = find_format(name);
  if (!f) throw Error("no format " + name);
  return *f;
}

// sizes: batch, heads of q, heads of k, queries, keys, dimension. Codes in C order.
nb::tuple attention_gradients(const std::string& variant, const std::string& format,
                              const std::vector<std::size_t>& sizes, const InArray& q, const InArray& k,
                              const InArray& v, const InArray& g, bool causal, std::optional<double> scale) {
  using Code16 = const std::uint16_t;
  AttentionRequest r{.type = format_named(format),
                     .batch = sizes.at(0),
                     .heads = sizes.at(1),
                     .kv_heads = sizes.at(2),
                     .queries = sizes.at(3),
                     .keys = sizes.at(4),
                     .dim = sizes.at(5)};
  r.q = span_of<Code16>(q), r.k = span_of<Code16>(k), r.v = span_of<Code16>(v), r.causal = causal, r.scale = scale;
  AttentionGradients d;
  {
    nb::gil_scoped_release release;
    d = run_attention_backward(variant, r, span_of<Code16>(g));
  }
  const auto array = [](std::vector<std::uint16_t>& codes) {
    const std::size_t count = codes.size();
    return numpy_of(std::move(codes), {count});
  };
  return nb::make_tuple(array(d.q), array(d.k), array(d.v));
}

// p, m and v are FP32 that holds values of the format, and are stepped in place.
void step(const std::string& format, bool fused, std::uint64_t number, const std::vector<double>& numbers,
          const OutArray& p, const InArray& g, const OutArray& m, const OutArray& v) {
  const AdamW adamw{numbers.at(0), numbers.at(1), numbers.at(2), numbers.at(3), numbers.at(4), fused};
  adamw_step(adamw, format_named(format), number, span_of<float>(p), span_of<const float>(g), span_of<float>(m),
             span_of<float>(v));
}

float norm(const std::string& format, const std::vector<InArray>& tensors) {
  std::vector<std::span<const float>> spans;
  for (const InArray& t : tensors) spans.push_back(span_of<const float>(t));
  return grad_norm(format_named(format), spans);
}

}  // namespace

void bind_operations(nb::module_& m) {
  m.def("attention_backward", &attention_gradients, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
        nb::arg(), nb::arg(), nb::arg().none());
  m.def("adamw_step", &step);
  m.def("grad_norm", &norm);
  m.def("operate", &operate);
  m.def("validate_operation", &validate_operation);
}

}  // namespace narrow::python

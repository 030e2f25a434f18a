// Dot products, matrix products and the search for what made one, on arrays that the program's own requests name.
#include <nanobind/stl/map.h>
#include <nanobind/stl/tuple.h>

#include "bindings.hpp"
#include "narrow/dot/dot.hpp"
#include "narrow/dot/likelihood.hpp"
#include "narrow/tensor/tensor_file.hpp"
#include "options/model_choice.hpp"
#include "products/gemm.hpp"
#include "products/validate.hpp"

namespace narrow::python {
namespace {

using Operand = std::tuple<std::string, InArray, std::string>;  // name, memory, type
using Words = std::map<std::string, std::string>;               // the flags by name: a, a_format, model, ...

TensorsInMemory hold(const std::vector<Operand>& operands) {
  std::vector<Tensor> tensors;
  for (const auto& [name, array, type] : operands) tensors.push_back(tensor_of(name, array, type));
  return TensorsInMemory(std::move(tensors));
}

void set(app::ProductOptions& p, const Words& words) {
  const auto take = [&](const char* name, std::optional<std::string>& to) {
    if (const auto found = words.find(name); found != words.end()) to = found->second;
  };
  take("model", p.model), take("plan", p.plan), take("alpha", p.alpha), take("beta", p.beta);
  take("scale_a", p.scale_a), take("scale_b", p.scale_b), take("epilogue", p.epilogue);
  take("threads", p.threads);
  take("a", p.a.file), take("b", p.b.file), take("c", p.c.file);
  take("a_format", p.a.format), take("b_format", p.b.format), take("c_format", p.c.format);
}

nb::tuple matmul(const std::vector<Operand>& operands, const Words& words, bool round) {
  app::GemmFlags flags;
  flags.round = round;
  set(flags.product, words);
  if (const auto found = words.find("output"); found != words.end()) flags.output = found->second;
  app::Multiplied m;
  {
    const TensorsInMemory held = hold(operands);
    nb::gil_scoped_release release;
    app::multiply(flags, m);
  }
  std::vector<std::size_t> shape{m.d.rows, m.d.cols};
  if (m.d.items > 1) shape.insert(shape.begin(), m.d.items);
  nb::object codes = std::visit([&](auto& c) { return numpy_of(std::move(c), shape); }, m.d.codes);
  return nb::make_tuple(codes, app::code_format_name(m.d.format));
}

nb::tuple validate(const std::vector<Operand>& operands, const Words& words) {
  app::ValidateFlags flags;
  set(flags.product, words);
  flags.d.file = words.at("d");
  if (const auto found = words.find("d_format"); found != words.end()) flags.d.format = found->second;
  if (const auto found = words.find("gpu"); found != words.end()) flags.gpu = found->second;
  app::Validated result;
  {
    const TensorsInMemory held = hold(operands);
    nb::gil_scoped_release release;
    result = app::validate_product(flags);
  }
  return nb::make_tuple(to_python(result.json), result.text);
}

}  // namespace

void bind_products(nb::module_& m) {
  m.def("matmul", &matmul);
  m.def("validate", &validate);
  m.def("knows_gpu", [](const std::string& name) {
    try {
      (void)gpu_generation(name);
      return true;
    } catch (const Error&) {
      return false;
    }
  });
  m.def("model_formats", [](const std::string& name) {  // of a, b and the accumulator
    const DotModel& model = app::choose_model(name);
    return nb::make_tuple(app::code_format_name(model.a.format), app::code_format_name(model.b.format),
                          app::code_format_name(model.accumulator.format));
  });
  m.def("dot", [](const std::string& name, const std::vector<Code>& a, const std::vector<Code>& b, Code c) {
    if (a.size() != b.size())
      throw Error("a has " + std::to_string(a.size()) + " elements and b has " + std::to_string(b.size()));
    const DotModel& model = app::choose_model(name);
    nb::gil_scoped_release release;
    return dot(model, a, b, c);
  });
}

}  // namespace narrow::python

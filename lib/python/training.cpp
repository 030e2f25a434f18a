// Recipes of the trainer as JSON, and operands of products as their policies scale them.
#include <nanobind/stl/array.h>

#include "bindings.hpp"
#include "narrow/format/decode.hpp"
#include "narrow/scale/block_scale.hpp"
#include "narrow/scale/hadamard.hpp"
#include "narrow/scale/quantise.hpp"
#include "narrow/train/policy/recipe.hpp"
#include "narrow/train/policy/recipe_words.hpp"
#include "narrow/train/run/task.hpp"
#include "narrow/train/run/trainer.hpp"

namespace narrow::python {
namespace {

// A name, a file, or the JSON itself.
std::string recipe_json(const std::string& text) {
  const bool is_json = text.find('{') != std::string::npos;
  return train::recipe_json(is_json ? train::parse_recipe(text, "recipe") : train::require_recipe(text));
}

std::vector<std::string> recipe_names() {
  std::vector<std::string> names;
  for (const train::RecipeRow& row : train::recipe_table()) names.emplace_back(row.name);
  return names;
}

OperandScaling make_scaling(const std::string& format, const std::string& scaling, const Word& rule) {
  train::Precision p{.format = app::choose_format(format).format};
  p.scaling = static_cast<train::Scaling>(train::choose("scaling", "scaling", scaling, train::scaling_names));
  if (rule) p.rule = train::require_scale_rule("rule", *rule);
  const BlockFormat blocks = block_format_of(p);
  if (blocks.has_row_scales())
    throw Error("rule: " + std::string(row_of(blocks.rule).name) +
                " is not emulated here: a product is multiplied by one factor of each operand");
  return {blocks};
}

// Whether element times scale has at most the 8 significant bits of BF16: whole tensors keep their scale apart, powers
// of two add none, an E4M3 scale has four and an E2M1 element two.
bool fits_bf16(const OperandScaling& s) {
  const BlockFormat& f = s.format;
  if (f.block_rows == 0 || f.scale == "e8m0"_fmt) return true;
  switch (f.rule) {
    case ScaleRule::te_nvfp4:
    case ScaleRule::te_4over6:
    case ScaleRule::te_4over6_mse:
    case ScaleRule::torchao_nvfp4:
    case ScaleRule::nvfp4_single:
    case ScaleRule::ct_nvfp4:
    case ScaleRule::modelopt_nvfp4: return f.element.mantissa_bits <= 3;
    case ScaleRule::te_block:
    case ScaleRule::te_current_pow2:
    case ScaleRule::torchao_fp8_pow2:
    case ScaleRule::deepgemm_ue8m0: return true;
    default: return false;
  }
}

// out: elements times the scales of their blocks (whole tensors: the elements). Returns what a product is multiplied by
// afterwards: the scale or the factor of the whole tensor. With a seed elements are rounded stochastically.
float scale_operand(const OperandScaling& scaling, const InArray& x, const OutArray& out,
                    std::optional<std::uint64_t> seed) {
  if (x.kind() != 'f' || out.kind() != 'f' || x.ndim() != 2 || !is_dense(x) || !is_dense(out) || x.size() != out.size())
    throw Error("float32 matrices of one shape without gaps are needed here");
  const BlockFormat& f = scaling.format;
  const std::span<const float> data(static_cast<const float*>(x.data()), x.size());
  nb::gil_scoped_release release;
  const Quantised q = seed ? quantise_stochastically(data, x.shape(0), x.shape(1), f, *seed)
                           : quantise(data, x.shape(0), x.shape(1), f);
  std::array<float, 256> values{};
  for (std::size_t code = 0; code < (std::size_t{1} << f.element.width()); ++code)
    values[code] = static_cast<float>(decode(code, f.element));
  auto* to = static_cast<float*>(out.data());
  if (f.block_rows == 0) {
    for (const std::uint8_t code : q.codes) *to++ = values[code];
    return q.scales.empty() ? 1 : q.scales[0];
  }
  const std::size_t wide = grid_cols(f, q.cols);
  for (std::size_t i = 0; i < q.codes.size(); ++i)
    *to++ = values[q.codes[i]] * q.scales[i / q.cols / f.block_rows * wide + i % q.cols / f.block_cols];
  return f.has_tensor_scale() ? decode_factor(1, tensor_scale(tensor_amax(data, f), f), f) : 1;
}

// Runs of 16 down the rows of a matrix, in place; rows that are left over stay.
void turn_rows(const OutArray& x) {
  if (x.kind() != 'f' || x.ndim() != 2 || !is_dense(x)) throw Error("a float32 matrix without gaps is needed here");
  nb::gil_scoped_release release;
  const std::size_t rows = x.shape(0), cols = x.shape(1);
  auto* data = static_cast<float*>(x.data());
  for (std::size_t top = 0; top + hadamard_size <= rows; top += hadamard_size)
    for (std::size_t j = 0; j < cols; ++j) {
      float run[hadamard_size];
      for (std::size_t i = 0; i < hadamard_size; ++i) run[i] = data[(top + i) * cols + j];
      turn_by_hadamard(run);
      for (std::size_t i = 0; i < hadamard_size; ++i) data[(top + i) * cols + j] = run[i];
    }
}

// How `narrow train` starts and what it sees: the parameters by name and the batches of its steps, for another program
// that is to train the same model.
nb::dict training_start(const std::string& task, std::uint64_t seed, std::uint64_t steps,
                        const std::optional<std::array<std::size_t, 4>>& sizes) {
  train::RunRequest request;
  request.task = train::require_task(task);
  train::ModelShape shape = settings_of(request.task).shape;
  if (sizes)
    shape.layers = (*sizes)[0], shape.width = (*sizes)[1], shape.heads = (*sizes)[2], shape.context = (*sizes)[3];
  request.seed = seed, request.shape = shape, request.steps = steps;
  train::Trainer trainer(request);
  nb::dict parameters;
  for (train::Parameter<float>* p : trainer.model().parameters())
    parameters[p->name.c_str()] = numpy_of(std::vector<float>(p->value.data), p->value.shape);
  nb::list batches;
  while (!trainer.finished()) {
    train::Batch b;
    trainer.step([&](train::Model<float>&, train::Batch& batch) { b = batch; });
    const std::size_t size = b.size;
    const auto table = [size](auto values) {
      const std::size_t width = values.size() / size;
      return numpy_of(std::move(values), {size, width});
    };
    nb::object inputs = b.tokens.empty() ? table(std::move(b.inputs)) : table(std::move(b.tokens));
    batches.append(nb::make_tuple(inputs, table(std::move(b.targets))));
  }
  nb::dict all;
  all["parameters"] = parameters, all["batches"] = batches;
  return all;
}

}  // namespace

void bind_training(nb::module_& m) {
  m.def("recipe_json", &recipe_json);
  m.def("recipe_names", &recipe_names);
  nb::class_<OperandScaling>(m, "OperandScaling").def_prop_ro("fits_bf16", &fits_bf16);
  m.def("operand_scaling", &make_scaling, nb::arg("format"), nb::arg("scaling"), nb::arg("rule") = nb::none());
  m.def("scale_operand", &scale_operand, nb::arg("scaling"), nb::arg("x"), nb::arg("out"),
        nb::arg("seed") = nb::none());
  m.def("turn_by_hadamard", &turn_rows);
  m.def("training_start", &training_start, nb::arg("task"), nb::arg("seed"), nb::arg("steps"),
        nb::arg("sizes") = nb::none());
}

}  // namespace narrow::python

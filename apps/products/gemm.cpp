// narrow gemm: a matrix product as a machine computes it, and how far it is from the exact one.
#include "products/gemm.hpp"

#include <cmath>
#include <memory>

#include "cli/json_value.hpp"
#include "cli/number_text.hpp"
#include "cli/terminal.hpp"
#include "narrow/dot/operand.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/text.hpp"
#include "options/model_choice.hpp"
#include "products/epilogue.hpp"

namespace app {
namespace of_gemm {

using narrow::Code;
using narrow::CodeMatrix;
using narrow::DotModel;
using narrow::Format;

constexpr std::size_t small = 8;  // matrices up to 8x8 are shown in full
constexpr Format tf32 = narrow::operator""_fmt("tf32", 4);

struct Options : GemmFlags {
  std::optional<std::string> file;
  bool reference = false, json = false;
};

// What is in D.
struct Summary {
  std::size_t finite = 0, inf = 0, nan = 0, zeros = 0;
  double least = 0, most = 0, smallest = 0;  // smallest: magnitude that is not zero
};

Summary summarise(const LoadedMatrix& m) {
  Summary s;
  const Format& f = m.format;
  for (std::size_t n = 0; n < m.items * m.rows; ++n)
    for (std::size_t j = 0; j < m.cols; ++j) {
      const double x = narrow::decode(m.view(n / m.rows)(n % m.rows, j), f);
      if (std::isnan(x)) ++s.nan;
      else if (std::isinf(x)) ++s.inf;
      else {
        s.least = s.finite == 0 ? x : std::min(s.least, x);
        s.most = s.finite == 0 ? x : std::max(s.most, x);
        ++s.finite;
        if (x == 0) ++s.zeros;
        else if (s.smallest == 0 || std::fabs(x) < s.smallest) s.smallest = std::fabs(x);
      }
    }
  return s;
}

// The exact product is that of the operands as the multiplier saw them: TF32 words as the plan prepared them, integers
// as integers.
narrow::ProductError compare(const DotModel& model, const narrow::Plan& plan, const ProductInputs& in,
                             const LoadedMatrix& d) {
  if (in.items() > 1)
    throw narrow::Error("--reference: knows one product, and there are " + std::to_string(in.items()));
  const auto prepared = [&](const LoadedMatrix& matrix, const Format& f) {
    LoadedMatrix out = matrix;
    if (!(f == tf32) || plan.operands == narrow::Operands::cut) return out;
    const narrow::detail::OperandCodes codes(matrix.view(), f, plan.operands);
    for (std::uint32_t& word : std::get<std::vector<std::uint32_t>>(out.codes))
      word = static_cast<std::uint32_t>(codes.prepared(word) << 13);
    return out;
  };
  const LoadedMatrix a = prepared(in.a, model.a.format), b = prepared(in.b, model.b.format);
  return narrow::product_error(model, a.view(), b.view(), in.c_view(), d.view(), d.format, 0, in.options.threads,
                               in.options);
}

struct Result {
  const DotModel& model;
  narrow::Plan plan;
  const ProductInputs& in;
  const LoadedMatrix& d;
  Summary summary;
  std::optional<narrow::ProductError> error;
  const std::optional<std::string>& file;
  const std::optional<std::string>& epilogue;

  bool is_small() const { return d.rows * d.items <= small && d.cols <= small; }
};

std::string small_matrix(const LoadedMatrix& d, std::size_t item, bool codes) {
  TextTable table;
  for (std::size_t j = 0; j < d.cols; ++j) {
    table.header.push_back(std::to_string(j));
    table.align.push_back(Align::right);
  }
  const Format f = d.format;
  for (std::size_t i = 0; i < d.rows; ++i) {
    std::vector<TextCell> row;
    for (std::size_t j = 0; j < d.cols; ++j) {
      const Code code = d.view(item)(i, j);
      row.push_back(codes ? narrow::to_hex_code(code, f) : digits_text(narrow::decode(code, f), 8));
    }
    table.rows.push_back(std::move(row));
  }
  return table.to_text(use_colour(1), 4);
}

std::string to_text(const Result& r) {
  const bool colour = use_colour(1);
  const Summary& s = r.summary;
  std::string text = paint("D", Colour::bold, colour) + "  " + product_shape(r.in) +
                     (r.in.c ? r.in.c->one_row_for_all ? " + bias" : " + C" : "") + ", " +
                     code_format_name(r.d.format) + "\n";
  text += "  model     " + std::string(r.model.name.view()) + "\n  evidence  " + narrow::evidence_text(r.model) +
          "\n  plan      " + narrow::plan_text(r.plan) + "\n";
  if (r.epilogue) text += "  epilogue  " + *r.epilogue + "\n";
  text += "  values    finite " + std::to_string(s.finite) + ", zero " + std::to_string(s.zeros) + ", Inf " +
          std::to_string(s.inf) + ", NaN " + std::to_string(s.nan);
  if (s.finite > 0) text += "; from " + digits_text(s.least, 6) + " to " + digits_text(s.most, 6);
  text += "\n";
  if (r.error) {
    const narrow::ProductError& e = *r.error;
    text += "  reference " + std::to_string(e.exact) + " of " + std::to_string(e.outputs) +
            " outputs are the exact sum rounded once\n";
    if (e.compared > 0)
      text += "            relative error: mean " + digits_text(e.mean_relative, 3) + ", largest " +
              digits_text(e.max_relative, 3) + " at [" + std::to_string(e.worst_row) + ", " +
              std::to_string(e.worst_col) + "]\n            bits lost below 2^-24: mean " +
              digits_text(e.mean_bits_lost, 3) + ", largest " + digits_text(e.max_bits_lost, 3) + "\n";
  }
  if (r.file) text += "  written   " + *r.file + "\n";
  for (std::size_t n = 0; !r.file && r.is_small() && n < r.d.items; ++n)
    text += (r.d.items > 1 ? "\nitem " + std::to_string(n) : "") + "\n" + small_matrix(r.d, n, false) + "\n" +
            small_matrix(r.d, n, true);
  return text;
}

Json to_json(const Result& r) {
  const Summary& s = r.summary;
  Json out = Json::object();
  out["model"] = std::string(r.model.name.view());
  out["evidence"] = narrow::evidence_name(r.model.evidence);
  out["plan"] = narrow::plan_text(r.plan);
  out["epilogue"] = r.epilogue ? Json(*r.epilogue) : Json();
  out["m"] = r.d.rows;
  out["n"] = r.d.cols;
  out["k"] = r.in.a.cols;
  out["items"] = r.d.items;
  out["format"] = code_format_name(r.d.format);
  out["finite"] = s.finite;
  out["zeros"] = s.zeros;
  out["inf"] = s.inf;
  out["nan"] = s.nan;
  out["min"] = s.finite > 0 ? json_number(s.least) : Json();
  out["max"] = s.finite > 0 ? json_number(s.most) : Json();
  out["min_nonzero"] = s.smallest > 0 ? json_number(s.smallest) : Json();
  out["file"] = r.file ? Json(*r.file) : Json();
  if (r.error) {
    Json e = Json::object();
    e["outputs"] = r.error->outputs;
    e["compared"] = r.error->compared;
    e["exact"] = r.error->exact;
    e["max_relative"] = r.error->max_relative;
    e["mean_relative"] = r.error->mean_relative;
    e["max_bits_lost"] = r.error->max_bits_lost;
    e["mean_bits_lost"] = r.error->mean_bits_lost;
    e["worst"] = {r.error->worst_row, r.error->worst_col};
    out["reference"] = std::move(e);
  }
  if (r.is_small()) {
    const auto matrix = [&](std::size_t item, const auto& of) {
      Json rows = Json::array();
      for (std::size_t i = 0; i < r.d.rows; ++i) {
        Json row = Json::array();
        for (std::size_t j = 0; j < r.d.cols; ++j) row.push_back(of(r.d.view(item)(i, j)));
        rows.push_back(std::move(row));
      }
      return rows;
    };
    const auto all = [&](const auto& of) {
      if (r.d.items == 1) return matrix(0, of);
      Json items = Json::array();
      for (std::size_t n = 0; n < r.d.items; ++n) items.push_back(matrix(n, of));
      return items;
    };
    out["values"] = all([&](narrow::Code code) { return json_number(narrow::decode(code, r.d.format)); });
    out["codes"] = all([&](narrow::Code code) { return Json(narrow::to_hex_code(code, r.d.format)); });
  }
  return out;
}

int run(const Options& options) {
  if (options.file && !options.file->ends_with(".npy") && !options.file->ends_with(".safetensors"))
    throw narrow::Error("-o: " + narrow::quote(*options.file) + "; give a file that ends in .npy or .safetensors");
  if (options.reference && options.product.epilogue && *options.product.epilogue != "bias")
    throw narrow::Error("--reference: knows products, and --epilogue asks for " +
                        narrow::quote(*options.product.epilogue) + " of one");
  Multiplied m;
  multiply(options, m);
  Result result{m.model, m.plan, m.in, m.d, summarise(m.d), {}, options.file, options.product.epilogue};
  if (options.reference) result.error = compare(m.model, m.plan, m.in, m.d);
  if (options.file) write_matrices(*options.file, {{"D", &m.d}});
  print(options.json ? json_text(to_json(result)) : to_text(result));
  return 0;
}

Action declare(Arguments& arguments) {
  const auto options = std::make_shared<Options>();
  options->product.declare(arguments);
  arguments.option("-o,--out", options->file, "FILE", "write D: .npy or .safetensors");
  arguments.option("--output", options->output, "F", "D's format (default: the accumulator's)");
  arguments.flag("--round", options->round, "round A and B to the model's operands, to nearest even");
  arguments.flag("--reference", options->reference, "the error against the exact product");
  arguments.flag("--json", options->json, "print JSON");
  return [options] { return run(*options); };
}

}  // namespace of_gemm

void multiply(const GemmFlags& flags, Multiplied& m) {
  const ProductOptions& p = flags.product;
  if (!p.model)
    throw narrow::Error("gemm: --model is missing; for example --model hopper.wgmma.f32.f16.f16; see narrow models");
  m.model = blame("--model", [&] { return choose_model(*p.model); });
  if (p.plan) m.plan = blame("--plan", [&] { return narrow::parse_plan(*p.plan); });
  ProductInputs& in = m.in;
  if (flags.output) in.options.output = blame("--output", [&] { return choose_code_format(*flags.output); });
  const narrow::Format output = in.options.output.value_or(m.model.accumulator.format);
  load_product(p, "gemm", in);
  read_epilogue(p, in);
  fit_matrix(in.a, p.a, m.model.a, m.model.name.view(), flags.round);
  fit_matrix(in.b, p.b, m.model.b, m.model.name.view(), flags.round);
  if (in.c && in.c->format.is_integer() != m.model.is_integer())
    fit_matrix(*in.c, p.c, m.model.accumulator, m.model.name.view(), false);
  if (output.is_integer() && !m.model.is_integer())
    throw narrow::Error("--output: " + std::string(m.model.name.view()) +
                        " has a floating result; for example --output bf16");
  m.d = make_matrix(in.a.rows, in.b.cols, output, in.items());
  std::visit(
      [&](auto& codes) {
        using U = std::remove_reference_t<decltype(codes[0])>;
        for (std::size_t n = 0; n < m.d.items; ++n)
          narrow::gemm(m.model, m.plan, in.a.view(n), in.b.view(n), in.c_view(n),
                       narrow::MatrixView<U>{codes.data() + n * m.d.item_step(), m.d.rows, m.d.cols}, in.options);
      },
      m.d.codes);
}

const Command gemm_command{
    "gemm", "a matrix product as a tensor core computes it, and its error",
    "narrow gemm --model hopper.wgmma.f32.f16.f16 --plan split:1408 --a a.npy --b b.npy -o d.npy --reference",
    of_gemm::declare,
    "D = alpha * (A B) + beta * C with the bits of a GPU's kernel: --model is the instruction, --plan the "
    "order in which partial sums meet (one chain, split K, stream K, promotion to FP32 every so many), --epilogue what "
    "follows: bias+gelu in the kernel itself, bias+round+gelu in a kernel of its own. "
    "--reference adds the exact product and the errors against it."};

}  // namespace app

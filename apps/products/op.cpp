// narrow op: softmax, norms, activations, sums, linear layers and attention with the bits of a GPU's kernels.
#include "products/op.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include "cli/json_value.hpp"
#include "cli/number_text.hpp"
#include "cli/terminal.hpp"
#include "narrow/tensor/tensor_writer.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/text.hpp"
#include "options/tensor_text.hpp"

namespace app {
namespace of_op {

constexpr std::size_t shown = 8;  // first values

struct Options : OperationFlags {
  std::vector<std::string> names;
  std::optional<std::string> file;
  bool list = false, json = false;
};

struct Counts {
  std::size_t finite = 0, inf = 0, nan = 0, zeros = 0;
  double least = 0, most = 0;
};

Counts count(const Operated& result) {
  Counts c;
  for (const std::uint32_t code : result.codes) {
    const double x = narrow::decode(code, result.format);
    if (std::isnan(x)) ++c.nan;
    else if (std::isinf(x)) ++c.inf;
    else {
      c.least = c.finite == 0 ? x : std::min(c.least, x), c.most = c.finite == 0 ? x : std::max(c.most, x);
      ++c.finite;
      if (x == 0) ++c.zeros;
    }
  }
  return c;
}

std::string to_text(const Operated& r, const std::optional<std::string>& file) {
  const Counts c = count(r);
  std::string text = paint(r.name, Colour::bold, use_colour(1)) + "  " + shape_text(r.shape) + " " +
                     code_format_name(r.format) + "\n  variant   " + r.variant + ": " + r.what + "\n  kernel    " +
                     r.kernel + "\n  values    finite " + std::to_string(c.finite) + ", zero " +
                     std::to_string(c.zeros) + ", Inf " + std::to_string(c.inf) + ", NaN " + std::to_string(c.nan);
  if (c.finite > 0) text += "; from " + digits_text(c.least, 6) + " to " + digits_text(c.most, 6);
  text += "\n  first     ";
  for (std::size_t n = 0; n < std::min(shown, r.codes.size()); ++n)
    text += (n > 0 ? ", " : "") + digits_text(narrow::decode(r.codes[n], r.format), 6);
  if (r.codes.size() > shown) text += ", ...";
  return text + "\n" + (file ? "  written   " + *file + "\n" : "");
}

Json to_json(const Operated& r, const std::optional<std::string>& file) {
  const Counts c = count(r);
  Json out = Json::object();
  out["operation"] = r.name;
  out["variant"] = r.variant;
  out["kernel"] = r.kernel;
  out["what"] = r.what;
  out["shape"] = r.shape;
  out["format"] = code_format_name(r.format);
  out["finite"] = c.finite;
  out["zeros"] = c.zeros;
  out["inf"] = c.inf;
  out["nan"] = c.nan;
  out["min"] = c.finite > 0 ? json_number(c.least) : Json();
  out["max"] = c.finite > 0 ? json_number(c.most) : Json();
  out["first_values"] = Json::array();
  out["first_codes"] = Json::array();
  for (std::size_t n = 0; n < std::min(shown, r.codes.size()); ++n) {
    out["first_values"].push_back(json_number(narrow::decode(r.codes[n], r.format)));
    out["first_codes"].push_back(narrow::to_hex_code(r.codes[n], r.format));
  }
  out["file"] = file ? Json(*file) : Json();
  return out;
}

void print_list(const Options& options) {
  const std::vector<OperationLine> lines = operation_lines(options.names.empty() ? "" : options.names.front());
  if (options.json) {
    Json list = Json::array();
    for (const OperationLine& line : lines)
      list.push_back({{"operation", line.operation}, {"variant", line.variant}, {"what", line.what}});
    return print(json_text(list));
  }
  TextTable table{{"operation", "variant", "what"}, {Align::left, Align::left, Align::left}, {}};
  for (const OperationLine& line : lines) table.rows.push_back({line.operation, line.variant, line.what});
  print(table.to_text(use_colour(1), 0));
}

void write_result(const std::string& path, const Operated& r) {
  narrow::TensorWriter writer(path, {{"D", narrow::type_of_codes(r.format, r.codes.size()).type, r.shape}});
  if (r.format.width() == 32) {
    writer.write(std::as_bytes(std::span(r.codes)));
  } else {
    const std::vector<std::uint16_t> codes(r.codes.begin(), r.codes.end());
    writer.write(std::as_bytes(std::span(codes)));
  }
  writer.finish();
}

int run(const Options& options) {
  if (options.names.size() > 1)
    throw narrow::Error("op: " + narrow::quote(options.names[1]) + "; one operation is named, and then its operands");
  if (options.file && !options.file->ends_with(".npy") && !options.file->ends_with(".safetensors"))
    throw narrow::Error("-o: " + narrow::quote(*options.file) + "; give a file that ends in .npy or .safetensors");
  const bool asks = !options.given().empty() || options.b.file || options.model || options.plan || options.threads || options.file;
  if (options.names.empty() && asks && !options.list)
    throw narrow::Error(std::string("op: which one? ") + operation_names);
  if (options.list || options.names.empty()) return print_list(options), 0;
  OperationFlags flags = options;
  flags.name = options.names.front();
  const Operated result = operate(flags);
  if (options.file) write_result(*options.file, result);
  print(options.json ? json_text(to_json(result, options.file)) : to_text(result, options.file));
  return 0;
}

Action declare(Arguments& arguments) {
  const auto options = std::make_shared<Options>();
  arguments.values("NAME", options->names, operation_names);
  options->declare(arguments, false);
  arguments.option("-o,--out", options->file, "OUT", "write the result: .npy or .safetensors");
  arguments.flag("--list", options->list, "operations and their variants");
  arguments.flag("--json", options->json, "print JSON");
  return [options] { return run(*options); };
}

}  // namespace of_op

Operated operate(const OperationFlags& flags) {
  const LoadedOperation operation = load_operation(flags);
  if (operation.variants.empty())
    throw narrow::Error(
        "--variant: " + flags.variant.value_or(flags.name) +
        ": cuBLAS chooses the orders of sums for one head, one query or one key; narrow validate --op attention finds them in a "
        "result, --plan SCORES/VALUES takes them, for example --plan split:32/chain");
  const OperationVariant& first = operation.variants.front();
  // What was not asked for is no definition in double: its bits are no kernel's.
  if (!flags.variant && !first.is_kernel)
    throw narrow::Error(flags.name + ": no kernel is known that takes these operands; --variant " + first.name +
                        " gives " + first.what);
  return {operation.name, first.name, first.kernel, first.what, operation.format, operation.shape, first.run()};
}

const Command op_command{
    "op", "softmax, norms, activations, sums, linear layers and attention as a GPU computes them",
    "narrow op softmax --x step300.safetensors:act.head -o softmax.npy", of_op::declare,
    "An operation with the bits of the kernel that runs it on a GPU: a variant says in which order it adds, which "
    "functions it calls and where it rounds. torch is what PyTorch runs on an H200 for this type and shape; double and "
    "exact are the definition, rounded once. narrow op alone lists what there is.\n\n"
    "The result has the type of x, or of q. linear multiplies as narrow gemm does, by --model and a plan. Attention is "
    "cudnn where that takes the operands, as in PyTorch, then flash2. Backward passes take the gradient of the result "
    "as --g; x of softmax_backward and log_softmax_backward is the result of the forward pass. Which variant gave a result that is there: "
    "narrow validate --op."};

}  // namespace app

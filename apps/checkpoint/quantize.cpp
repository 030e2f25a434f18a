// narrow quantize: the linear weights of a model to a block format, in the layout that another tool reads.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "checkpoint/model.hpp"
#include "checkpoint/names.hpp"
#include "cli/command.hpp"
#include "cli/terminal.hpp"
#include "narrow/tensor/layout/layout.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/text.hpp"
#include "options/tensor_choice.hpp"
#include "options/tensor_text.hpp"

namespace app {
namespace of_quantize {

struct Options {
  std::vector<std::string> files;
  std::optional<std::string> layout, to, rule, keep, tensors;
  bool json = false;
};

std::string words(const auto& list) {
  std::string text;
  for (const auto& word : list) text += (text.empty() ? "" : " ") + std::string(word);
  return text;
}

const narrow::Layout& choose_layout(const std::string& name) {
  std::vector<std::string_view> known;
  for (const narrow::Layout* row : narrow::layouts())
    if (row->headers != nullptr) {
      if (row->name == name) return *row;
      known.push_back(row->name);
    }
  throw narrow::Error("--layout: " + narrow::quote(name) + " is no layout that is written; " +
                      narrow::hint(name, known) + "accepted: " + words(known));
}

struct Target {
  std::string name;
  narrow::BlockFormat format;
};

// Of the layout's own list, with the rule that its tools use unless another one is named.
Target choose_format(const narrow::Layout& layout, const std::string& to, const std::optional<std::string>& rule) {
  std::string wanted = to.substr(0, to.find(':'));
  const narrow::BlockFormat plain = blame("--to", [&] { return narrow::require_block_format(to); });
  const bool names_rule = rule || to.find(':') != std::string::npos;
  std::string name = names_rule ? wanted + ":" + (rule ? *rule : to.substr(to.find(':') + 1)) : wanted;
  std::vector<std::string> accepted;
  bool found = layout.formats.empty();
  for (const std::string_view entry : layout.formats) {
    narrow::BlockFormat own = narrow::require_block_format(entry);
    accepted.emplace_back(entry.substr(0, entry.find(':')));
    const narrow::ScaleRule own_rule = own.rule;
    own.rule = plain.rule;
    if (!(own == plain)) continue;
    found = true;
    own.rule = own_rule;
    if (!names_rule) name = entry;
  }
  if (!found)
    throw narrow::Error("--to: layout " + std::string(layout.name) + " has no " + narrow::quote(wanted) +
                        "; accepted: " + words(accepted));
  const narrow::BlockFormat format =
      blame(rule ? "--rule" : "--to", [&] { return narrow::require_block_format(name); });
  if (!layout.formats.empty() && format.has_tensor_scale() != plain.has_tensor_scale())
    throw narrow::Error("--rule: " + narrow::quote(name) + " has no factor of the tensor, and layout " +
                        std::string(layout.name) + " has one");
  return {wanted + ":" + std::string(narrow::row_of(format.rule).name), format};
}

// Weights of linear layers: what no custom keeps.
bool is_linear_weight(const narrow::Tensor& t) {
  if (t.type.kind != narrow::ElementKind::floating || t.shape.size() < 2 || t.values() == 0 ||
      is_kept_by_custom(t.name))
    return false;
  return t.name.find("bias") == std::string::npos &&
         (t.name.ends_with("weight") || t.name.find("experts") != std::string::npos);
}

// The largest magnitude of a tensor, or of all that loaders join with it, because they take one factor for all.
class Amaxes {
 public:
  Amaxes(const Model& model, const narrow::BlockFormat& format) : model_(model), format_(format) {}

  std::optional<float> of(const std::string& name, const narrow::BytesDone& done) {
    if (!format_.has_tensor_scale()) return {};
    const std::vector<std::string> group = fused_with(name);
    const auto known = known_.find(group[0]);
    if (known != known_.end()) return known->second;
    float most = 0;
    for (const std::string& other : group)
      if (const narrow::Tensor* t = model_.find(other); t != nullptr && t->type.has_format()) {
        const float amax = narrow::tensor_amax(*t, format_, done);
        most = std::isnan(amax) || std::isnan(most) ? NAN : std::max(most, amax);
      }
    return known_[group[0]] = most == 0 ? 1 : most;  // of zeros any factor is right, and some rules divide by this one
  }

 private:
  const Model& model_;
  const narrow::BlockFormat format_;
  std::map<std::string, float> known_;
};

struct Plan {
  const narrow::Layout& layout;
  Target to;
  Amaxes amaxes;
  std::optional<NamePattern> keep = {}, only = {};
  narrow::NotKept not_kept = {};
  std::uint64_t weights = 0, weight_bytes = 0, dropped = 0;  // dropped: scales of activations, of another layout
  std::vector<std::string> kept_modules = {}, unfit = {};  // unfit: wanted, and why they have no place in the layout

  bool wants(const narrow::Tensor& t) const {
    if (keep && keep->matches(t.name)) return false;
    return only ? only->matches(t.name) && t.type.has_format() && t.values() != 0 : is_linear_weight(t);
  }
};

// Shapes and zero points go with the codes; what tells of activations was true of the weights whatever holds them.
std::uint64_t beside(const narrow::Tensor& t) {
  if (!t.blocks) return 0;
  return static_cast<std::uint64_t>(
      std::count_if(t.blocks->beside.begin(), t.blocks->beside.end(), [](const narrow::Tensor& part) {
        return part.name.ends_with("input_scale") || part.name.ends_with("input_global_scale");
      }));
}

Converted quantised(const narrow::Tensor& t, Plan& plan) {
  Converted c;
  c.headers = plan.layout.headers(t, plan.to.format);
  c.is_changed = true;
  plan.dropped += beside(t);
  if (plan.layout.name == "narrow") {
    c.metadata.emplace_back(narrow::block_format_key(t.name), plan.to.name);
    if (c.headers.size() > 2) c.metadata.emplace_back(narrow::scale2_key(t.name), narrow::scale2_is_factor);
  }
  narrow::QuantisedForm form;
  form.factor_is_divisor = plan.layout.factor_is_divisor;
  if (c.headers[0].type.name == "I32") form.code_bits = plan.to.format.element.width(), form.flipped = 0x88;
  plan.weights += t.elements();
  for (const narrow::TensorHeader& h : c.headers) plan.weight_bytes += h.bytes();
  if (c.headers[0].type.name == "I32") {  // the numbers of rows and columns, which words of 32 bits do not tell
    c.headers.push_back({t.name + "_shape", *narrow::find_element_type("I64"), {2}});
  }
  c.write = [t, &plan, form, shape = t.shape, has_shape = c.headers[0].type.name == "I32"](
                const auto& write, const narrow::BytesDone& done) {
    narrow::QuantisedForm shared = form;
    shared.amax = plan.amaxes.of(t.name, done);
    plan.not_kept += narrow::quantise_tensor(
        t, plan.to.format, narrow::CastResult::codes,
        [&](std::uint64_t, std::span<const std::byte> bytes) { write(bytes); }, {0, 0, done}, shared);
    if (has_shape) write(std::as_bytes(std::span(shape)));
  };
  return c;
}

Converted convert(const narrow::Tensor& t, Plan& plan) {
  if (plan.wants(t)) {
    try {
      return quantised(t, plan);
    } catch (const narrow::Error& error) {
      plan.unfit.push_back(t.name + ": " + error.what());
    }
  }
  if (t.shape.size() >= 2) plan.kept_modules.push_back(module_of(t.name));
  if (!t.blocks || plan.layout.name == "narrow") return copied(t);
  plan.dropped += beside(t);
  Converted c;  // quantised already, and the new configuration says that it is not
  c.headers = {t};
  c.write = [t](const auto& write, const narrow::BytesDone& done) {
    narrow::copy_tensor(t, narrow::WriteBytes(write), {0, 0, done});
  };
  return c;
}

// What ModelOpt says a second time, in a file of its own, which older loaders read.
std::vector<std::pair<std::string, std::string>> extra_files(Plan& plan) {
  if (plan.layout.name != "modelopt") return {};
  std::sort(plan.kept_modules.begin(), plan.kept_modules.end());
  const Json config = plan.layout.config(plan.to.format, plan.kept_modules);
  Json quantization = {
      {"quant_algo", config["quant_algo"]}, {"kv_cache_quant_algo", nullptr}, {"exclude_modules", plan.kept_modules}};
  if (plan.to.format.has_tensor_scale()) quantization["group_size"] = 16;
  return {{"hf_quant_config.json",
           json_text(Json{{"producer", config["producer"]}, {"quantization", std::move(quantization)}})}};
}

std::string summary(const Plan& plan, const ConvertedModel& m, const std::string& out) {
  constexpr std::size_t most = 5;
  std::string text =
      printable(out) + ": " + std::to_string(m.changed) + (m.changed == 1 ? " weight" : " weights") + " to " +
      plan.to.name + " in the layout " + std::string(plan.layout.name) + ", " + std::to_string(m.kept) + " kept" +
      (m.other_files != 0
           ? ", " + std::to_string(m.other_files) + (m.other_files == 1 ? " other file" : " other files") + " copied"
           : "") +
      "; " + size_text(m.bytes_before) + " -> " + size_text(m.bytes_after);
  if (plan.weights != 0) {
    char bits[32];
    std::snprintf(bits, sizeof bits, "%.2f",
                  8.0 * static_cast<double>(plan.weight_bytes) / static_cast<double>(plan.weights));
    text += std::string(", ") + bits + " bits a quantised weight";
  }
  text += "\n";
  for (std::size_t i = 0; i < plan.unfit.size() && i < most; ++i) text += "kept: " + printable(plan.unfit[i]) + "\n";
  if (plan.unfit.size() > most)
    text += "kept: " + std::to_string(plan.unfit.size() - most) + " more that have no place in the layout\n";
  if (plan.layout.name == "mxfp4")
    text +=
        "note: blocks lie along the last dimension; experts of gpt-oss are [E, N, K] in its files, and [E, K, N] once "
        "transformers has loaded them\n";
  if (plan.layout.name == "modelopt" && plan.to.format.block_rows == 0)
    text +=
        "note: loaders of ModelOpt's FP8 want an input_scale of each layer, too, which weights do not tell; fp8_row "
        "needs none\n";
  if (plan.dropped != 0)
    text += "note: " + many(plan.dropped, "tensor") +
            " with scales of activations beside the old codes left out: another layout would read them otherwise\n";
  text += not_kept_text(plan.not_kept, plan.to.name);
  return text;
}

Json to_json(const Plan& plan, const ConvertedModel& m, const std::string& out) {
  return {{"model", out},
          {"layout", plan.layout.name},
          {"format", plan.to.name},
          {"quantised", m.changed},
          {"kept", m.kept},
          {"unfit", plan.unfit},
          {"shards", m.shards},
          {"other_files", m.other_files},
          {"bytes_before", m.bytes_before},
          {"bytes_after", m.bytes_after},
          {"weights", plan.weights},
          {"weight_bytes", plan.weight_bytes},
          {"dropped", plan.dropped},
          {"lost_blocks", plan.not_kept.blocks},
          {"not_finite", plan.not_kept.values}};
}

int run(const Options& options) {
  if (options.files.size() != 2)
    throw narrow::Error(
        "quantize: give IN and OUT; for example: narrow quantize model model-nvfp4 --layout compressed-tensors --to "
        "nvfp4");
  if (!options.layout) throw narrow::Error("quantize: no layout; give one: --layout compressed-tensors");
  if (!options.to) throw narrow::Error("quantize: no format; give one: --to nvfp4");
  const narrow::Layout& layout = choose_layout(*options.layout);
  const Target to = choose_format(layout, *options.to, options.rule);
  const Model model = open_model(options.files[0], "quantize");
  Plan plan{layout, to, Amaxes(model, to.format)};
  if (options.keep) plan.keep.emplace(*options.keep);
  if (options.tensors) plan.only.emplace(*options.tensors);
  bool any = false;
  for (const narrow::TensorFile& file : model.files)
    any = any ||
          std::any_of(file.tensors.begin(), file.tensors.end(), [&](const narrow::Tensor& t) { return plan.wants(t); });
  if (!any)
    throw narrow::Error("quantize: no weight of a linear layer in " + narrow::quote(options.files[0]) +
                        "; --tensors REGEX names what to quantise");
  Conversion how{"quantize", [&](const narrow::Tensor& t) { return convert(t, plan); }, {}, {"hf_quant_config.json"}};
  how.edit = [&](Json& config) {
    config.erase("compression_config"), config.erase("quantization_config");
    if (layout.config == nullptr) return;
    std::sort(plan.kept_modules.begin(), plan.kept_modules.end());
    config["quantization_config"] = layout.config(plan.to.format, plan.kept_modules);
  };
  how.extra = [&] { return extra_files(plan); };
  const ConvertedModel made = convert_model(model, options.files[1], how);
  print(options.json ? json_text(to_json(plan, made, options.files[1])) : summary(plan, made, options.files[1]));
  return 0;
}

Action declare(Arguments& arguments) {
  const auto options = std::make_shared<Options>();
  arguments.values(
      "MODEL", options->files,
      "IN OUT: two folders (config.json, .safetensors, everything else is copied) or two .safetensors files");
  arguments.option("--layout", options->layout, "LAYOUT",
                   "whose files are written: deepseek, compressed-tensors, modelopt, mxfp4 (gpt-oss), narrow");
  arguments.option("--to", options->to, "FORMAT",
                   "the block format: fp8_128x128, fp8_tensor, fp8_row, nvfp4, mxfp4, mxfp8, int8_row, int4_1x128 "
                   "(which, depends on the layout)");
  arguments.option("--rule", options->rule, "RULE",
                   "how scales are chosen (narrow list-scaling), where not as the layout's own tools do it");
  arguments.option(
      "--keep", options->keep, "REGEX",
      "weights whose name contains a match stay as they are, besides embeddings, norms, biases and lm_head");
  arguments.option("--tensors", options->tensors, "REGEX", "these are quantised, whatever their names say of them");
  arguments.flag("--json", options->json, "print JSON");
  return [options] { return run(*options); };
}

}  // namespace of_quantize

const Command quantize_command{
    "quantize", "the linear weights of a model to a block format, in a layout that other tools read",
    "narrow quantize model model-nvfp4 --layout compressed-tensors --to nvfp4", of_quantize::declare,
    "The weights of linear layers are quantised, everything else is copied; config.json and the index follow, "
    "so that transformers, vLLM or TensorRT-LLM load the result. Scales are chosen as the layout's own tools "
    "choose them, unless --rule names another way. A folder is done shard by shard, in memory that does not "
    "grow with the model.\n\n"
    "q, k, v and gate, up share one factor of NVFP4, because loaders join them. NaN and Inf in the source are "
    "counted and named."};

}  // namespace app

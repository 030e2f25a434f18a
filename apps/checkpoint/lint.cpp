// narrow lint: what is wrong with a checkpoint, from its files alone.
#include "checkpoint/lint.hpp"

#include <algorithm>
#include <memory>

#include "cli/command.hpp"
#include "cli/terminal.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/text.hpp"
#include "options/tensor_text.hpp"

namespace app {
namespace lint {

namespace {

constexpr Severity note = Severity::note, warning = Severity::warning, error = Severity::error;
constexpr Rule table[] = {
    {"truncated-file", error, "a .safetensors file ends before its data"},
    {"broken-file", error, "a .safetensors file that cannot be read"},
    {"bad-index", error, "an index that is no JSON, or without a weight_map"},
    {"bad-config", error, "a config.json or hf_quant_config.json that is no JSON"},
    {"shard-missing", error, "the index names a file that is not there"},
    {"shard-unindexed", error, "a tensor or a file that the index does not list: loaders pass it over"},
    {"shard-duplicate", error, "a tensor in two files: which one counts, loaders decide differently"},
    {"index-wrong-file", error, "a tensor that lies in another file than the index says"},
    {"index-missing-tensor", error, "the index lists a tensor that no file has"},
    {"total-size", warning, "total_size of the index is not the bytes of the tensors"},
    {"codes-without-scales", error, "codes of FP8 or packed ones without the scales that decode them"},
    {"bare-fp8", warning, "weights of FP8 without scales where no configuration asks for any: meant so, or lost"},
    {"scale-without-codes", error, "a scale whose codes are not there"},
    {"scale-beside-unquantised", error,
     "a scale beside a weight of 16 or 32 bits: a loader that applies it scales twice"},
    {"scale-grid", error, "scales whose number or type does not fit shape and block"},
    {"bad-nibble-state", error, "packed codes of bitsandbytes without their quant_state"},
    {"missing-activation-scale", warning, "a layer without the scale of activations that others of its kind have"},
    {"fused-siblings-differ", warning, "q, k, v or gate, up with different factors, where loaders take one for all"},
    {"block-not-dividing", note, "a matrix that the block does not divide: right, and some loaders refuse to split it"},
    {"layout-mixed", error, "scales under the name of another layout than quant_method says, or under two"},
    {"config-says-quantised", error, "a weight that the configuration has quantised and the file has not"},
    {"config-says-plain", error, "quantised tensors without a quantization_config"},
    {"configs-disagree", error, "config.json and hf_quant_config.json name different algorithms"},
    {"mx-codes-off-by-two", error, "MXFP4 of compressed-tensors before 0.14, whose scales are two too low"},
    {"should-not-be-quantised", warning, "an embedding, norm, router or lm_head that is quantised"},
    {"tied-embeddings", error, "tied embeddings of which one is quantised, or that differ"},
    {"nan-codes", error, "codes that are NaN or Inf"},
    {"nan-scales", error, "scales that are NaN or Inf"},
    {"zero-scales", error, "a scale of 0 for codes that are not"},
    {"subnormal-scales", warning, "scales that are subnormal in their type"},
    {"negative-scales", error, "scales below zero"},
    {"scale-inverted", warning, "scales that look like the inverse of what decodes"},
    {"largest-value-unscaled", warning, "codes up to the largest value of the format with a scale of 1"},
    {"e8m0-in-disguise", warning, "scale_fmt ue8m0 and scales that are no powers of two"},
    {"constant-scales", note, "a grid of scales that are all the same"},
    {"all-zero-tensor", warning, "a quantised weight of zeros"},
    {"nan-values", error, "NaN or Inf in a tensor that is not quantised"},
    {"unread-type", note, "a tensor of a .gguf file whose type narrow does not read, and so does not check"},
    {"values-not-of-source", note, "values that the model's own type cannot hold"},
};

}  // namespace

std::span<const Rule> rules() { return table; }

void Report::add(std::string_view rule, std::string file, std::string tensor, std::string text) {
  if (silenced_.contains(rule)) return;
  const auto found = std::find_if(std::begin(table), std::end(table), [&](const Rule& r) { return r.name == rule; });
  findings_.push_back({found, std::move(file), std::move(tensor), std::move(text)});
}

}  // namespace lint

namespace of_lint {

struct Options {
  std::vector<std::string> models;
  std::optional<std::string> format, ignore;
  bool rules = false, json = false;
};

const char* word_of(lint::Severity s) {
  return s == lint::Severity::error ? "error" : s == lint::Severity::warning ? "warning" : "note";
}

std::set<std::string, std::less<>> silenced(const std::optional<std::string>& list) {
  std::set<std::string, std::less<>> names;
  std::vector<std::string_view> known;
  for (const lint::Rule& rule : lint::rules()) known.push_back(rule.name);
  std::string_view rest = list ? std::string_view(*list) : std::string_view();
  while (!rest.empty()) {
    const std::string_view word = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    if (std::find(known.begin(), known.end(), word) == known.end())
      throw narrow::Error("--ignore: no rule " + narrow::quote(word) + "; " + narrow::hint(word, known) +
                          "narrow lint --rules lists them");
    names.emplace(word);
  }
  return names;
}

std::string place(const lint::Finding& f) {
  return f.tensor.empty() ? printable(f.file) : printable(f.file) + ": " + printable(f.tensor);
}

// As GitHub wants it: what ends a property or a line is written as %xx.
std::string escaped(std::string_view text, bool property) {
  std::string out;
  for (const char c : text) {
    const bool special = c == '%' || c == '\r' || c == '\n' || (property && (c == ':' || c == ','));
    char code[8];
    if (special) std::snprintf(code, sizeof code, "%%%02X", static_cast<unsigned>(static_cast<unsigned char>(c)));
    out += special ? std::string(code) : std::string(1, c);
  }
  return out;
}

std::string github(const std::string& folder, const lint::Finding& f) {
  const char* command = f.rule->severity == lint::Severity::note ? "notice" : word_of(f.rule->severity);
  return std::string("::") + command + " file=" + escaped(folder + f.file, true) +
         ",title=" + escaped(std::string("narrow lint ") + std::string(f.rule->name), true) +
         "::" + escaped((f.tensor.empty() ? "" : f.tensor + " ") + f.text, false) + "\n";
}

std::size_t quantised_in(const lint::Checkpoint& c) {
  return c.quantised.size() +
         static_cast<std::size_t>(std::count_if(c.all.tensors.begin(), c.all.tensors.end(),
                                                [](const narrow::Tensor& t) { return t.blocks != nullptr; }));
}

std::string text_of(const std::string& model, const lint::Checkpoint& c, const std::vector<lint::Finding>& findings) {
  constexpr std::size_t most = 5;  // of one rule
  const bool colour = use_colour(1);
  std::map<const lint::Rule*, std::size_t> seen;
  std::size_t counts[3] = {};
  std::string text;
  for (const lint::Finding& f : findings) {
    ++counts[static_cast<int>(f.rule->severity)];
    if (++seen[f.rule] > most) continue;
    const Colour paint_as = f.rule->severity == lint::Severity::error     ? Colour::red
                            : f.rule->severity == lint::Severity::warning ? Colour::yellow
                                                                          : Colour::bold;
    text += paint(word_of(f.rule->severity), paint_as, colour) + " " + std::string(f.rule->name) + ": " + place(f) +
            ": " + printable(f.text) + "\n";
  }
  for (const auto& [rule, n] : seen)
    if (n > most)
      text += std::string(word_of(rule->severity)) + " " + std::string(rule->name) + ": " + std::to_string(n - most) +
              " more\n";
  return text + printable(model) + ": " + many(c.all.tensors.size(), "tensor") + ", " +
         std::to_string(quantised_in(c)) + " quantised; " +
         (findings.empty()
              ? "nothing found\n"
              : many(counts[2], "error") + ", " + many(counts[1], "warning") + ", " + many(counts[0], "note") + "\n");
}

Json to_json(const std::string& model, const lint::Checkpoint& c, const std::vector<lint::Finding>& findings) {
  Json list = Json::array();
  for (const lint::Finding& f : findings)
    list.push_back({{"rule", f.rule->name},
                    {"severity", word_of(f.rule->severity)},
                    {"file", f.file},
                    {"tensor", f.tensor.empty() ? Json() : Json(f.tensor)},
                    {"message", f.text}});
  return {{"model", model},
          {"tensors", c.all.tensors.size()},
          {"quantised", quantised_in(c)},
          {"findings", std::move(list)}};
}

std::string rules_text(bool json) {
  if (json) {
    Json list = Json::array();
    for (const lint::Rule& r : lint::rules())
      list.push_back({{"rule", r.name},
                      {"severity", word_of(r.severity)},
                      {"exit", r.severity == lint::Severity::note ? 0 : 1},
                      {"what", r.what}});
    return json_text(list);
  }
  TextTable rows{
      {"rule", "severity", "exit", "what it finds"}, {Align::left, Align::left, Align::right, Align::left}, {}};
  for (const lint::Rule& r : lint::rules())
    rows.rows.push_back({std::string(r.name), word_of(r.severity), r.severity == lint::Severity::note ? "0" : "1",
                         std::string(r.what)});
  return rows.to_text(use_colour(1), 0);
}

int run(const Options& options) {
  if (options.rules) {
    print(rules_text(options.json));
    return 0;
  }
  if (options.models.empty()) throw narrow::Error("lint: no model; for example: narrow lint model-fp8");
  const std::string format = options.json ? "json" : options.format.value_or("text");
  if (format != "text" && format != "json" && format != "github")
    throw narrow::Error("--format: " + narrow::quote(format) + "; accepted: text json github");
  const std::set<std::string, std::less<>> silent = silenced(options.ignore);
  Json all = Json::array();
  std::string text;
  bool failed = false;
  for (const std::string& model : options.models) {
    lint::Report report(silent);
    lint::Checkpoint c = lint::read_checkpoint(model, report);
    std::uint64_t bytes = 0;
    for (const narrow::Tensor& t : c.all.tensors) bytes += t.bytes();
    Progress progress("lint", bytes);
    lint::check_parts(c, report);
    lint::check_config(c, report);
    lint::check_data(c, report, progress);
    for (const lint::Finding& f : report.findings()) {
      failed = failed || f.rule->severity != lint::Severity::note;
      if (format == "github") text += github(c.folder, f);
    }
    if (format == "text") text += text_of(model, c, report.findings());
    if (format == "json") all.push_back(to_json(model, c, report.findings()));
  }
  print(format == "json" ? json_text(all.size() == 1 ? all[0] : all) : text);
  return failed ? 1 : 0;
}

Action declare(Arguments& arguments) {
  const auto options = std::make_shared<Options>();
  arguments.values("MODEL", options->models, "folders with config.json and .safetensors, or single files");
  arguments.option("--format", options->format, "FORMAT", "text, json, or github (annotations for a workflow)");
  arguments.option("--ignore", options->ignore, "RULES", "rules that are not applied: total-size,constant-scales");
  arguments.flag("--rules", options->rules, "list the rules: what each finds, and whether it makes the exit status 1");
  arguments.flag("--json", options->json, "print JSON");
  return [options] { return run(*options); };
}

}  // namespace of_lint

const Command lint_command{
    "lint", "what is wrong with a checkpoint, from its files alone (exit 1 when an error or a warning is found)",
    "narrow lint model-fp8 --format github", of_lint::declare,
    "Looks for scales that are missing, inverted, NaN, zero or of the wrong shape, for shards and an index "
    "that disagree, for a configuration that says something else than the tensors; --rules lists it all. Needs "
    "no GPU and no framework. --format github writes annotations for a workflow."};

}  // namespace app

// What the configuration says against what the files hold.
#include <algorithm>
#include <array>

#include "checkpoint/lint.hpp"
#include "narrow/base/error.hpp"
#include "narrow/text/quote.hpp"
#include "options/tensor_choice.hpp"
#include "options/tensor_text.hpp"

namespace app::lint {

namespace {

std::string word_at(const Json& object, const char* key) {
  return object.is_object() && object.contains(key) && object[key].is_string() ? object[key].get<std::string>() : "";
}

// '*' stands for anything, as in ModelOpt's lists.
bool fits(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0, star = std::string_view::npos, from = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') star = p++, from = t;
    else if (p < pattern.size() && pattern[p] == text[t]) ++p, ++t;
    else if (star != std::string_view::npos) p = star + 1, t = ++from;
    else return false;
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

// Modules that stay as they are, under the names that the layouts have for the list: whole words of a module's name,
// patterns with '*', and expressions.
class Kept {
 public:
  explicit Kept(const Json& q, const Json& other) {
    for (const char* key :
         {"modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules", "llm_int8_skip_modules"})
      add(q, key);
    if (other.is_object() && other.contains("quantization")) add(other["quantization"], "exclude_modules");
  }
  bool has(std::string_view module) const {
    for (std::size_t begin = 0;;) {  // a run of words between dots
      for (std::size_t end = begin;;) {
        end = module.find('.', end);
        if (words_.contains(module.substr(begin, end == std::string_view::npos ? end : end - begin))) return true;
        if (end++ == std::string_view::npos) break;
      }
      const std::size_t dot = module.find('.', begin);
      if (dot == std::string_view::npos) break;
      begin = dot + 1;
    }
    return keeps_all_ ||
           std::any_of(patterns_.begin(), patterns_.end(), [&](const std::string& p) { return fits(p, module); }) ||
           std::any_of(expressions_.begin(), expressions_.end(),
                       [&](const NamePattern& e) { return e.matches(std::string(module)); });
  }

 private:
  void add(const Json& from, const char* key) {
    if (!from.is_object() || !from.contains(key) || !from[key].is_array()) return;
    for (const Json& word : from[key])
      if (word.is_string()) add(word.get<std::string>());
  }
  void add(const std::string& word) {
    if (word.starts_with("re:")) {
      for (const char* python : {"\\d", "\\w", "\\s", "\\b", "(?"})
        if (word.find(python) != std::string::npos) keeps_all_ = true;
      if (keeps_all_) return;
      try {
        expressions_.emplace_back(word.substr(3));
      } catch (const narrow::Error&) {
        keeps_all_ = true;
      }
    } else if (word.find('*') != std::string::npos) {
      for (const std::string& pattern : {word, "*." + word, word + ".*"}) patterns_.push_back(pattern);
    } else {
      words_.insert(word);
    }
  }
  std::set<std::string, std::less<>> words_;
  std::vector<std::string> patterns_;
  std::vector<NamePattern> expressions_;
  bool keeps_all_ = false;  // an expression of Python's that POSIX does not have: it may mean any
};

void check_claims(const Checkpoint& c, const Json& q, Report& report) {
  if (c.config.is_null()) return;
  const std::string method = word_at(q, "quant_method");
  if (method.empty()) {
    if (!c.is_said_to_be_quantised() && !c.quantised.empty() && c.quantised[0].parts.layout != "narrow")
      report.add("config-says-plain", "config.json", "",
                 "has no quantization_config, and " + many(c.quantised.size(), "tensor") +
                     (c.quantised.size() == 1 ? " is" : " are") + " quantised: a loader takes codes for values");
    return;
  }
  // What is claimed is known of these; experts alone are quantised where the method is that of gpt-oss.
  const bool is_known =
      method == "fp8" || method == "compressed-tensors" || method == "modelopt" || method == "bitsandbytes";
  const bool names_layers = q.dump().find("quantized_layers") != std::string::npos ||
                            (q.contains("config_groups") && q.dump().find("\"Linear\"") == std::string::npos);
  if (!is_known || names_layers) return;
  const Kept kept(q, c.other_config);
  for (const narrow::Tensor& t : c.all.tensors) {
    if (c.parts.contains(t.name) || t.shape.size() != 2 || !t.name.ends_with(".weight") || t.type.bits < 16 ||
        !t.type.has_format() || is_kept_by_custom(t.name) || method == "mxfp4")
      continue;
    if (!kept.has(module_of(t.name)))
      report.add("config-says-quantised", c.file_of.at(t.name), t.name,
                 "is " + std::string(t.type.name) + ", and config.json neither leaves it out nor has it quantised");
  }
}

void check_names(const Checkpoint& c, const Json& q, Report& report) {
  const std::string method = word_at(q, "quant_method");
  const bool blocks = method == "fp8" && q.contains("weight_block_size") && q["weight_block_size"].is_array();
  for (const narrow::Tensor& t : c.all.tensors) {
    if (t.name.ends_with("weight_scale_inv") && c.find(t.name.substr(0, t.name.size() - 4)) != nullptr)
      report.add("layout-mixed", c.file_of.at(t.name), t.name,
                 "stands beside a weight_scale: which of the two decodes, loaders decide differently");
    else if (blocks && t.name.ends_with("weight_scale") && c.find(t.name + "_inv") == nullptr)
      report.add("layout-mixed", c.file_of.at(t.name), t.name,
                 "is called weight_scale_inv where quant_method is fp8 with blocks");
    else if ((method == "compressed-tensors" || method == "modelopt") && t.name.ends_with("weight_scale_inv"))
      report.add("layout-mixed", c.file_of.at(t.name), t.name,
                 "is called weight_scale where quant_method is " + method);
  }
}

void check_agreement(const Checkpoint& c, const Json& q, Report& report) {
  if (!c.other_config.is_object() || !c.other_config.contains("quantization")) return;
  std::string own = word_at(q, "quant_algo"), other = word_at(c.other_config["quantization"], "quant_algo");
  for (std::string* word : {&own, &other})
    std::transform(word->begin(), word->end(), word->begin(),
                   [](char x) { return x >= 'a' && x <= 'z' ? static_cast<char>(x - 32) : x; });
  if (!own.empty() && !other.empty() && own != other)
    report.add("configs-disagree", "hf_quant_config.json", "", "says " + other + ", config.json says " + own);
}

// 0.13 of compressed-tensors wrote MXFP4 scales two too low.
void check_version(const Json& q, Report& report) {
  const std::string version = word_at(q, "version"), format = word_at(q, "format");
  if (!format.starts_with("mxfp4") || version.empty()) return;
  int major = 0, minor = 0;
  if (std::sscanf(version.c_str(), "%d.%d", &major, &minor) == 2 && major == 0 && minor < 14)
    report.add("mx-codes-off-by-two", "config.json", "",
               "was written by compressed-tensors " + version +
                   ", whose MXFP4 scales are two too low before 0.14: weights come out four times too small");
}

bool same_bytes(const narrow::Tensor& a, const narrow::Tensor& b) {
  if (a.type.name != b.type.name || a.shape != b.shape) return false;
  constexpr std::uint64_t piece = 1 << 20;
  for (std::uint64_t at = 0; at < a.bytes(); at += piece) {
    std::vector<std::byte> x(static_cast<std::size_t>(std::min(piece, a.bytes() - at))), y(x.size());
    a.source->read(at, x), b.source->read(at, y);
    if (x != y) return false;
  }
  return true;
}

void check_embeddings(const Checkpoint& c, Report& report) {
  for (const Quantised& q : c.quantised)
    if (is_kept_by_custom(q.parts.name))
      report.add("should-not-be-quantised", q.file, q.parts.name,
                 "is quantised; embeddings, norms, routers and lm_head are kept by custom");
  const bool tied =
      c.config.is_object() && c.config.contains("tie_word_embeddings") && c.config["tie_word_embeddings"] == true;
  if (!tied) return;
  const narrow::Tensor *head = c.find("lm_head.weight"), *embedding = nullptr;
  for (const narrow::Tensor& t : c.all.tensors)
    if (t.name.ends_with("embed_tokens.weight") || t.name.ends_with("wte.weight")) embedding = &t;
  for (const narrow::Tensor* t : {head, embedding})
    if (t != nullptr && c.parts.contains(t->name))
      report.add("tied-embeddings", c.file_of.at(t->name), t->name,
                 "is quantised, and tie_word_embeddings makes it the other one, too");
  if (head != nullptr && embedding != nullptr && !same_bytes(*head, *embedding))
    report.add("tied-embeddings", c.file_of.at(head->name), head->name,
               "differs from " + narrow::quote(embedding->name) + ", and tie_word_embeddings says they are one");
}

}  // namespace

void check_config(const Checkpoint& c, Report& report) {
  const Json q = c.quantization();
  check_claims(c, q, report);
  check_names(c, q, report);
  check_agreement(c, q, report);
  check_version(q, report);
  check_embeddings(c, report);
}

}  // namespace app::lint

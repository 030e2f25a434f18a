// Shards and their index: is everything there, once, where it is said to be?
#include <algorithm>
#include <filesystem>

#include "checkpoint/lint.hpp"
#include "narrow/base/error.hpp"
#include "narrow/tensor/file_text.hpp"
#include "narrow/tensor/gguf.hpp"
#include "narrow/tensor/safetensors.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/strict_json.hpp"
#include "options/model_index.hpp"

namespace app::lint {
namespace fs = std::filesystem;

namespace {

Json read_json_file(const Checkpoint& c, const std::string& name, const char* rule, Report& report) {
  std::error_code error;
  const std::string path = c.folder + name;
  if (!fs::exists(path, error)) return {};
  const std::string text = narrow::read_text(path);  // what cannot be read is no verdict on it
  try {
    Json json = narrow::parse_strict_json<Json>(text, "not read");
    if (json.is_object()) return json;
    report.add(rule, name, "", "is no object { }");
  } catch (const narrow::Error& e) {
    report.add(rule, name, "", e.what());
  }
  return {};
}

// Tensor to shard, as the index says; without an index, nothing.
std::map<std::string, std::string> weight_map(const Checkpoint& c, Report& report) {
  std::map<std::string, std::string> map;
  if (c.index.is_null()) return map;
  const auto found = c.index.find("weight_map");
  if (found == c.index.end() || !found->is_object()) {
    report.add("bad-index", model_index_name, "", "has no weight_map");
    return map;
  }
  for (const auto& [tensor, shard] : found->items())
    if (shard.is_string() && shard.get<std::string>().find('/') == std::string::npos)
      map[tensor] = shard.get<std::string>();
    else report.add("bad-index", model_index_name, tensor, "is in no plain file name");
  return map;
}

void add_file(Checkpoint& c, const std::string& path, const std::string& name, Report& report, std::uint64_t& bytes) {
  const std::shared_ptr<const narrow::MappedFile> mapped =
      narrow::MappedFile::open(path);  // what cannot be read is no verdict on it
  try {
    narrow::TensorFile file = name.ends_with(".gguf") ? narrow::read_gguf(mapped) : narrow::read_safetensors(mapped);
    for (const narrow::Unreadable& t : file.unreadable) {
      const bool is_unknown = t.why.find(" is not read; ") != std::string::npos;
      report.add(is_unknown                   ? "unread-type"
                 : t.why.ends_with("was cut") ? "truncated-file"
                                              : "broken-file",
                 name, t.name, t.why);
    }
    for (auto& entry : file.metadata) c.all.metadata.push_back(std::move(entry));
    for (narrow::Tensor& t : file.tensors) {
      bytes += t.bytes();
      const auto [at, is_new] = c.file_of.emplace(t.name, name);
      if (!is_new) {
        report.add("shard-duplicate", name, t.name, "is in " + narrow::quote(at->second) + " as well");
        continue;
      }
      c.places.emplace(t.name, c.all.tensors.size());
      c.all.tensors.push_back(std::move(t));
    }
  } catch (const narrow::Error& e) {
    const std::string what = e.what();
    const bool is_cut = what.ends_with("it was cut") || what.starts_with("only ") ||
                        what.find("; the file was cut") != std::string::npos;
    report.add(is_cut ? "truncated-file" : "broken-file", name, "", what);
  }
}

void check_index(const Checkpoint& c, const std::map<std::string, std::string>& map,
                 const std::set<std::string>& broken, std::uint64_t bytes, Report& report) {
  for (const auto& [tensor, shard] : map) {
    const auto held = c.file_of.find(tensor);
    if (held == c.file_of.end()) {
      if (!broken.contains(shard))
        report.add("index-missing-tensor", shard, tensor, "is listed in the index, and no file has it");
    } else if (held->second != shard && !broken.contains(shard)) {
      report.add("index-wrong-file", held->second, tensor, "is put into " + narrow::quote(shard) + " by the index");
    }
  }
  for (const narrow::Tensor& t : c.all.tensors)
    if (!map.contains(t.name))
      report.add("shard-unindexed", c.file_of.at(t.name), t.name, "is not in the index: no loader sees it");
  const auto about = c.index.find("metadata");
  if (about == c.index.end() || !about->is_object() || !about->contains("total_size") || !broken.empty()) return;
  const Json& size = (*about)["total_size"];
  if (size.is_number() && size.get<double>() != static_cast<double>(bytes))
    report.add("total-size", model_index_name, "",
               "total_size is " + size.dump() + ", the tensors have " + std::to_string(bytes) + " bytes");
}

}  // namespace

Checkpoint read_checkpoint(const std::string& path, Report& report) {
  Checkpoint c;
  std::error_code error;
  c.is_folder = fs::is_directory(path, error);
  const std::string folder = c.is_folder ? path : fs::path(path).parent_path().string();
  c.folder = folder.empty() ? "" : folder + (folder.ends_with('/') ? "" : "/");
  std::vector<std::string> files;
  if (c.is_folder) {
    for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error))
      if (it->path().extension() == ".safetensors" || it->path().extension() == ".gguf")
        files.push_back(it->path().filename().string());
    if (error) throw narrow::Error(narrow::quote(path) + ": cannot read the folder: " + error.message());
    c.index = read_json_file(c, model_index_name, "bad-index", report);
  } else {
    if (!fs::exists(path, error)) throw narrow::Error("lint: no file or folder " + narrow::quote(path));
    if (!path.ends_with(".safetensors") && !path.ends_with(".gguf"))
      throw narrow::Error("lint: " + narrow::quote(path) + " is neither .safetensors nor .gguf nor a folder of them");
    files = {fs::path(path).filename().string()};
  }
  c.config = read_json_file(c, "config.json", "bad-config", report);
  c.other_config = read_json_file(c, "hf_quant_config.json", "bad-config", report);
  std::sort(files.begin(), files.end());
  const std::map<std::string, std::string> map = weight_map(c, report);
  std::set<std::string> named, missing;
  for (const auto& [tensor, shard] : map) named.insert(shard);
  for (const std::string& shard : named)
    if (std::find(files.begin(), files.end(), shard) == files.end()) {
      report.add("shard-missing", shard, "", "is named by the index and is not there");
      missing.insert(shard);
    }
  if (files.empty() && missing.empty())
    throw narrow::Error("lint: " + narrow::quote(path) + " has no .safetensors or .gguf files");
  std::uint64_t bytes = 0;
  for (const std::string& file : files) {
    if (!named.empty() && !named.contains(file)) {  // its tensors are no part of the model that the index describes
      if (!file.ends_with(".gguf") && !file.starts_with("consolidated"))
        report.add("shard-unindexed", file, "", "is a file that the index does not name: no loader sees it");
      continue;
    }
    const std::size_t before = report.findings().size(), tensors = c.all.tensors.size();
    add_file(c, c.folder + file, file, report, bytes);
    if (c.all.tensors.size() == tensors && report.findings().size() > before) missing.insert(file);
  }
  c.all.path = c.folder + (files.empty() ? "model.safetensors" : files[0]);
  if (!map.empty()) check_index(c, map, missing, bytes, report);
  return c;
}

const narrow::Tensor* Checkpoint::find(const std::string& name) const {
  const auto found = places.find(name);
  return found == places.end() ? nullptr : &all.tensors[found->second];
}

Json Checkpoint::quantization() const {
  for (const char* key : {"quantization_config", "compression_config"})
    if (config.is_object() && config.contains(key) && config[key].is_object()) return config[key];
  return Json::object();
}

bool Checkpoint::is_said_to_be_quantised() const {
  return !quantization().empty() || (other_config.is_object() && other_config.contains("quantization"));
}

}  // namespace app::lint

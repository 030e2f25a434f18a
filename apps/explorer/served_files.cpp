#include "explorer/served_files.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "narrow/base/error.hpp"
#include "narrow/tensor/file_text.hpp"
#include "narrow/tensor/watched_run.hpp"
#include "narrow/text/quote.hpp"

namespace app {
namespace {

namespace fs = std::filesystem;

struct FoundFile {
  fs::path path;  // absolute, without . and ..
  bool may_grow = false;
  std::size_t shown = 1;  // how many of its last parts its name has
};

bool ends_in_one_of(const std::string& name, std::initializer_list<std::string_view> endings) {
  return std::any_of(endings.begin(), endings.end(), [&](std::string_view e) { return name.ends_with(e); });
}

fs::path plain_path(const std::string& path) {
  std::error_code problem;
  const fs::path whole = fs::absolute(path, problem).lexically_normal();
  if (problem) throw narrow::Error(narrow::quote_path(path) + ": " + problem.message());
  return whole.has_filename() ? whole : whole.parent_path();  // "run/" is "run"
}

std::vector<FoundFile> files_of_folder(const std::string& folder) {
  const bool is_run = narrow::is_watched_run(folder);
  std::vector<FoundFile> found;
  std::error_code problem;
  fs::directory_iterator entry(folder, problem);
  for (; !problem && entry != fs::directory_iterator(); entry.increment(problem)) {
    const std::string name = entry->path().filename().string();
    const bool wanted = is_run ? name == "run.json" || ends_in_one_of(name, {".jsonl", ".jsonl.gz"})
                               : ends_in_one_of(name, {".safetensors", ".npy", ".npz", ".safetensors.index.json"});
    std::error_code unknown;
    if (wanted && name[0] != '.' && entry->is_regular_file(unknown))
      found.push_back({plain_path(entry->path().string()), is_run && name.ends_with(".jsonl"), 2});
  }
  if (problem) throw narrow::Error(narrow::quote_path(folder) + ": cannot be read: " + problem.message());
  if (found.empty())
    throw narrow::Error(narrow::quote_path(folder) +
                        ": a folder without .safetensors, .npy or .npz files, and not that of a watched run");
  std::sort(found.begin(), found.end(), [](const FoundFile& a, const FoundFile& b) { return a.path < b.path; });
  return found;
}

std::string name_of(const FoundFile& file) {
  std::vector<std::string> parts;
  for (const fs::path& part : file.path.relative_path()) parts.push_back(part.string());
  std::string name;
  for (std::size_t i = parts.size() - std::min(file.shown, parts.size()); i < parts.size(); ++i)
    name += (name.empty() ? "" : "/") + parts[i];
  return narrow::visible(name);
}

// Files of the same name show the folders in which they are, as far as that takes.
void tell_apart(std::vector<FoundFile>& files) {
  const auto depth = [](const FoundFile& file) {
    return static_cast<std::size_t>(std::distance(file.path.begin(), file.path.end()));
  };
  for (bool changed = true; changed;) {
    changed = false;
    std::map<std::string, std::vector<FoundFile*>> by_name;
    for (FoundFile& file : files) by_name[name_of(file)].push_back(&file);
    for (const auto& [name, same] : by_name)
      for (FoundFile* file : same)
        if (same.size() > 1 && file->shown < depth(*file)) ++file->shown, changed = true;
  }
}

// A model may have more shards than a process may have files open at first.
void allow_open_files(std::size_t count) {
  constexpr std::size_t others = 256;  // connections, and what the program has open itself
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= count + others) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, count + others);
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

std::vector<NamedFile> open_files(const std::vector<std::string>& paths) {
  std::vector<FoundFile> found;
  std::set<fs::path> seen;
  for (const std::string& path : paths) {
    std::error_code unknown;
    if (path.empty() || !fs::is_directory(path, unknown)) {
      if (path.empty()) (void)ServedFile(path, false);  // throws
      if (seen.insert(plain_path(path)).second) found.push_back({plain_path(path)});
      continue;
    }
    for (FoundFile& file : files_of_folder(path))
      if (seen.insert(file.path).second) found.push_back(std::move(file));
  }
  tell_apart(found);
  allow_open_files(found.size());
  std::vector<NamedFile> files;
  for (const FoundFile& file : found)
    files.push_back({name_of(file), std::make_unique<const ServedFile>(file.path.string(), file.may_grow)});
  return files;
}

}  // namespace app

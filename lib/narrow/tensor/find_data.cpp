#include "narrow/tensor/find_data.hpp"

#include <cstdlib>
#include <filesystem>

#include "narrow/base/error.hpp"
#include "narrow/text/quote.hpp"

namespace narrow {
namespace {

namespace fs = std::filesystem;

// Empty where the system does not tell where the program is.
std::string beside_program() {
  std::error_code unknown;
  const fs::path program = fs::read_symlink("/proc/self/exe", unknown);
  return unknown ? "" : (program.parent_path() / NARROW_DATA_FROM_PROGRAM).lexically_normal().string();
}

Error not_found(std::string_view name, const std::vector<std::string>& folders) {
  std::string looked;
  for (const std::string& folder : folders) looked += (looked.empty() ? "" : ", ") + folder;
  return Error("data/" + std::string(name) + " was not found in " + (looked.empty() ? "any folder" : looked) +
               "; the environment variable NARROW_DATA can name the folder data");
}

}  // namespace

std::vector<std::string> data_folders() {
  if (const char* chosen = std::getenv("NARROW_DATA"); chosen != nullptr) {
    std::error_code unreadable;
    if (*chosen == 0) return {};
    if (!fs::is_directory(chosen, unreadable))
      throw Error("NARROW_DATA names " + quote(chosen) + ", which is no folder; it is to name the folder data");
    return {chosen};
  }
  std::vector<std::string> folders;
  for (std::string folder : {beside_program(), std::string(NARROW_SOURCE_DATA), std::string(NARROW_INSTALLED_DATA)})
    if (!folder.empty()) folders.push_back(std::move(folder));
  return folders;
}

std::optional<std::string> find_data(std::string_view name) {
  const std::vector<std::string> folders = data_folders();
  if (folders.empty()) return {};
  for (const std::string& folder : folders) {
    std::error_code unreadable;
    std::string path = folder + "/" + std::string(name);
    if (fs::is_regular_file(path, unreadable)) return path;
  }
  throw not_found(name, folders);
}

std::string require_data(std::string_view name) {
  if (std::optional<std::string> path = find_data(name)) return *path;
  throw not_found(name, {});
}

}  // namespace narrow

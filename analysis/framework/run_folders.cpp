#include "analysis/framework/run_folders.hpp"

#include <algorithm>
#include <filesystem>

#include "analysis/framework/shares.hpp"
#include "narrow/base/error.hpp"
#include "narrow/tensor/find_data.hpp"
#include "narrow/tensor/watched_run.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/text.hpp"

namespace analysis {

using namespace narrow;
namespace fs = std::filesystem;

std::vector<std::string> recorded_folders() {
  for (const std::string& data : data_folders()) {
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator at(data + "/gpt/runs", error), end; !error && at != end; at.increment(error))
      if (is_watched_run(at->path().string())) names.push_back(at->path().string());
    std::sort(names.begin(), names.end());
    if (!names.empty()) return names;
  }
  return {};
}

std::string recorded_folder(const std::string& name) {
  for (const std::string& folder : recorded_folders())
    if (folder.substr(folder.rfind('/') + 1) == name) return folder;
  return "";
}

std::string run_folder(const std::string& given) {
  std::error_code error;
  if (given.empty() || given.find('/') != std::string::npos || fs::exists(given, error)) {
    std::string folder = given;
    while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
    return folder;
  }
  const std::vector<std::string> known = recorded_folders();
  std::vector<std::string> names;
  for (const std::string& folder : known) {
    names.push_back(folder.substr(folder.rfind('/') + 1));
    if (names.back() == given) return folder;
  }
  throw Error("run=" + quote(given) + ": there is no such folder; " + hint(given, {names.begin(), names.end()}) +
              (names.empty() ? "no run is recorded" : "recorded are " + list_of(names)));
}

}  // namespace analysis

// A folder of data for one test, named by NARROW_DATA while the test runs.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

namespace test {

class WithData {
 public:
  WithData() {
    static int number = 0;
    const std::string own = "narrow_analysis_" + std::to_string(getpid()) + "_" + std::to_string(number++);
    folder_ = (std::filesystem::temp_directory_path() / own).string();
    if (const char* before = std::getenv("NARROW_DATA"); before != nullptr) before_ = before;
    set_environment(folder_);
  }
  // With one file in it: "torch/logs.json".
  WithData(const std::string& name, const std::string& text) : WithData() { write(name, text); }
  ~WithData() {
    if (before_) {
      setenv("NARROW_DATA", before_->c_str(), 1);
    } else {
      unsetenv("NARROW_DATA");
    }
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  WithData(const WithData&) = delete;
  WithData& operator=(const WithData&) = delete;

  const std::string& folder() const { return folder_; }
  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = std::filesystem::path(folder_) / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }
  void set_environment(const std::string& value) { setenv("NARROW_DATA", value.c_str(), 1); }

 private:
  std::string folder_;
  std::optional<std::string> before_;
};

}  // namespace test

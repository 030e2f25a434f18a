#include "cli/write_file.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "narrow/base/error.hpp"

namespace fs = std::filesystem;

TEST_CASE("apps: a file is replaced as a whole or not at all") {
  const fs::path folder = fs::temp_directory_path() / ("narrow_write_file" + std::to_string(getpid()));
  fs::create_directories(folder / "taken" / "inside");
  const std::string path = (folder / "a.txt").string();
  for (const std::string content : {"first", "second"}) {
    app::write_file(path, content);
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    CHECK(text.str() == content);
  }
  CHECK_THROWS_AS(app::write_file((folder / "taken").string(), "x"), narrow::Error);  // a folder that is not empty
  CHECK_THROWS_AS(app::write_file((folder / "none" / "b.txt").string(), "x"), narrow::Error);
  CHECK_THROWS_AS(app::write_file("", "x"), narrow::Error);
  CHECK(std::distance(fs::directory_iterator(folder), fs::directory_iterator()) == 2);
  fs::remove_all(folder);
}

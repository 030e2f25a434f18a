// The recordings in data/golden.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace test {

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The files of instructions, in the order of their names.
inline std::vector<std::filesystem::path> golden_tiles() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(NARROW_DATA "/golden")) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() == ".txt" && (name.starts_with("mma.") || name.starts_with("wgmma.")))
      files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Lines of words with tabs between; the first lines begin with '#', then come the names of the columns.
struct GoldenTable {
  std::vector<std::string> origin;
  std::vector<std::vector<std::string>> rows;
};
inline GoldenTable golden_table(const std::string& name) {
  GoldenTable table;
  std::ifstream file(std::string(NARROW_DATA "/golden/") + name);
  std::string line;
  bool head = true;
  while (std::getline(file, line)) {
    if (line.starts_with("#")) {
      table.origin.push_back(line);
      continue;
    }
    if (std::exchange(head, false)) continue;
    std::vector<std::string> words;
    std::istringstream parts(line);
    for (std::string word; std::getline(parts, word, '\t');) words.push_back(word);
    table.rows.push_back(words);
  }
  return table;
}

}  // namespace test

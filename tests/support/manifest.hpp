// data/conformance/manifest.tsv: for each format and cast the hash of all 2^32 encoded floats.
// NARROW_WRITE_MANIFEST=path writes what was computed instead of only comparing.
#pragma once

#include <doctest/doctest.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace test {

inline std::string hash_text(std::uint64_t hash) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%016" PRIX64, hash);
  return text;
}

class Manifest {
 public:
  Manifest() {
    std::ifstream file(NARROW_DATA "/conformance/manifest.tsv");
    for (std::string line; std::getline(file, line);) {
      if (line.empty() || line[0] == '#') continue;
      std::istringstream fields(line);
      std::string format, cast, hash;
      if (std::getline(fields, format, '\t') && std::getline(fields, cast, '\t') && std::getline(fields, hash, '\t'))
        known_[format + "\t" + cast] = hash;
    }
  }

  // While a new manifest is being written the old one is not a reason to fail.
  void compare(const std::string& format, const std::string& cast, std::uint64_t hash) {
    const std::string key = format + "\t" + cast, line = key + "\t" + hash_text(hash);
    lines_.push_back(line);
    if (output() != nullptr) return;
    const auto known = known_.find(key);
    CHECK_MESSAGE(known != known_.end(), "data/conformance/manifest.tsv lacks the line:\n" << line);
    if (known != known_.end()) CHECK_MESSAGE(known->second == hash_text(hash), line);
  }

  void write_if_asked() const {
    if (output() == nullptr) return;
    std::ofstream file(output());
    file << "# Hash of all 2^32 encoded floats: sum over the words i of mix(code << 32 | i) mod 2^64, mix the "
            "splitmix64 step.\n"
            "# Written by round_exhaustive_test with NARROW_WRITE_MANIFEST, after every result was held against the "
            "oracle.\n"
            "# format\tcast\thash\n";
    for (const std::string& line : lines_) file << line << "\n";
    CHECK_MESSAGE(file.good(), "cannot write " << output());
  }

 private:
  static const char* output() { return std::getenv("NARROW_WRITE_MANIFEST"); }
  std::map<std::string, std::string> known_;
  std::vector<std::string> lines_;
};

}  // namespace test

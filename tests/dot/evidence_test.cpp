// Does a row of the table claim more than its evidence supports?
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include "dot/recorded_sets.hpp"

using narrow::DotModel;
using narrow::Evidence;

namespace {

std::vector<std::string> words_of(std::string_view text) {
  std::istringstream in{std::string(text)};
  return {std::istream_iterator<std::string>(in), {}};
}

bool recorded_on(const std::string& gpu, const DotModel& row) {
  for (const test::RecordedSet& set : test::recorded_sets()) {
    const DotModel* m = narrow::find_dot_model(set.model);
    if (set.gpu == gpu && m != nullptr && narrow::same_arithmetic(*m, row)) return true;
  }
  return false;
}

// The model that an instruction of the recordings must equal: mma.m16n8k16.f32.f16.f16 is hopper.mma.f32.f16.f16.k16.
std::string model_of(std::string instruction) {
  std::replace(instruction.begin(), instruction.end(), '.', ' ');
  const std::vector<std::string> words = words_of(instruction);
  if (words.size() < 5 || words[1].find('k') == std::string::npos) return "";  // sparse ones have no row
  std::string name = "hopper." + words[0] + "." + words[2] + "." + words[3] + "." + words[4];
  if (words[0] == "mma") name += words[1].substr(words[1].rfind('k')).insert(0, ".");
  for (std::size_t i = 5; i < words.size(); ++i) name += "." + words[i];
  return name;
}

// The models whose instructions are recorded in data/golden, with how many tiles. That the library gives the recorded
// bits is the matter of the tests of those recordings: here it counts that there is something to compare with.
std::map<std::string, std::uint64_t> recorded_models() {
  std::map<std::string, std::uint64_t> models;
  const std::filesystem::path folder = std::filesystem::path(NARROW_DATA) / "golden";
  if (!std::filesystem::is_directory(folder)) return models;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream in(entry.path());
    std::string line, model;
    std::uint64_t tiles = 0;
    for (int n = 0; n < 12 && std::getline(in, line) && line.starts_with("# "); ++n) {
      if (line.starts_with("# instruction ")) model = model_of(line.substr(14));
      if (line.starts_with("# tiles ")) tiles = std::stoull(line.substr(8));
    }
    if (!model.empty()) models[model] += tiles;
  }
  return models;
}

}  // namespace

TEST_CASE("dot: a row that claims to be replayed equals a recording on every GPU that it names") {
  for (const DotModel& m : narrow::dot_models()) {
    if (m.evidence != Evidence::replayed) continue;
    const std::string row(m.name.view());
    CHECK_MESSAGE(!words_of(m.proof).empty(), row << " names no GPU");
    for (const std::string& gpu : words_of(m.proof))
      CHECK_MESSAGE(recorded_on(gpu, m),
                    row << " claims a recording of " << gpu << " and there is none of this arithmetic");
  }
}

TEST_CASE("dot: a row that claims to be measured has its recording") {
  CHECK(model_of("mma.m16n8k16.f32.f16.f16") == "hopper.mma.f32.f16.f16.k16");
  CHECK(model_of("wgmma.m64n8k32.f32.e4m3.e5m2") == "hopper.wgmma.f32.e4m3.e5m2");
  CHECK(model_of("mma.m16n8k32.s32.s8.u8.satfinite") == "hopper.mma.s32.s8.u8.k32.satfinite");
  const auto recorded = recorded_models();
  for (const DotModel& m : narrow::dot_models()) {
    if (m.evidence != Evidence::measured) continue;
    const std::string row(m.name.view());
    CHECK_MESSAGE(m.proof.starts_with("data/golden"), row << " names no recording");
    const auto found = recorded.find(row);
    CHECK_MESSAGE((found != recorded.end() && found->second > 0),
                  row << " is measured, and data/golden has no recording of it");
  }
}

TEST_CASE("dot: every row has a source, a name of its own, and is found by it") {
  for (const DotModel& m : narrow::dot_models()) {
    CHECK(narrow::find_dot_model(m.name) == &m);
    CHECK_MESSAGE(!m.source.empty(), std::string(m.name.view()));
    if (m.evidence == Evidence::published || m.evidence == Evidence::assumed) CHECK(m.proof.empty());
    CHECK((m.evidence == Evidence::by_definition) == (m.generation == narrow::Generation::software));
  }
  CHECK(narrow::find_dot_model("hopper.mma.f32.f16.f16") == nullptr);
  CHECK(narrow::find_dot_model("") == nullptr);
}

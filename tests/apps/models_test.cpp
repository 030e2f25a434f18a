#include "narrow/dot/model.hpp"

#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "program.hpp"

using test::check_refused;
using test::contains;
using test::Json;
using test::narrow_json;

TEST_CASE("apps: models gives the promised keys for every row of the table") {
  const Json rows = narrow_json({"models"});
  REQUIRE(rows.size() == narrow::dot_models().size());
  std::set<std::string> names;
  for (const Json& row : rows) {
    for (const char* key : {"name", "generation", "unit", "a", "b", "accumulator", "products_per_step", "fraction_bits",
                            "result", "evidence", "source"})
      CHECK_MESSAGE(row.contains(key), key);
    CHECK(names.insert(row["name"]).second);
    const std::string front = row["generation"].get<std::string>() + "." + row["unit"].get<std::string>() + "." +
                              row["accumulator"].get<std::string>() + "." + row["a"].get<std::string>() + "." +
                              row["b"].get<std::string>();
    CHECK(row["name"].get<std::string>().rfind(front, 0) == 0);
    CHECK(row["source"] != "");
    CHECK(std::set<std::string>{"measured", "replayed", "published", "assumed", "by definition"}.count(
              row["evidence"]) == 1);
  }
}

TEST_CASE("apps: models knows the numbers of the Hopper FP8 path") {
  const Json rows = narrow_json({"models", "hopper.wgmma.f32.e4m3.e4m3"});
  REQUIRE(rows.size() == 1);
  CHECK(rows[0]["products_per_step"] == 32);
  CHECK(rows[0]["fraction_bits"] == 13);
  CHECK(rows[0]["exponent_floor"] == -133);
  CHECK(contains(rows[0]["result"], "13 bits"));
  CHECK(narrow_json({"models", "software.fma.f32.f16.f16"})[0]["fraction_bits"].is_null());
}

TEST_CASE("apps: models are chosen by generation and type and the front of a name") {
  for (const Json& row : narrow_json({"models", "--generation", "cdna3", "--type", "bf16"})) {
    CHECK(row["generation"] == "cdna3");
    CHECK(row["a"] == "bf16");
  }
  CHECK(narrow_json({"models", "--type", "fp16"}) == narrow_json({"models", "--type", "f16"}));
  const Json wgmma = narrow_json({"models", "hopper.wgmma"});
  CHECK(wgmma.size() > 5);
  for (const Json& row : wgmma) CHECK(row["unit"] == "wgmma");
  CHECK(narrow_json({"models", "HOPPER.WGMMA.F32.F16.F16"}).size() == 1);
}

// The example of each model is computed step by step, and the program compares its end with narrow::dot.
TEST_CASE("apps: every model is explained with an example in lines that fit") {
  std::vector<std::string> words{"models"};
  for (const narrow::DotModel& m : narrow::dot_models()) words.emplace_back(m.name.view());
  const test::Ran ran = test::narrow(words);
  CHECK(ran.status == 0);
  CHECK(ran.err == "");
  std::size_t explained = 0, longest = 0;
  for (std::size_t begin = 0; begin < ran.out.size();) {
    const std::size_t end = ran.out.find('\n', begin);
    const std::string line = ran.out.substr(begin, end - begin);
    explained += line == "An example" ? 1 : 0;
    longest = std::max(longest, line.size());
    CHECK((line.empty() || line.back() != ' '));
    begin = end + 1;
  }
  CHECK(explained == narrow::dot_models().size());
  CHECK(longest <= 120);
}

TEST_CASE("apps: models as text is a table and one model is a page") {
  const std::string table = test::narrow({"models", "--generation", "volta"}).out;
  CHECK(contains(table, "volta.mma.f32.f16.f16.k4"));
  CHECK(contains(table, "evidence"));
  const std::string page = test::narrow({"models", "hopper.mma.f32.f16.f16.k16"}).out;
  CHECK(contains(page, "25 fraction bits"));
  CHECK(contains(page, "hopper.wgmma.f32.f16.f16"));  // the same bits
  CHECK(contains(page, "what is below is cut"));
  CHECK(contains(page, "result    0x"));
}

// Counted again from the JSON, and README repeats the sentence.
TEST_CASE("apps: models counts what its rows rest on, and README says the same") {
  std::map<std::string, int> counts;
  int hardware = 0;
  for (const auto& row : test::Json::parse(test::narrow({"models", "--json"}).out)) {
    ++counts[row["evidence"]];
    hardware += row["generation"] != "software";
  }
  std::ostringstream readme;
  readme << std::ifstream(NARROW_ROOT "/README.md").rdbuf();
  const auto of = [&](const char* name) { return std::to_string(counts[name]) + " " + name; };
  const std::string said = std::to_string(hardware) + " of hardware (" + of("measured") + ", " + of("replayed") + ", " +
                           of("published") + ", " + of("assumed") + "), " + std::to_string(counts["by definition"]) +
                           " of software, by definition";
  CHECK(contains(test::narrow({"models"}).out, said));
  CHECK(contains(readme.str(), said));
  CHECK(contains(readme.str(), std::to_string(narrow::dot_models().size()) + " models of sums"));
  CHECK(contains(test::narrow({"models", "hopper.wgmma"}).out, "20 models: 20 of hardware (20 measured)."));
}

TEST_CASE("apps: every answer of a model says what the model rests on") {
  const std::vector<std::string> dot = {"dot", "--a", "1", "--b", "1", "--model"};
  const auto asked = [&](const char* model, bool json) {
    std::vector<std::string> words = dot;
    words.push_back(model);
    if (json) words.push_back("--json");
    return test::narrow(words).out;
  };
  CHECK(contains(asked("hopper.wgmma.f32.f16.f16", false), "evidence: measured on the GPU (data/golden)"));
  CHECK(contains(asked("blackwell.tcgen05.f32.f16.f16", false), "evidence: published, not compared with data here"));
  CHECK(contains(asked("ampere.mma.f32.f16.f16.k16", false), "replayed: equal to recordings of others (A100 A2)"));
  CHECK(test::Json::parse(asked("software.fma.f32.f16.f16", true))["evidence"] == "by definition");
  CHECK(test::Json::parse(asked("rtx-blackwell.mma.s32.s8.s8.k32", true))["evidence"] == "assumed");
}

TEST_CASE("apps: models refuses what it does not know") {
  check_refused({"models", "hopper.wgmma.f32.e4m3.e4m"},
                {"'hopper.wgmma.f32.e4m3.e4m'", "did you mean 'hopper.wgmma.f32.e4m3.e4m3'"});
  check_refused({"models", "hoper"}, {"'hoper'", "narrow models"});
  check_refused({"models", ""}, {"''"});
  check_refused({"models", "--generation", "hoper"}, {"--generation", "did you mean 'hopper'"});
  check_refused({"models", "--type", "e9m9"}, {"--type", "'e9m9'"});
  check_refused({"models", "--generation", "volta", "--type", "e4m3"}, {"no model fits"});
}

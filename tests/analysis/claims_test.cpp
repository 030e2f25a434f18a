// The verdicts on what tutorials say, pinned: a verdict that flips fails here until claims_expected.tsv, and with it
// the lessons that repeat it, has been looked at again.
#include "analysis/claims/claims.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "support/scale.hpp"

using namespace analysis;

namespace {

struct Expected {
  std::string verdict, statement;
};

std::map<int, Expected> read_expected() {
  std::map<int, Expected> all;
  std::ifstream file(NARROW_CLAIMS_EXPECTED);
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream cells(line);
    std::string number, verdict, statement;
    std::getline(cells, number, '\t'), std::getline(cells, verdict, '\t'), std::getline(cells, statement);
    all[std::stoi(number)] = {verdict, statement};
  }
  return all;
}

bool has_recordings() {
  return find_data("torch/logs.json") && find_data("torch/histograms.json") && find_data("torch/step300.safetensors") &&
         find_data("torch/micro_batches.safetensors") && find_data("golden/h200-bench.txt");
}

std::set<int> numbers_of(const Claims& claims) {
  std::set<int> numbers;
  for (const Claim& c : claims) numbers.insert(c.number);
  return numbers;
}

}  // namespace

TEST_CASE("claims: every statement has a verdict that the text beside it was written for") {
  REQUIRE(has_recordings());  // they are part of the sources: without them nothing would be compared
  const Experiment& experiment = require_experiment("claims");
  // Shorter runs than those of the page, which has the same verdicts.
  Study study = open_study(Parameters(experiment, {"lm_steps=50", "seeds=1"}, Effort::fast));
  Progress nobody;
  study.progress = &nobody;
  const std::map<int, Expected> expected = read_expected();
  const Claims claims = all_claims();
  CHECK(expected.size() == claims.size());
  // Training takes most of the time: shortened runs, under sanitizers, leave it out.
  const std::set<int> trained = numbers_of(training_claims());
  if (test::scale() < 1) MESSAGE("NARROW_TEST_SCALE is below 1: statements about training runs are left out");
  for (const Claim& claim : claims) {
    CAPTURE(claim.number);
    REQUIRE(expected.count(claim.number) == 1);
    const Expected& line = expected.at(claim.number);
    CHECK(line.statement == claim.statement);
    if (test::scale() < 1 && trained.count(claim.number) != 0) continue;
    const Measurement measured = claim.measure(study);
    CAPTURE(claim.statement);
    CAPTURE(measured.text);
    CHECK(std::string(name_of(measured.verdict)) == line.verdict);
    CHECK(measured.text.find("nan") == std::string::npos);
  }
}

TEST_CASE("claims: statements are numbered without gaps and say where they are from and what shows them") {
  const Claims claims = all_claims();
  REQUIRE(claims.size() >= 42);
  std::set<std::string> files;
  for (std::size_t i = 0; i < claims.size(); ++i) {
    const Claim& c = claims[i];
    CAPTURE(c.number);
    CHECK(c.number == static_cast<int>(i) + 1);
    CHECK(std::string(c.statement).back() == '.');
    CHECK(c.command.rfind("narrow ", 0) == 0);
    if (c.command.rfind("narrow run ", 0) == 0) {
      std::istringstream words(c.command.substr(11));
      std::string name;
      words >> name;
      CHECK_NOTHROW(require_experiment(name));
    }
    std::istringstream list(c.files);
    for (std::string file; std::getline(list, file, ',');) files.insert(file.substr(file.find_first_not_of(' ')));
  }
  CHECK(files == std::set<std::string>{"000", "001", "002", "003", "004"});
}

TEST_CASE("claims: a number holds when the measured one rounds to it") {
  CHECK(judge_number(7.2, 7.225, 0.1) == Verdict::holds);
  CHECK(judge_number(1.0, 1.2, 0.1) == Verdict::loose);
  CHECK(judge_number(24, 12.04, 1) == Verdict::wrong);
  CHECK(judge_number(3.3, 0.0033, 0.1) == Verdict::wrong);
}

TEST_CASE("claims: parts and cases and shares are judged by their counts") {
  CHECK(judge_parts(3, 3) == Verdict::holds);
  CHECK(judge_parts(1, 3) == Verdict::loose);
  CHECK(judge_parts(0, 3) == Verdict::wrong);
  CHECK(judge_cases(2, 2) == Verdict::holds);
  CHECK(judge_cases(1, 2) == Verdict::depends);
  CHECK(judge_cases(0, 2) == Verdict::wrong);
  CHECK(judge_share(0.95) == Verdict::holds);
  CHECK(judge_share(0.6) == Verdict::loose);
  CHECK(judge_share(0.2) == Verdict::wrong);
  CHECK(judge_range(1.5, 2, 0.1, {1.6, 2.04}) == Verdict::holds);
  CHECK(judge_range(1.5, 2, 0.1, {1.6, 2.4}) == Verdict::loose);
  CHECK(judge_range(1.5, 2, 0.1, {2.4, 7}) == Verdict::depends);
  CHECK(judge_range(1.5, 2, 0.1, {7, 8}) == Verdict::wrong);
  CHECK(judge_range(1.5, 2, 0.1, {}) == Verdict::unmeasured);
  CHECK(judge_failure(0, 2) == Verdict::not_shown);
  CHECK(judge_failure(1, 2) == Verdict::depends);
  CHECK(judge_failure(2, 2) == Verdict::holds);
}

// The exercise takes any gradient: its verdict follows the numbers.
TEST_CASE("claims: the exercise depends on its gradient and scale") {
  const Claims claims = format_claims();
  const auto verdict = [&](double gradient, double scale) {
    Study study;
    study.gradient = gradient, study.scale = scale;
    for (const Claim& c : claims)
      if (c.number == 29) return c.measure(study).verdict;
    return Verdict::unmeasured;
  };
  CHECK(verdict(1e-8, 1024) == Verdict::holds);
  CHECK(verdict(1e-7, 1024) == Verdict::loose);   // not lost without the scale
  CHECK(verdict(1e-30, 1024) == Verdict::loose);  // lost in any case
}

// 19 steps are too few for every rule that looks at a log: neither its start nor its end can be judged.
TEST_CASE("claims: a log that is too short is as none") {
  Study study;
  for (const char* name : {"fp32", "bf16", "fp16", "fp16 without scaling", "fp16 interval 20", "fp16 from 2^30",
                           "fp16 from 2^0", "fp16 from 2^-10"}) {
    const std::vector<double> ones(19, 1.0);
    study.logs.push_back({name, "float16", 0x1p16, 20, ones, ones, ones, ones, std::vector<std::uint8_t>(19, 0)});
  }
  study.recording = Recording{};
  std::size_t unmeasured = 0;
  for (const Claims& claims : {gradient_claims(), scaler_claims()})
    for (const Claim& c : claims)
      if (c.number == 14 || c.number == 27 || c.number == 33 || c.number == 35) {
        CAPTURE(c.number);
        const Measurement m = c.measure(study);
        CHECK(m.verdict == Verdict::unmeasured);
        CHECK(m.text.find("needs data/") == 0);
        ++unmeasured;
      }
  CHECK(unmeasured == 4);
}

TEST_CASE("claims: what needs a recording says so when it is not there") {
  const Study nothing;
  std::size_t unmeasured = 0;
  for (const Claim& c : gradient_claims())
    if (c.number == 8 || c.number == 9 || c.number == 14) {
      const Measurement m = c.measure(nothing);
      CHECK(m.verdict == Verdict::unmeasured);
      CHECK(m.text.find("needs data/") == 0);
      ++unmeasured;
    }
  CHECK(unmeasured == 3);
}

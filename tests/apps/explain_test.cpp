// --explain: the words must agree with the numbers that the same commands give to programs.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "program.hpp"

using test::check_refused;
using test::contains;
using test::Json;
using test::narrow_json;

namespace {

// The rest of the line that begins with this label, with its continuation lines joined.
std::string line_of(const std::string& text, const std::string& label) {
  std::istringstream lines(text);
  std::string found;
  for (std::string line; std::getline(lines, line);) {
    if (!found.empty() && line.rfind("      ", 0) == 0) found += " " + line.substr(line.find_first_not_of(' '));
    else if (!found.empty()) break;
    else if (line.rfind("  " + label + " ", 0) == 0) found = line.substr(line.find_first_not_of(' ', label.size() + 2));
  }
  return found;
}

std::string explain(const std::string& value, const std::string& format, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"show", value, "--formats", format, "--explain"});
  const test::Ran ran = test::narrow(more);
  CHECK(ran.status == 0);
  return ran.out;
}

struct ExplainFolder {
  std::filesystem::path path = std::filesystem::temp_directory_path() / ("narrow_explain" + std::to_string(getpid()));
  ExplainFolder() { std::filesystem::create_directories(path); }
  ~ExplainFolder() { std::filesystem::remove_all(path); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path / name) << text;
    return (path / name).string();
  }
};

}  // namespace

// Every format, every mode, numbers of every kind: what the words end with is what the program computes, and the
// position that they name lies at the number: |x| = (kept + fraction) * 2^q to the four digits of the fraction.
TEST_CASE("apps: show --explain ends with the code that show gives") {
  const std::vector<std::string> values{"0.1",   "-1e-7", "3",     "464", "65520", "1e9", "-1e9",   "1.0625",
                                        "5e-46", "0",     "1e-39", "inf", "nan",   "7.5", "2.9e-8", "-127.5"};
  for (const char* mode : {"nearest_even", "toward_zero", "up", "to_odd", "stochastic"}) {
    std::vector<std::string> words{"show"};
    words.insert(words.end(), values.begin(), values.end());
    words.insert(words.end(), {"--rounding", mode});
    const Json rows = narrow_json(words);
    words.push_back("--explain");
    const test::Ran ran = test::narrow(words);
    REQUIRE(ran.status == 0);
    std::size_t at = 0;
    for (const Json& row : rows) {
      const std::string input = row["input"], format = row["format"], code = row["code"];
      CAPTURE(input);
      CAPTURE(format);
      CAPTURE(mode);
      at = ran.out.find(input + " in " + format + "\n", at);
      REQUIRE(at != std::string::npos);
      const std::string part = ran.out.substr(at, ran.out.find("\n\n", at) - at) + "\n";
      const std::string line = line_of(part, "code");
      CHECK_MESSAGE(contains(line, code), line);
      const std::string position = line_of(part, "position");
      if (position.empty()) continue;
      double kept = 0, fraction = 0;
      int power = 0;
      const std::size_t ratio = position.find("/ 2^");
      REQUIRE(std::sscanf(position.c_str() + ratio, "/ 2^%d = %lf", &power, &kept) == 2);
      if (contains(position, "and "))
        REQUIRE(std::sscanf(position.c_str() + position.find("and "), "and %lf", &fraction) == 1);
      // Half a unit in the fourth digit of the fraction, or the double of the text where steps are many.
      const double x = std::fabs(std::stod(input)) / std::ldexp(1.0, power);
      CHECK(std::fabs(kept + fraction - x) <= 6e-5 + 1e-15 * x);
    }
  }
}

TEST_CASE("apps: show --explain tells a tie and an underflow and an overflow apart") {
  CHECK(contains(explain("0.1", "fp16"), "1638 * 2^-14 = 0.0999755859375 and 1639 * 2^-14 = 0.10003662109375"));
  CHECK(contains(line_of(explain("1.125", "e5m2"), "decision"), "of 4 and 5 that is 4"));
  CHECK(contains(line_of(explain("1.375", "e5m2"), "decision"), "of 5 and 6 that is 6"));
  CHECK(contains(explain("0x1p-25", "fp16"), "underflow"));
  CHECK(contains(explain("70000", "fp16"), "from the middle, 65520, on"));
  CHECK(contains(line_of(explain("465", "e4m3"), "decision"), "NaN"));
  CHECK(contains(line_of(explain("465", "e4m3", {"--overflow", "saturate"}), "decision"), "saturates"));
  CHECK(contains(explain("1e-6", "fp16", {"--subnormals", "flush_results"}), "flushes subnormal results"));
  CHECK(contains(explain("0.1", "e4m3", {"--cast", "torch"}), "goes through FP32"));
  CHECK(contains(explain("-3", "e8m0"), "no sign bit"));
  CHECK(contains(explain("1e-45", "e8m0"), "no zero"));
  CHECK(contains(test::narrow({"show", "0x2E66", "--from", "fp16", "--formats", "fp16", "--explain"}).out, "0x2E66"));
  check_refused({"show", "1", "--explain", "--json"}, {"--explain", "--json"});
}

TEST_CASE("apps: dot --explain names the cut and accounts for the whole error") {
  const auto words = [](const std::string& model, const std::string& a, const std::string& b) {
    const test::Ran ran = test::narrow({"dot", "--model", model, "--a", a, "--b", b, "--explain"});
    CHECK(ran.status == 0);
    return ran.out.substr(ran.out.find("In words"));
  };
  const std::string hopper = words("hopper.mma.f32.f16.f16.k16", "1,-1,2^-13", "1,1,1.5*2^-13");
  CHECK(contains(hopper, "2^(0 - 25) = 2^-25"));
  CHECK(contains(line_of(hopper, "cut"), "k 2 = 3*2^-27 keeps 0 quanta and loses 3*2^-27"));
  CHECK(contains(line_of(hopper, "add"), "33554432 - 33554432 + 0 = 0 quanta"));
  CHECK(contains(line_of(hopper, "add"), "does not come back"));
  CHECK(contains(line_of(hopper, "causes"), "-3*2^-27 by cutting terms and 0 by rounding"));
  CHECK(contains(words("hopper.mma.f32.f16.f16.k16", "1,2", "3,4"), "11, which is the exact sum"));
  CHECK(contains(line_of(words("hopper.mma.f32.f16.f16.k16", "1,1", "inf,1"), "special"), "Inf or NaN"));
  check_refused({"dot", "--model", "hopper.mma.f32.f16.f16.k16", "--a", "1", "--b", "1", "--explain", "--json"},
                {"--explain", "--json"});
}

// The parts are only told where they add up exactly: that they do, for every model, is the check.
TEST_CASE("apps: dot --explain works for every model") {
  for (const Json& model : narrow_json({"models"})) {
    const std::string name = model["name"];
    CAPTURE(name);
    const test::Ran ran = test::narrow({"dot", "--model", name, "--a", "1,1,1", "--b", "1,1,1", "--explain"});
    CHECK(ran.status == 0);
    CHECK(contains(ran.out, "which is the exact sum"));
  }
}

TEST_CASE("apps: scale-trace --explain tells why a step overflows and what the rule does then") {
  const ExplainFolder folder;
  std::string log = "step,amax\n";
  for (int i = 0; i < 40; ++i) log += std::to_string(i) + ",0.5\n";
  const std::string file = folder.write("log.csv", log);
  const test::Ran ran = test::narrow({"scale-trace", "--events", file, "--policy", "torch,megatron", "--init", "2^19",
                                "--growth-interval", "10", "--explain"});
  CHECK(ran.status == 0);
  const std::string torch = ran.out.substr(0, ran.out.find("\nmegatron\n"));
  CHECK(contains(line_of(torch, "steps 0-2"),
                 "3 overflows in a row, the first: the largest gradient 0.5 * 2^19 = 262144"));
  CHECK(contains(line_of(torch, "steps 3-12"), "10 good steps at scale 2^16"));
  CHECK(contains(line_of(torch, "step 13"), "0.5 * 2^17 = 65536"));
  CHECK(contains(line_of(torch, "room"), "2^16 (32768 < 65520)"));
  CHECK(contains(ran.out, "hysteresis_tracker"));
  check_refused({"scale-trace", "--events", file, "--explain", "--json"}, {"--explain", "--json"});
}

TEST_CASE("apps: scale-trace --explain shows how a scale without a floor dies") {
  const ExplainFolder folder;
  std::string log = "step,amax\n";
  for (int i = 0; i < 200; ++i) log += std::to_string(i) + ",inf\n";
  const test::Ran ran =
      test::narrow({"scale-trace", "--events", folder.write("bad.csv", log), "--policy", "torch", "--explain"});
  CHECK(ran.status == 0);
  CHECK(contains(line_of(ran.out, "steps 0-199"), "no scale can help"));
  CHECK(contains(line_of(ran.out, "collapse"), "0 * Inf is NaN"));
  CHECK(contains(line_of(ran.out, "stall"), "200 steps in a row"));
}

TEST_CASE("apps: scale-trace --explain does not fit a NaN into a format") {
  const ExplainFolder folder;
  const std::string file = folder.write("nan.csv", "step,amax\n0,nan\n1,2\n2,2000\n");
  const test::Ran ran = test::narrow({"scale-trace", "--events", file, "--policy", "te-delayed", "--explain"});
  CHECK(contains(line_of(ran.out, "step 0"), "the largest scaled value is nan, which no limit holds"));
  CHECK(contains(line_of(ran.out, "step 1"), "the largest scaled value is 2, within the format's largest 448"));
  CHECK(contains(line_of(ran.out, "step 2"), "so it is clipped: 448"));
  CHECK(contains(line_of(ran.out, "in all"), "1 of 3 steps clip their largest value, in 1 it is NaN; the scale of a"));
}

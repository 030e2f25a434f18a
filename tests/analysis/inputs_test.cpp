#include "analysis/recordings/inputs.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <functional>

#include "analysis/recordings.hpp"
#include "support/scale.hpp"
#include "support/contains.hpp"

using analysis::RecordedPass;
using analysis::RecordedTensor;
using analysis::Recording;
using analysis::Values;

namespace {

std::string one_tensor(const std::string& fields) {
  return R"({"model":{"layers":1,"width":8,"heads":1,"context":4},"attention":[],"steps":[{"label":"step 0","step":0,)"
         R"("scale":1.0,"tokens":4,"dtype":"float32","tensors":[{"kind":"grad","name":"w",)" +
         fields + "}]}]}";
}

}  // namespace

TEST_CASE("analysis: made normal numbers have the moments and the tails of normal numbers") {
  const std::uint64_t n = test::scaled(200000, 50000);
  double sum = 0, squares = 0, fourth = 0;
  std::uint64_t beyond[4] = {};
  for (std::uint64_t i = 0; i < n; ++i) {
    const double x = analysis::normal(7, i);
    sum += x, squares += x * x, fourth += x * x * x * x;
    for (int k = 1; k <= 3; ++k) beyond[k] += std::fabs(x) > k ? 1 : 0;
  }
  const auto dn = static_cast<double>(n);
  const double deviations = 5;  // a correct generator fails one run in a million
  CHECK(std::fabs(sum / dn) < deviations / std::sqrt(dn));
  CHECK(std::fabs(squares / dn - 1) < deviations * std::sqrt(2 / dn));
  CHECK(std::fabs(fourth / dn - 3) < deviations * std::sqrt(96 / dn) + 0.02);  // 0.02: 512 bits, 3 - 6/512
  const double share[4] = {1, 0.31731, 0.04550, 0.0026998};
  for (int k = 1; k <= 3; ++k) {
    CAPTURE(k);
    const double expected = share[k] * dn;
    CHECK(std::fabs(static_cast<double>(beyond[k]) - expected) < deviations * std::sqrt(expected) + 0.05 * expected);
  }
}

// Integers and one correctly rounded division: the same on every machine, so a literal must hold everywhere.
TEST_CASE("analysis: made numbers are the same bits everywhere") {
  CHECK(std::bit_cast<std::uint64_t>(analysis::uniform(1, 2)) == 0x3fef12745ddf664au);
  CHECK(std::bit_cast<std::uint64_t>(analysis::normal(1, 0)) == 0xbfca4633acc21c60u);
  CHECK(std::bit_cast<std::uint64_t>(analysis::normal(1, 1)) == 0xbfcf65713bf84153u);
}

TEST_CASE("analysis: the folder that NARROW_DATA names comes first and an empty one means no recordings") {
  test::WithData data("torch/logs.json", R"({"runs":[]})");
  REQUIRE(analysis::find_data("torch/logs.json"));
  CHECK(*analysis::find_data("torch/logs.json") == data.folder() + "/torch/logs.json");
  CHECK(analysis::load_logs().empty());
  data.set_environment("");
  CHECK_FALSE(analysis::find_data("torch/logs.json"));
  CHECK_FALSE(analysis::load_recording());
}

TEST_CASE("analysis: a recording that does not add up is refused with the file and the tensor") {
  const auto refusal = [](const std::string& text) {
    const test::WithData data("torch/histograms.json", text);
    return test::error_of([] { analysis::load_recording(); });
  };
  const std::string good =
      R"("count":4,"zeros":1,"subnormal":0,"inf":0,"nan":0,"amax":1.5,"first":-3,"binades":[1,0,0,2])";
  CHECK(refusal(one_tensor(good)) == "");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return refusal(one_tensor(text.replace(at, from.size(), to)));
  };
  CHECK(with("[1,0,0,2]", "[1,0,0,3]").find("do not add up") != std::string::npos);
  CHECK(with("\"first\":-3", "\"first\":-127").find("outside of -126 .. 127") != std::string::npos);
  CHECK(with("\"first\":-3", "\"first\":125").find("outside of -126 .. 127") != std::string::npos);
  CHECK(with("\"first\":-3", "\"first\":2147483647").find("outside of -126 .. 127") != std::string::npos);
  CHECK(with("\"zeros\":1,", "").find("zeros") != std::string::npos);
  CHECK(with("[1,0,0,2]", "\"many\"").find("histograms.json") != std::string::npos);
  CHECK(refusal("{").find("no JSON") != std::string::npos);
  CHECK(refusal(R"({"steps": [], "steps": []})").find("key 'steps' is given twice") != std::string::npos);
  CHECK(refusal("{\"steps\": []}" + std::string(1, '\0') + "{}").find("a zero byte at byte 13") != std::string::npos);
  CHECK(refusal("[]").find("histograms.json") != std::string::npos);
  for (const std::string& text : {std::string("{"), std::string("[]"), one_tensor("")})
    CHECK(refusal(text).find('\n') == std::string::npos);
}

TEST_CASE("analysis: a log without a column is refused by its name") {
  const test::WithData data("torch/logs.json",
                            R"({"runs":[{"name":"fp16","dtype":"float16","init_scale":null,"growth_interval":null,)"
                            R"("columns":["step","loss","scale","found_inf","score_amax"],"rows":[]}]})");
  CHECK(test::error_of([] { analysis::load_logs(); }) == "the log fp16 has no column grad_amax");
}

TEST_CASE("analysis: a log without rows is refused and a short one is not found where more steps are needed") {
  const auto with_rows = [](const std::string& rows) {
    return R"({"runs":[{"name":"fp16","dtype":"float16","init_scale":null,"growth_interval":null,)"
           R"("columns":["loss","scale","found_inf","grad_amax","score_amax"],"rows":[)" +
           rows + "]}]}";
  };
  {
    const test::WithData data("torch/logs.json", with_rows(""));
    CHECK(test::error_of([] { analysis::load_logs(); }) == "the log fp16 has no rows; a log has one a step");
  }
  const test::WithData data("torch/logs.json", with_rows("[1,1,0,1,1],[1,1,0,1,1]"));
  const std::vector<analysis::TrainingLog> logs = analysis::load_logs();
  CHECK(analysis::find_log(logs, "fp16") != nullptr);
  CHECK(analysis::find_log(logs, "fp16", 2) != nullptr);
  CHECK(analysis::find_log(logs, "fp16", 3) == nullptr);
}

TEST_CASE("analysis: the recording of the GPU and the values in the files agree binade by binade") {
  const std::optional<Recording> r = analysis::load_recording();
  REQUIRE(r);
  CHECK(r->layers == 4);
  std::size_t compared = 0;
  for (const int step : {300, 1000})
    for (const Values& v :
         analysis::read_values_of(*analysis::find_data("torch/step" + std::to_string(step) + ".safetensors"), "grad."))
      for (const RecordedPass& p : r->passes)
        for (const RecordedTensor& t : p.tensors) {
          if (p.label != "step " + std::to_string(step) || t.kind + "." + t.name != v.name) continue;
          if (t.histogram.count() != v.data.size()) continue;  // only a part of it is in the file
          const narrow::ExponentHistogram own = narrow::exponent_histogram(v.data);
          ++compared;
          CHECK(own.zero.total() == t.histogram.zero.total());
          for (int e = -126; e <= 127; ++e) CHECK(own.binade(e).total() == t.histogram.binade(e).total());
        }
  CHECK(compared >= 2);
}

TEST_CASE("analysis: every recorded pass and log is complete") {
  const std::optional<Recording> r = analysis::load_recording();
  REQUIRE(r);
  CHECK(r->passes.size() == 17);
  CHECK(r->attention.size() == 5 * 4 * 4);
  for (const RecordedPass& p : r->passes) CHECK(p.tensors.size() >= 109);
  const std::vector<analysis::TrainingLog> logs = analysis::load_logs();
  CHECK(logs.size() == 8);
  for (const analysis::TrainingLog& log : logs) {
    CAPTURE(log.name);
    CHECK(log.loss.size() == (log.name.find("from") != std::string::npos ? 401u : 1001u));
    CHECK(log.loss.front() > log.loss.back());
  }
}

TEST_CASE("analysis: a file without floating tensors is refused with what it has") {
  const std::string header = R"({"labels":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}})";
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(header.size() >> (8 * i));
  file += header + std::string(4, '\0');
  const test::WithData data("i.safetensors", file);
  const std::string path = data.folder() + "/i.safetensors";
  CHECK(test::error_of([&] { analysis::read_values_of(path); }) ==
        path + ": no floating tensor with values; it has labels (I32)");
  CHECK(test::error_of([&] { analysis::read_values_of(path + ":labels"); }) ==
        path + ":labels: elements are I32, not floating");
}

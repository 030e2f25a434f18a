// Tensor files whose names or shapes are not those of the recordings: refused in one line, or computed by their own
// shape.
#include <doctest/doctest.h>

#include <cmath>

#include "analysis/recordings.hpp"
#include "attention_model.hpp"
#include "experiment.hpp"
#include "inputs.hpp"
#include "narrow/format/find_format.hpp"

using namespace analysis;

namespace {

struct Named {
  std::string name;
  std::size_t rows, cols;
};

// A safetensors file of FP32 values, none of them zero.
std::string file_of(const std::vector<Named>& tensors) {
  std::string header = "{", data;
  for (const Named& t : tensors) {
    const std::size_t begin = data.size(), count = t.rows * t.cols;
    for (std::size_t i = 0; i < count; ++i) data += std::string("\x00\x00", 2) + static_cast<char>(i % 128) + '\x3f';
    header += (header.size() > 1 ? ",\"" : "\"") + t.name + R"(":{"dtype":"F32","shape":[)" + std::to_string(t.rows) +
              "," + std::to_string(t.cols) + R"(],"data_offsets":[)" + std::to_string(begin) + "," +
              std::to_string(data.size()) + "]}";
  }
  header += "}";
  std::string size;
  for (int i = 0; i < 8; ++i) size += static_cast<char>(header.size() >> (8 * i));
  return size + header + data;
}

std::string refusal(const std::string& name, const std::vector<std::string>& settings = {}) {
  const Experiment& e = require_experiment(name);
  Progress nobody;
  try {
    run_experiment(e, Parameters(e, settings, Effort::fast), nobody);
  } catch (const narrow::Error& error) {
    CHECK(std::string(error.what()).find('\n') == std::string::npos);
    return error.what();
  }
  return "";
}

std::vector<Named> operands(std::size_t head_cols, std::size_t branch_rows, std::size_t weight_cols) {
  return {{"act.head", 32, head_cols},
          {"act.blocks.3.residual", 128, 64},
          {"act.blocks.0.residual", branch_rows, 64},
          {"act.blocks.3.ln2", 128, 64},
          {"weight.blocks.3.up.weight", 128, weight_cols}};
}

}  // namespace

TEST_CASE("analysis: operations take the shape of each tensor and refuse shapes that do not fit") {
  const auto tried = [](const std::vector<Named>& tensors) {
    const test::WithData data("t.safetensors", file_of(tensors));
    return refusal("operation_policy", {"tensors=" + data.folder() + "/t.safetensors"});
  };
  CHECK(tried(operands(192, 128, 64)) == "");  // logits wider than the model
  CHECK(tried(operands(192, 64, 64)).find("act.blocks.0.residual differ in shape") != std::string::npos);
  CHECK(tried(operands(192, 128, 96)).find("last dimension") != std::string::npos);
  CHECK(tried(operands(16, 128, 64)).find("act.head has 512 values; it needs 4096") != std::string::npos);
}

TEST_CASE("analysis: a recording without the expected names is refused") {
  const test::WithData data("torch/step300.safetensors", file_of({{"other", 8, 8}}));
  CHECK(refusal("fp8_scaling").find("no tensor of two rows") != std::string::npos);
  CHECK(refusal("format_choice", {"samples=64"}).find("names begin with weight.") != std::string::npos);
}

TEST_CASE("analysis: the finding of accumulator_width names the K that it measured") {
  const Experiment& e = require_experiment("accumulator_width");
  Progress nobody;
  const Outcome o = run_experiment(e, Parameters(e, {"outputs=2", "longest=200"}, Effort::fast), nobody);
  CHECK(o.finding.find("A dot product of 128 positive") == 0);
}

// Two heads of different d: each is divided by its own root, so together they err as they do alone.
TEST_CASE("analysis: every head has the root of its own d") {
  const auto head = [](std::size_t d) {
    return Head{16, d, normal_values(16 * d, 2, d), normal_values(16 * d, 2, d + 1)};
  };
  const Holding holding{*narrow::find_format("fp16"), false, AttentionFunction::plain};
  const double small = HeldScores({head(4)}, holding).at(0).error, large = HeldScores({head(64)}, holding).at(0).error;
  const double both = HeldScores({head(4), head(64)}, holding).at(0).error;
  constexpr double other_order = 1e-14;  // sums of 16 errors below 1, added in another order
  CHECK(small != large);
  CHECK(std::fabs(both - (small + large) / 2) < other_order);
}

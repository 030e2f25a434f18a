// Tensor files whose names or shapes are not those of the recordings: refused in one line, or computed by their own
// shape.
#include <doctest/doctest.h>

#include <cmath>

#include "analysis/experiments/attention_model.hpp"
#include "analysis/recordings.hpp"
#include "analysis/recordings/inputs.hpp"
#include "narrow/format/find_format.hpp"
#include "stored.hpp"

using namespace analysis;
using test::stored;

namespace {

std::string refusal(const std::string& name, const std::vector<std::string>& settings = {}) {
  const std::string text = test::error_of([&] { test::run_experiment(name, settings); });
  CHECK((text.empty() || test::is_one_line(text)));
  return text;
}

std::vector<test::Stored> operands(std::size_t head_cols, std::size_t branch_rows, std::size_t weight_cols) {
  return {stored("act.head", {32, head_cols}), stored("act.blocks.3.residual", {128, 64}),
          stored("act.blocks.0.residual", {branch_rows, 64}), stored("act.blocks.3.ln2", {128, 64}),
          stored("weight.blocks.3.up.weight", {128, weight_cols})};
}

}  // namespace

TEST_CASE("analysis: operations take the shape of each tensor and refuse shapes that do not fit") {
  const auto tried = [](const std::vector<test::Stored>& tensors) {
    const test::Folder folder;
    return refusal("operation_policy", {"recording=" + folder.write("t.safetensors", test::file_of(tensors))});
  };
  CHECK(tried(operands(192, 128, 64)) == "");  // logits wider than the model
  CHECK(tried(operands(192, 64, 64)).find("act.blocks.0.residual differ in shape") != std::string::npos);
  CHECK(tried(operands(192, 128, 96)).find("last dimension") != std::string::npos);
  CHECK(tried(operands(16, 128, 64)).find("act.head has 512 values; it needs 4096") != std::string::npos);
}

TEST_CASE("analysis: a recording without the expected names is refused") {
  const test::WithData data("torch/step300.safetensors", test::file_of({stored("other", {8, 8})}));
  CHECK(refusal("fp8_scaling").find("no tensor of two rows") != std::string::npos);
  CHECK(refusal("operation_policy").find("there is no tensor act.head") != std::string::npos);
  // Recordings of two runs do not meet in one answer: what this folder lacks is not taken from another.
  CHECK(refusal("gradient_underflow").find("torch/histograms.json was not found in " + data.folder()) !=
        std::string::npos);
}

TEST_CASE("analysis: the finding of accumulator_width names the K that it measured") {
  const Outcome o = test::run_experiment("accumulator_width", {"outputs=2", "longest=200"});
  CHECK(o.finding.find("A dot product of 128 positive") == 0);
}

// Two heads of different d: each is divided by its own root, so together they err as they do alone.
TEST_CASE("analysis: every head has the root of its own d") {
  const auto head = [](std::size_t d) {
    return Head{16, 16, d, normal_values(16 * d, 2, d), normal_values(16 * d, 2, d + 1)};
  };
  const Holding holding{*narrow::find_format("fp16"), false, AttentionFunction::plain};
  const double small = HeldScores({head(4)}, holding).at(0).error, large = HeldScores({head(64)}, holding).at(0).error;
  const double both = HeldScores({head(4), head(64)}, holding).at(0).error;
  constexpr double other_order = 1e-14;  // sums of 16 errors below 1, added in another order
  CHECK(small != large);
  CHECK(std::fabs(both - (small + large) / 2) < other_order);
}

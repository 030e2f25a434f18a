// What experiments say of a watched run, on runs for which the answer is known.
#include <doctest/doctest.h>

#include <cmath>

#include "stored.hpp"
#include "tensor/watched_folder.hpp"

using namespace analysis;
using test::Folder;
using test::has;
using test::Watched;

namespace {

Outcome outcome_of(const std::vector<Watched>& tensors, const std::string& experiment = "watched_run",
                   const std::string& scale = "") {
  const Folder folder;
  return test::run_experiment(experiment, {"run=" + test::write_run(folder, tensors, scale)});
}
std::string finding_of(const std::vector<Watched>& tensors) { return outcome_of(tensors).finding; }

const std::string scales =
    "{\"step\": 0, \"scale\": 8.0, \"found_inf\": true, \"amax\": null}\n"
    "{\"step\": 1, \"scale\": 4.0, \"found_inf\": false, \"amax\": 0.5}\n";

}  // namespace

TEST_CASE("analysis: the finding of watched_run is what the values give") {
  CHECK(
      finding_of({{0, "gradient", "w", {1, 0, 1e-9f, 1e-6f}}, {50, "gradient", "w", {1e6f, 1, 1, 0x1p-10f}}}) ==
      "Of the parameter gradients at 2 watched steps, 0 to 50, fp16 turns 14.3 % into zero and 14.3 % into subnormals and 14.3 % "
      "overflow, e4m3 turns 42.9 % into zero and 0 % into subnormals and 14.3 % overflow; the worst is gradient/w at "
      "step 0: of its 3 values that are finite and not zero e4m3 loses 66.7 %.");
  CHECK(
      finding_of({{3, "parameter", "w", {1, 2}}}) ==
      "Of the parameters at step 3, fp16 turns 0 % into zero and 0 % into subnormals, e4m3 turns 0 % into zero and 0 % "
      "into subnormals; no tensor loses a value to zero or overflow.");
  CHECK(has(finding_of({{3, "activation", "a", {1}}, {3, "gradient", "w", {2, 4}, 1024}}),
            "Of the parameter gradients at step 3, times the loss scale, fp16 "));
}

TEST_CASE("analysis: watched_run names NaN and Inf and says what it cannot tell") {
  CHECK(has(
      finding_of({{0, "gradient", "w", {1, 1}}, {0, "activation", "a", {1, NAN, INFINITY}}, {50, "score", "s", {NAN}}}),
      "; NaN or Inf are in 2 of 3 tensors, first in activation/a at step 0."));
  CHECK(
      finding_of({{0, "gradient", "w", {0, 0}}, {0, "activation", "a", {NAN}}}) ==
      "No value of 2 tensors at step 0 is finite and not zero; NaN or Inf are in 1 of 2 tensors, first in activation/a "
      "at step 0.");
  CHECK(finding_of({{0, "gradient", "w", {}}}) == "No value of 1 tensor at step 0 is finite and not zero.");
  CHECK(finding_of({}) ==
        "The folder has 0 tensors: no step was watched to its end, and what formats did cannot be told.");
  const Folder folder;
  test::write_run(folder, test::watched_line({0, "gradient", "w", {1, 1e6f, 0x1p-20f, 1e-9f}}, {}), "", "",
                  R"({"narrow_run": 1, "formats": []})");
  const Outcome by_binades = test::run_experiment("watched_run", {"run=" + folder.path()});
  CHECK(
      has(by_binades.finding, "fp16 turns 25 % into zero and 25 % into subnormals and 25 % overflow, e4m3 turns 50 %"));
  CHECK(has(by_binades.notes.at(0), "Counted in binades"));
  CHECK(has(outcome_of({{0, "gradient", "w", {1}}}, "watched_run", scales).finding,
            "; the loss scaler skipped 1 of 2 steps."));
}

TEST_CASE("analysis: the tables of watched_run have every kind, and the worst tensor of each") {
  const Outcome o = outcome_of({{0, "gradient", "a", {1, 1}},
                                {0, "gradient", "b", {1e-9f, 1}},
                                {0, "update", "a", {0}},
                                {9, "gradient", "a", {1e-9f, 1e-9f}},
                                {9, "gradient", "b", {1, 1}}});
  const narrow::report::Table& t = o.tables[0];
  REQUIRE(t.rows.size() == 4);  // two kinds, two formats
  CHECK(t.rows[0][2] == narrow::report::Cell{std::int64_t{4}});
  CHECK(t.rows[0][3] == narrow::report::Cell{37.5});
  CHECK(t.rows[0][6] == narrow::report::Cell{std::string("gradient/a")});
  CHECK(t.rows[0][7] == narrow::report::Cell{std::int64_t{9}});
  CHECK(t.rows[0][9] == narrow::report::Cell{100.0});
  CHECK(t.rows[2][3] == narrow::report::Cell{});  // updates: nothing that could be lost
  REQUIRE(o.tables[1].rows.size() == 3);
  CHECK(o.tables[1].rows[2][5] == narrow::report::Cell{50.0});
  CHECK(o.plots.size() == 2);
  CHECK(o.plots[1].panels.size() == 1);
}

TEST_CASE("analysis: gradient_underflow takes the last step of a watched run without its loss scale") {
  const Outcome o = outcome_of({{0, "gradient", "w", {1e-30f}},
                                {50, "gradient", "w", {0x1.8p-2f, 0x1.8p-17f}, 1024},
                                {50, "activation", "a", {1e-30f}}},
                               "gradient_underflow");
  CHECK(has(o.finding, "Without a loss scale FP16 turns 50 % of the gradients into zero and 0 % into subnormals"));
  CHECK(has(o.data.text, " at step 50"));
  CHECK(o.tables[0].rows[0][3] == narrow::report::Cell{0x1.8p-12});
  const std::string spoiled = outcome_of({{0, "gradient", "w", {INFINITY, 1}, 1024}}, "gradient_underflow").finding;
  CHECK(
      has(spoiled, "The data has 1 Inf at a loss scale of 2^10, and does not tell at which there would be none; of "));
  const auto refused = [](const std::vector<Watched>& tensors) {
    return test::error_of([&] { outcome_of(tensors, "gradient_underflow"); });
  };
  CHECK(has(refused({{0, "activation", "a", {1}}}), "no gradients were watched"));
  CHECK(has(refused({{0, "gradient", "a", {1}, 1000}}),
            "'gradient/a@0' was multiplied by 1000, which is no power of two"));
  CHECK(has(refused({{0, "gradient", "a", {0}, 0}}), "was multiplied by 0, which is no power of two"));
  CHECK(has(refused({{0, "gradient", "a", {1e-40f}, 0.5}}), "has subnormals of FP32 and a loss scale below 1"));
  CHECK(has(refused({{0, "gradient", "a", {0}}}), "no gradient is finite and not zero"));
}

TEST_CASE("analysis: loss_scaling tells what the scaler of a watched run did") {
  const std::vector<Watched> tensors = {{0, "gradient", "w", {1}}};
  const Outcome o = outcome_of(tensors, "loss_scaling", scales);
  CHECK(has(o.finding, "This run skipped 1 of 2 steps and its loss scale moved between 2^2 and 2^3; 1 step of NaN "));
  CHECK(has(outcome_of(tensors, "loss_scaling").finding,
            "This run had no loss scaler; its gradients are known at 1 step; 1 step of NaN gradients "));
  CHECK(has(test::error_of([&] {
              outcome_of({{0, "score", "s", {1}}}, "loss_scaling");
            }),
            "neither steps of a loss scaler nor gradients"));
}

TEST_CASE("analysis: without run= a recorded run is shown, and said to be one") {
  const Outcome o = test::run_experiment("watched_run", {});
  CHECK(has(o.data.text, "recorded: a byte-level GPT"));
  CHECK(has(o.finding, "; the loss scaler skipped 4 of 151 steps."));
}

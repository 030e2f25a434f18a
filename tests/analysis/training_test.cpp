// The experiments that train, with a few steps: they run, their rows are well formed, and their numbers repeat.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/framework/experiment.hpp"
#include "analysis/framework/training_runs.hpp"
#include "analysis/stored.hpp"

using namespace analysis;
using narrow::report::Cell;
using narrow::report::Table;

namespace {

// The loss of a run of digits that is made here, outside of the store that experiments share.
double fresh_loss(const std::string& recipe, std::uint64_t steps, double rate) {
  narrow::train::RunRequest request;
  request.recipe = narrow::train::require_recipe(recipe);
  request.steps = steps;
  request.optimiser = narrow::train::settings_of(request.task).optimiser;
  request.optimiser->learning_rate *= rate;
  return narrow::train::run_training(request).final_loss;
}

const std::vector<Cell>& row_of(const Table& t, const std::string& first) {
  for (const auto& row : t.rows)
    if (std::get<std::string>(row[0]) == first) return row;
  FAIL("no row " << first);
  return t.rows[0];
}

}  // namespace

TEST_CASE("analysis: runs side by side are those made alone, each is made once, and progress only grows") {
  struct Heard : Progress {
    std::vector<double> parts;
    void at(double part, std::string_view) override { parts.push_back(part); }
  } heard;
  std::vector<RunPlan> plans;
  for (const char* recipe : {"fp32", "bf16-amp", "fp16-amp", "fp32", "bf16-pure"}) plans.push_back({.recipe = recipe, .steps = 7});
  const auto runs = training_runs(plans, heard, 0.25, 0.75);
  REQUIRE(runs.size() == 5);
  CHECK(runs[0] == runs[3]);
  for (std::size_t i = 0; i < plans.size(); ++i) CHECK(runs[i]->final_loss == fresh_loss(plans[i].recipe, 7, 1));
  CHECK(heard.parts.size() == 4 * 7 + 1);
  CHECK(std::is_sorted(heard.parts.begin(), heard.parts.end()));
  CHECK(heard.parts.front() > 0.25);
  CHECK(heard.parts.back() == 0.75);
  CHECK(&training_run(plans[1], heard) == runs[1]);
  CHECK(training_runs({}, heard).empty());
}

TEST_CASE("analysis: master_weights runs, repeats, and its losses are those of the same training elsewhere") {
  const std::vector<std::string> few = {"samples=200", "updates=64", "steps=20", "seeds=1"};
  const Outcome o = test::run_experiment("master_weights", few);
  CHECK(test::all_cells(o) == test::all_cells(test::run_experiment("master_weights", few)));
  REQUIRE(o.tables.size() == 4);
  const Table &arrived = o.tables[1], &training = o.tables[2];
  CHECK(training.rows.size() == 6);
  for (const char* recipe : {"fp32", "bf16-pure"})
    CHECK(std::get<double>(row_of(training, recipe)[1]) == fresh_loss(recipe, 20, 0.05));
  // The updates that were made: no more than asked for, and no more than half of the weight.
  REQUIRE(arrived.columns[1].name == "updates");
  for (const auto& row : arrived.rows) {
    const auto used = std::get<std::int64_t>(row[1]);
    CHECK(used >= 1);
    CHECK(used <= 64);
    CHECK(static_cast<double>(used) * std::get<double>(row[0]) <= 0.5);
  }
  CHECK(std::get<std::int64_t>(arrived.rows.front()[1]) == 64);
  CHECK(std::get<std::int64_t>(arrived.rows.back()[1]) == 32);  // 2^-6 of the weight
}

TEST_CASE("analysis: training_recipes runs, repeats, and adds FP32 to compare with") {
  const std::vector<std::string> few = {"recipes=bf16-amp+fp8-noscale", "steps=20", "lm_steps=2", "seeds=1"};
  const Outcome o = test::run_experiment("training_recipes", few);
  CHECK(test::all_cells(o) == test::all_cells(test::run_experiment("training_recipes", few)));
  REQUIRE(o.tables.size() == 2);
  const Table &digits = o.tables[0], &keepers = o.tables[1];
  REQUIRE(digits.rows.size() == 3);
  CHECK(std::get<std::string>(digits.rows[0][0]) == "fp32");
  CHECK(std::get<std::string>(row_of(digits, "fp32")[7]) == "yes");
  CHECK(std::get<double>(row_of(digits, "bf16-amp")[1]) == fresh_loss("bf16-amp", 20, 1));
  CHECK(keepers.rows.size() == 11);
  for (const Table& t : o.tables)
    for (const auto& row : t.rows) {
      CAPTURE(std::get<std::string>(row[0]));
      const std::string& good = std::get<std::string>(row[7]);
      const bool is_word = good == "yes" || good == "no" || good == "broke";
      CHECK(is_word);
      CHECK(std::isnan(std::get<double>(row[1])) == (good == "broke"));
    }
  CHECK(o.finding.find(" of 2 recipes train digits as well as FP32") == 1);
  CHECK(o.finding.find("of FP8's keepers") != std::string::npos);
}

// One NaN in the middle: the windows with it are NaN, and those after it are not.
TEST_CASE("analysis: a loss curve recovers from a step of NaN") {
  narrow::train::RunResult r;
  for (std::uint64_t i = 0; i < 10; ++i) {
    narrow::train::StepRow row;
    row.step = i, row.loss = i == 4 ? std::numeric_limits<double>::quiet_NaN() : 1.0;
    r.rows.push_back(row);
  }
  const Curve c = loss_curve(r, 3);
  REQUIRE(c.y.size() == 8);
  for (std::size_t i = 0; i < 8; ++i) CHECK(std::isnan(c.y[i]) == (i >= 2 && i <= 4));
}

TEST_CASE("analysis: order_matters tells which norm was clipped and what it did to either optimiser") {
  const std::vector<std::string> few = {"steps=25", "seeds=1", "warmup=4", "first_scale=2^30"};
  const Outcome o = test::run_experiment("order_matters", few);
  CHECK(test::all_cells(o) == test::all_cells(test::run_experiment("order_matters", few)));
  const Table &orders = o.tables[0], &rates = o.tables[1];
  REQUIRE(orders.rows.size() == 12);
  const auto number = [&](std::size_t row, std::size_t column) { return std::get<double>(orders.rows[row][column]); };
  for (const std::size_t begin : {0u, 6u}) {  // SGD, AdamW
    CHECK(number(begin, 5) < 10);
    CHECK(number(begin + 1, 5) > 1000);  // 2^16 times a gradient
    CHECK(number(begin, 6) > 0.1);
    CHECK(number(begin + 1, 6) < 1e-3);
    CHECK(number(begin + 1, 3) > number(begin, 3));                            // the wrong order learns less
    CHECK(std::holds_alternative<std::monostate>(orders.rows[begin + 2][5]));  // nothing was clipped
    CHECK(number(begin + 5, 10) > 3 * number(begin + 4, 10));                  // the warmup is used up
  }
  REQUIRE(rates.rows.size() == 25);
  CHECK(std::get<std::string>(rates.rows[0][2]) == "yes");
  CHECK(o.finding.find("Clipped before unscaling, SGD holds a norm of ") == 0);
}

TEST_CASE("analysis: order_matters refuses parts and warmups that do not fit") {
  for (const char* setting : {"parts=3", "warmup=25"})
    CHECK_THROWS_AS(test::run_experiment("order_matters", {"steps=25", "seeds=1", setting}), narrow::Error);
}

// FP32 rounds to 2^-24: its direction is the exact one. Gradients of digits under FP8 are not.
TEST_CASE("analysis: gradient_direction finds FP32 exact and FP8 off and says what has no direction") {
  const std::vector<std::string> few = {"steps=3", "every=2", "recipes=fp32+fp8-current"};
  const Outcome o = test::run_experiment("gradient_direction", few);
  CHECK(test::all_cells(o) == test::all_cells(test::run_experiment("gradient_direction", few)));
  const Table &recipes = o.tables[0], &tensors = o.tables[1];
  REQUIRE(tensors.rows.size() == 2 * 2 * 6);  // recipes, steps 0 and 2, tensors
  const auto cosine = [&](const std::string& recipe) { return std::get<double>(row_of(recipes, recipe)[3]); };
  CHECK(cosine("fp32") > 1 - 1e-9);
  CHECK(cosine("fp8-current") < 0.999);
  CHECK(cosine("fp8-current") > 0.9);
  CHECK(std::get<std::int64_t>(tensors.rows[0][2]) == 0);  // layers.0.weight
  CHECK(o.finding.find("under fp8-current at step") != std::string::npos);
  CHECK(o.finding.find("; none lost its direction.") != std::string::npos);
  // The bias of keys has no gradient in exact arithmetic: softmax does not see it.
  const Outcome lm = test::run_experiment("gradient_direction", {"task=lm", "steps=1", "recipes=fp32"});
  CHECK(lm.finding.ends_with("; 1 more is zero in exact arithmetic."));
  for (const auto& row : lm.tables[1].rows) {
    const bool is_key_bias = std::get<std::string>(row[1]) == "blocks.0.attention.key.bias";
    CHECK(std::holds_alternative<std::monostate>(row[4]) == is_key_bias);
  }
  CHECK_THROWS_AS(test::run_experiment("gradient_direction", {"recipes=+"}), narrow::Error);
  CHECK_THROWS_AS(test::run_experiment("gradient_direction", {"recipes=fp17"}), narrow::Error);
}

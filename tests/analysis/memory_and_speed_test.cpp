// The recorded steps: how they are read, what is made of them, and that the formulas of memory meet them.
#include <doctest/doctest.h>

#include <cmath>

#include "analysis/recordings/recorded_steps.hpp"
#include "recordings.hpp"
#include "stored.hpp"
#include "support/contains.hpp"

using namespace analysis;
using test::has;

namespace {

const std::string head =
    "# gpu: A GPU\n# torch: 2\n"
    "model\tparameters\tbatch\tcontext\trecipe\trecompute\tstep_ms\ttokens_per_second\tmax_memory_bytes\tfinal_loss\n";

const narrow::report::Table* find_table(const Outcome& outcome, std::string_view name) {
  for (const narrow::report::Table& t : outcome.tables)
    if (t.name == name) return &t;
  return nullptr;
}

double number(const narrow::report::Table& table, std::size_t row, std::string_view column) {
  for (std::size_t i = 0; i < table.columns.size(); ++i)
    if (table.columns[i].name == column) {
      const double* x = std::get_if<double>(&table.rows[row][i]);
      return x != nullptr ? *x : std::nan("");
    }
  FAIL("no column " << column);
  return 0;
}

std::string refusal(const std::string& text) {
  const test::WithData data("end-to-end/steps.tsv", text);
  std::string missing;
  return test::error_of([&] { load_steps(missing); });
}

}  // namespace

TEST_CASE("analysis: recorded steps are read by the names of their columns") {
  const test::WithData data("end-to-end/steps.tsv", head +
                                                        "m\t100\t2\t8\tfp32\tnone\t4\t40\t5000\t1.5\n"
                                                        "m\t100\t2\t8\tbf16-amp\tnone\t2\t80\t4000\t1.5\n");
  std::string missing, no_operations;
  const RecordedRows<RecordedStep> steps = load_steps(missing);
  CHECK(missing == "");
  CHECK(steps.gpu == "A GPU");
  REQUIRE(steps.rows.size() == 2);
  CHECK(steps.rows[1].recipe == "bf16-amp");
  CHECK(steps.rows[1].tokens_per_second == 80);
  CHECK(steps.rows[1].mode == "eager");
  CHECK(steps.rows[1].layers == 0);
  CHECK(find_step(steps.rows, steps.rows[1], "fp32") == &steps.rows[0]);
  CHECK(find_step(steps.rows, steps.rows[1], "tf32") == nullptr);
  CHECK(load_operations(no_operations).rows.empty());
  CHECK(has(no_operations, "elementwise.tsv"));
}

TEST_CASE("analysis: a broken recording of steps is named with its line") {
  CHECK(has(refusal(head), "steps.tsv: no rows"));
  CHECK(has(refusal(head + "m\t100\n"), "steps.tsv:4: 2 fields, the first line has 10"));
  CHECK(has(refusal(head + "m\t100\t2\t8\tfp32\tnone\tnan\t40\t5000\t1.5\n"), "steps.tsv:4: step_ms is 'nan'"));
  CHECK(has(refusal(head + "m\t100\t2\t8\tfp32\tnone\t4\t-1\t5000\t1.5\n"), "tokens_per_second is '-1'"));
  CHECK(has(refusal("model\trecipe\nm\tfp32\n"), "there is no column recompute"));
}

TEST_CASE("analysis: memory_and_speed says what recorded steps and operations gain") {
  const test::WithData data("golden/h200-bench.txt", "");
  const auto write = [&](const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(data.folder()) / "end-to-end");
    std::ofstream(data.folder() + "/end-to-end/" + name) << text;
  };
  Outcome out = test::run_experiment("memory_and_speed", {});
  CHECK(find_table(out, "steps") == nullptr);
  CHECK(find_table(out, "devices")->rows.size() == 6);
  CHECK(!has(out.finding, "whole step"));
  REQUIRE(out.notes.size() == 3);
  CHECK(has(out.notes[1], "steps.tsv"));

  write("steps.tsv", head +
                         "m\t100\t2\t8\tfp32\tnone\t4\t40\t5000\t1.5\n"
                         "m\t100\t2\t8\tbf16-amp\tnone\t2\t100\t4000\t1.5\n"
                         "big\t900\t2\t8\tbf16-amp\tnone\t2\t80\t4000\t1.5\n");  // without fp32 it is not compared
  write("elementwise.tsv",
        "operation\telements\tformat\tmicroseconds\tgigabytes_per_second\n"
        "add\t8\tfp32\t10\t5\nadd\t8\tbf16\t4\t6\ngelu\t8\tfp32\t9\t5\ngelu\t8\tbf16\t6\t4\nrelu\t8\tbf16\t6\t4\n");
  out = test::run_experiment("memory_and_speed", {});
  CHECK(has(out.finding,
            " A whole step of m under bf16-amp ran 2.5 times as fast as under fp32 with 0.80 of its peak memory. "
            "Operations that wait for memory ran 1.5 to 2.5 times as fast in bf16 as in fp32."));
  const narrow::report::Table& steps = *find_table(out, "steps");
  CHECK(number(steps, 1, "against fp32") == 2.5);
  CHECK(std::isnan(number(steps, 1, "against tf32")));
  CHECK(std::isnan(number(steps, 1, "counted")));  // the shape is not said
  CHECK(std::isnan(number(steps, 2, "against fp32")));
  CHECK(std::isnan(number(*find_table(out, "elementwise"), 4, "against fp32")));
}

TEST_CASE("analysis: the counted memory of a step is what PyTorch took") {
  // Buffers of cuBLAS, norms and temporaries are not counted; compiled and FP8 steps fuse or add casts of their own.
  constexpr double plain_share = 0.02, other_share = 0.12;
  const Outcome out = test::run_experiment("memory_and_speed", {});
  const narrow::report::Table* steps = find_table(out, "steps");
  REQUIRE(steps != nullptr);
  for (std::size_t i = 0; i < steps->rows.size(); ++i) {
    const auto text = [&](std::size_t column) { return std::get<std::string>(steps->rows[i][column]); };
    CAPTURE(text(0) + " " + text(1) + " " + text(2) + " " + text(3));
    const bool is_plain = text(1) != "fp8-current" && text(2) == "none";
    CHECK(std::abs(number(*steps, i, "counted of measured") - 100) <= 100 * (is_plain ? plain_share : other_share));
  }
}

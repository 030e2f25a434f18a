// The sentences of experiments on data for which the answer is known.
#include <doctest/doctest.h>

#include <cmath>

#include "analysis/framework/shares.hpp"
#include "stored.hpp"

using namespace analysis;
using test::has;
using test::Stored;
using test::stored;

namespace {

Outcome run_on(const std::string& name, const std::string& parameter, const std::vector<Stored>& tensors,
               std::vector<std::string> settings = {}) {
  const test::Folder folder;
  settings.push_back(parameter + "=" + folder.write("t.safetensors", test::file_of(tensors)));
  return test::run_experiment(name, settings);
}

Stored values(const std::string& name, const std::vector<double>& list) { return {name, {list.size()}, list}; }

double wave(std::size_t i) { return std::sin(1.0 + static_cast<double>(i) * 2.4); }

}  // namespace

TEST_CASE("analysis: what is undefined is never the best and never a number") {
  const double undefined = std::nan(""), exact = HUGE_VAL;
  CHECK(is_better(1, undefined));
  CHECK(is_better(-5, undefined));
  CHECK_FALSE(is_better(undefined, 1));
  CHECK_FALSE(is_better(undefined, undefined));
  CHECK(is_better(exact, 300));
  CHECK_FALSE(is_better(exact, exact));
  CHECK(db_text(undefined) == "undefined");
  CHECK(db_text(exact) == "no error");
  CHECK(db_text(12.34) == "12.3 dB");
  for (const double x : {undefined, exact}) CHECK(std::holds_alternative<std::monostate>(db_cell(x)));
}

TEST_CASE("analysis: the loss scale of gradient_underflow is one that exists") {
  const auto finding = [](const std::vector<double>& list) {
    return run_on("gradient_underflow", "gradients", {values("w.grad", list)}).finding;
  };
  // 65520 is the first value that overflows, 2^-25 the last that becomes zero.
  CHECK(
      finding({1, 0x1p-25}) ==
      "Without a loss scale FP16 turns 50 % of the gradients into zero and 0 % into subnormals; of the scales without "
      "overflow, up to 2^15, 2^1 is the closest to 1 that loses least: 0 % are zero and 50 % subnormal.");
  CHECK(has(finding({1, 2}), "; no other scale without overflow (up to 2^14) loses fewer."));
  CHECK(has(finding({1, 0x1.8p-40}), "at 2^15, the largest scale without overflow, 0 % are zero and 50 % subnormal."));
  CHECK(has(finding({1, 0x1p-40}), "50 % of the gradients into zero and 0 % into subnormals; no other scale"));
  CHECK(has(finding({70000, 0x1p-20}),
            ", and the largest, 70000, overflows; at 2^-1, the largest scale without overflow, "));
  const std::string broken = finding({std::nan(""), HUGE_VAL, -HUGE_VAL, 0x1p-20});
  CHECK(has(broken,
            "The data has 1 NaN and 2 Inf, so that the step is skipped at every loss scale; of the finite "
            "gradients, without a loss scale"));
}

// Attention scores of 100 and gradients of 1e-6: one format and scale for both loses the gradients.
TEST_CASE("analysis: format_choice chooses by kind and a choice that loses too much says so") {
  const std::vector<Stored> file = {
      stored("attn.q", {64, 64}, [](std::size_t i) { return 100 * wave(i); }),
      stored("layer.weight.grad", {64, 64}, [](std::size_t i) { return 1e-6 * wave(i); })};
  const Outcome by_kind = run_on("format_choice", "tensors", file);
  CHECK(has(by_kind.finding, " is best for attention ("));
  CHECK(has(by_kind.finding, " for weight gradients ("));
  CHECK_FALSE(has(by_kind.finding, "but it zeroes"));
  const Outcome pooled = run_on("format_choice", "tensors", file, {"by=all"});
  CHECK(has(pooled.finding, " is best for all tensors ("));
  CHECK(has(pooled.finding, ", but it zeroes 5"));  // the half that are gradients, and the smallest of the others
  bool warned = false;
  for (const auto& row : pooled.tables[0].rows)
    warned = warned || has(narrow::report::shown_text(pooled.tables[0].columns.back(), row.back()), "zeroes");
  CHECK(warned);
  const Outcome by_tensor = run_on("format_choice", "tensors", file, {"by=tensor"});
  CHECK(has(by_tensor.finding, " for layer.weight.grad ("));
  // Many groups are counted, and the worst named.
  std::vector<Stored> many;
  for (int i = 0; i < 9; ++i)
    many.push_back(stored("t" + std::to_string(i), {16, 16},
                          [i](std::size_t j) { return wave(j + static_cast<std::size_t>(i)); }));
  CHECK(has(run_on("format_choice", "tensors", many).finding, "of 9 groups, best are "));
}

TEST_CASE("analysis: the largest value is part of a sample however thin") {
  std::vector<Stored> file = {stored("w.grad", {64, 64}, [](std::size_t i) { return 1e-3 * wave(i); })};
  file[0].values[77] = 1e4;  // no multiple of the stride
  const Outcome o = run_on("format_choice", "tensors", file, {"samples=16"});
  CHECK(has(o.finding, "zeroes 9"));  // 16 of 17 values, unless it is not seen
  REQUIRE(o.notes.size() == 1);
  CHECK(has(o.notes[0], "a sample"));
}

TEST_CASE("analysis: fp8_scaling calls what comes out exactly no error and refuses zeros") {
  const Outcome exact = run_on("fp8_scaling", "tensors", {stored("w", {4, 32}, [](std::size_t) { return 0.5; })});
  CHECK(has(exact.finding, "one scale a tensor: no error, MXFP8: no error, NVFP4: no error."));
  const Outcome beside = run_on("fp8_scaling", "tensors",
                                {stored("zero", {4, 32}, [](std::size_t) { return 0.0; }), stored("w", {4, 32}, wave)});
  CHECK(has(beside.notes.back(), "every value is zero, Inf or NaN: zero."));
  const Outcome spoiled = run_on("fp8_scaling", "tensors", {values("w", {1, 2, std::nan(""), HUGE_VAL})});
  CHECK(has(spoiled.finding, "; taken as zero: 1 NaN and 1 Inf in the data."));
  const Outcome zeroed = run_on("fp8_scaling", "tensors", {values("w", {1, 2, 0, 0})});
  for (std::size_t t = 0; t < spoiled.tables.size(); ++t) CHECK(spoiled.tables[t].rows == zeroed.tables.at(t).rows);
  const Outcome large = run_on("fp8_scaling", "tensors", {stored("w", {4, 32}, [](std::size_t) { return 1000.0; })});
  CHECK(has(large.finding, "turns 0 % of the tensors into zero and clips 100 % at 448"));
}

// Two runs of ten steps see almost nothing arrive; what cannot arrive does not depend on that.
TEST_CASE("analysis: what stochastic rounding cannot show is told from what few runs did not see") {
  const std::string finding =
      test::run_experiment("stochastic_rounding", {"runs=2", "steps=10", "samples=1000"}).finding;
  CHECK(has(finding, "with 8 random bits nothing below 2^-15"));
  CHECK(has(finding, "in the mean of 2 runs"));
}

// log of a probability that FP16 rounds to zero is Inf: the error of the other results is not that of the operation.
TEST_CASE("analysis: operation_policy ranks an overflow above any error") {
  const Outcome o = test::run_experiment("operation_policy", {});
  CHECK(has(o.finding, "the worst would be 0.22 % Inf or NaN in FP16 (log of probabilities)"));
  const auto row = [&](const std::string& name) {
    for (const std::vector<narrow::report::Cell>& cells : o.tables[0].rows)
      if (cells[0] == narrow::report::Cell{name}) return cells;
    return std::vector<narrow::report::Cell>(4);
  };
  CHECK(row("convolution 3d, FP32 sums")[1] == narrow::report::Cell{std::string("FP16")});
  CHECK(row("dot of 4096")[1] == narrow::report::Cell{std::string("the widest of its inputs")});
  CHECK(row("batch norm")[1] == narrow::report::Cell{std::string("as its inputs")});
  CHECK(row("running variance")[1] == narrow::report::Cell{std::string("FP32, a buffer")});
}

// The exact tail, integrated over the length of the query, gives a median of 212.79 for sigma = 2, and 65520 at 35.095.
TEST_CASE("analysis: attention_overflow answers for a size in closed form and measured") {
  const auto finding = [](std::vector<std::string> settings) {
    settings.push_back("trials=1");
    return test::run_experiment("attention_overflow", settings).finding;
  };
  const std::string exercise = finding({"d=128", "n=512", "sigma=2"});
  CHECK(has(exercise, "With d = 128, n = 512 (causal) and sigma = 2 the largest |q.k| is about 213 (measured 2"));
  CHECK(has(exercise, "does not overflow FP16"));
  CHECK(has(exercise, "none overflows; half of all runs overflow from about sigma = 35.1 on"));
  CHECK(has(exercise, "no realistic n (10^"));
  CHECK(has(finding({"d=128", "n=512", "sigma=60"}), "which overflows FP16 in 100 % of runs; after 1/sqrt(d) it is"));
  CHECK(has(finding({"d=128", "n=512", "sigma=35"}), "mostly stays below the end of FP16 and overflows in 4"));
  CHECK(has(finding({"d=128", "n=512", "sigma=35.2"}), "which overflows FP16 in 5"));
  CHECK(has(finding({"n=100000000", "d=1024"}), " over a part of the pairs"));
  for (const char* bad : {"attention=x.npy", "scale=2", "layout=bhtd"})
    CHECK_THROWS_AS(finding({"d=64", bad}), narrow::Error);
  CHECK_THROWS_AS(finding({"sigma=0"}), narrow::Error);
  // More heads are more scores: a larger maximum.
  const auto median = [](const std::vector<std::string>& settings) {
    return std::get<double>(test::run_experiment("attention_overflow", settings).tables[0].rows[0][3]);
  };
  CHECK(median({"n=64", "heads=8"}) > median({"n=64"}));
  CHECK(median({"n=64", "mask=none"}) > median({"n=64"}));
}

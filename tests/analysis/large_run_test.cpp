// The large runs: folders for which the answer is known, and the recorded ones.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>

#include "analysis/recordings/recorded_runs.hpp"
#include "recordings.hpp"
#include "stored.hpp"
#include "tensor/watched_folder.hpp"

using namespace analysis;
using test::Folder;
using test::has;
using test::number;
using test::table_of;
using test::Watched;

namespace {

std::string losses_of(int steps, double from, double to) {
  std::string lines;
  for (int i = 0; i < steps; ++i)
    lines += "{\"step\": " + std::to_string(i) +
             ", \"loss\": " + std::to_string(from + (to - from) * i / (steps - 1)) + "}\n";
  return lines;
}

}  // namespace

TEST_CASE("analysis: the layer of a tensor is where its number stands") {
  const char* const cases[][3] = {{"blocks.7.attention.qkv.weight", "blocks.7", "attention.qkv.weight"},
                                  {"transformer.h.10.mlp", "transformer.h.10", "mlp"},
                                  {"head.weight", "head", "head.weight"},
                                  {"tokens", "tokens", "tokens"},
                                  {"layers.3", "layers.3", "layers.3"},
                                  {"0.weight", "0", "weight"},
                                  {"conv2d.weight", "conv2d", "conv2d.weight"},
                                  {"", "", ""}};
  for (const auto& [name, layer, part] : cases) {
    CAPTURE(name);
    CHECK(layer_of(name) == layer);
    CHECK(part_of(name) == part);
  }
}

TEST_CASE("analysis: large_run on a run of one's own says what the values give") {
  const Folder folder;
  const std::vector<Watched> tensors = {{0, "gradient", "h.0.w", {1, 1e-9f}, 2},
                                        {0, "gradient", "h.1.w", {1, 1}, 2},
                                        {7, "gradient", "h.0.w", {2, 2, 1, 1}, 4},
                                        {7, "gradient", "h.1.w", {2e-9f, 2e-9f, 2e-9f, 1}, 4},
                                        {7, "activation", "h.1", {1e-9f}}};
  std::string lines;
  for (const Watched& w : tensors) lines += test::watched_line(w);
  test::write_run(folder, lines, "", losses_of(40, 5, 1));
  const Outcome o = test::run_experiment("large_run", {"run=" + folder.path()});
  CHECK(o.finding ==
        "At loss scale 1 FP16 turns 37.5 % of the gradients of step 7 into zero, most in h.1 (75 %), at 2^16, the "
        "largest without overflow, 0 % are zero.");
  const narrow::report::Table& runs = table_of(o, "runs");
  REQUIRE(runs.rows.size() == 1);
  CHECK(number(runs.rows[0][2]) == 40);
  CHECK(number(runs.rows[0][3]) == doctest::Approx(1 + 4.0 * 9.5 / 39));
  CHECK(table_of(o, "layers").rows.size() == 4);
  CHECK(has(o.plots[0].title, "Losses of 1 recipe"));
  // 2e-9 is zero in E4M3 even where the largest binade becomes 2^7, and 2^-15 in E5M2 where it becomes 2^14.
  const narrow::report::Table& fp8 = table_of(o, "fp8");
  REQUIRE(fp8.rows.size() == 2);
  for (const auto& [column, lost] : {std::pair{3, 37.5}, {4, 37.5}, {5, 37.5}, {6, 0.0}})
    CHECK(number(fp8.rows[0][static_cast<std::size_t>(column)]) == lost);
  for (const auto& [column, lost] : {std::pair{3, 100.0}, {4, 0.0}, {5, 100.0}, {6, 0.0}})
    CHECK(number(fp8.rows[1][static_cast<std::size_t>(column)]) == lost);
}

TEST_CASE("analysis: large_run says where a run broke, and which gradients FP16 had already lost") {
  const Folder folder;
  test::write_run(folder,
                  test::watched_line({0, "gradient", "w", {1, 2, 0}, 1, "fp16"}) +
                      test::watched_line({5, "gradient", "w", {NAN, NAN}, 1, "fp16"}),
                  "", "{\"step\": 0, \"loss\": 2}\n{\"step\": 1, \"loss\": \"nan\"}\n");
  const Outcome o = test::run_experiment("large_run", {"run=" + folder.path()});
  CHECK(has(o.finding, "At loss scale 1 FP16 turns none of the gradients of step 0 that FP16 had left into zero"));
  CHECK(has(o.finding, "; the loss becomes Inf or NaN in "));
  CHECK(has(o.finding, " (step 1)."));
  CHECK(has(o.finding, "; from the watched step 5 on no gradient is finite and not zero; the loss becomes"));
  const Outcome slash = test::run_experiment("large_run", {"run=" + folder.path() + "/"});
  CHECK(slash.finding == o.finding);
  CHECK(slash.data.text == o.data.text);
  test::write_run(folder, test::watched_line({5, "gradient", "w", {NAN, 0}}));
  CHECK(has(test::error_of([&] { test::run_experiment("large_run", {"run=" + folder.path()}); }),
            ": no gradient is finite and not zero"));
  test::write_run(folder, test::watched_line({5, "gradient", "w", {1}, 3}));
  CHECK(has(test::error_of([&] { test::run_experiment("large_run", {"run=" + folder.path()}); }),
            "which is no power of two"));
}

// What may stand in folders of others: seeds of unequal length, losses that recover, tensors far below any format.
TEST_CASE("analysis: large_run takes recordings of any shape") {
  const test::WithData data;
  const auto write = [&](const std::string& name, const std::string& about, const std::string& tensors,
                         const std::string& losses) {
    const std::string folder = "gpt/runs/" + name;
    data.write(folder + "/run.json", R"({"narrow_run": 1, "formats": ["fp16", "e4m3"])" + about + "}");
    data.write(folder + "/tensors.jsonl", tensors);
    data.write(folder + "/loss.jsonl", losses);
  };
  const std::string line = test::watched_line({0, "gradient", "w", {1, 1e-9f}});
  write("a", R"(, "recipe": "a", "tokens_per_second": 1e300)", line, losses_of(40, 5, 1));
  write("a-seed2", R"(, "recipe": "a", "seed": 2)", line, losses_of(400, 5, 2));
  write("a-seed3", R"(, "recipe": "a", "seed": 3)", line, losses_of(20, 5, 2));
  write("b", R"(, "recipe": "b")", line,
        "{\"step\": 0, \"loss\": \"nan\"}\n" + losses_of(40, 5, 3).substr(losses_of(40, 5, 3).find('\n') + 1));
  write("tiny", "", test::watched_line({0, "gradient", "w", {0x1p-120f, 0x1p-126f}}), "");
  const Outcome o = test::run_experiment("large_run", {});
  CHECK(has(o.finding, "At loss scale 1 FP16 turns 50 % of the gradients of step 0 into zero"));
  CHECK(has(o.finding, "; the loss becomes Inf or NaN in b (step 0)"));
  CHECK(table_of(o, "runs").rows.size() == 5);
  CHECK(has(test::run_experiment("large_run", {"run=tiny"}).finding, "FP16 turns 100 % of the gradients"));
  CHECK(has(test::run_experiment("large_run", {"run=a-seed2"}).plots[0].title, "recipe"));
}

TEST_CASE("analysis: large_run shows the largest attention score of each step") {
  const Folder folder;
  test::write_run(folder, {{0, "gradient", "w", {1}},
                           {0, "score", "a.0", {1, -3}},
                           {0, "score", "a.1", {2}},
                           {4, "gradient", "w", {1}},
                           {4, "score", "a.0", {70000}}});
  const Outcome o = test::run_experiment("large_run", {"run=" + folder.path()});
  const narrow::report::Table& t = table_of(o, "scores");
  REQUIRE(t.rows.size() == 2);
  CHECK(number(t.rows[0][2]) == 3);
  CHECK(number(t.rows[1][2]) == 70000);
  CHECK(has(o.plots.back().title, "The largest attention score is 70000, in "));
  CHECK(has(o.plots.back().title, ": beyond FP16"));
  test::write_run(folder, {{0, "gradient", "w", {1}}, {0, "score", "a", {2, INFINITY}}});
  CHECK(has(test::run_experiment("large_run", {"run=" + folder.path()}).plots.back().title,
            "The largest finite attention score is 2, "));
}

TEST_CASE("analysis: master_weights counts the updates of a run that are below half of a weight's last place") {
  const auto shares = [](const std::vector<float>& weights, const std::vector<float>& updates) {
    const Folder folder;
    test::write_run(folder, {{3, "parameter", "w", weights}, {3, "update", "w", updates}, {3, "update", "v", {1}}});
    const Outcome o = test::run_experiment("master_weights", {"run=" + folder.path(), "steps=20", "samples=100"});
    const narrow::report::Table& t = table_of(o, "large");
    REQUIRE(t.rows.size() == 1);
    return std::pair{number(t.rows[0][2]), number(t.rows[0][3])};
  };
  // The place of 1 is 2^-10 in FP16 and 2^-7 in BF16.
  CHECK(shares({1, 1, 1, -1}, {0x1p-8f, 0x1p-9f, -0x1p-12f, 0x1p-13f}) == std::pair{50.0, 75.0});
  CHECK(shares({1, 1, 0x1p-8f, 0x1p-8f}, {0x1p-9f, 0x1p-9f, 0, 0}) == std::pair{0.0, 50.0});
  // Subnormals and zero have FP16's smallest place, 2^-24, whose half is 2^-25.
  CHECK(shares({0x1p-20f, 0x1p-30f, 0, 0x1p-15f}, {0x1p-25f, 0x1p-26f, 0x1p-26f, 0x1p-26f}).first == 75.0);
  const Folder none;
  test::write_run(none, {{3, "parameter", "w", {1}}});
  CHECK(has(test::error_of([&] {
              test::run_experiment("master_weights", {"run=" + none.path(), "steps=20", "samples=100"});
            }),
            "no updates of parameters were watched"));
}

TEST_CASE("analysis: a run has a name, or is a folder") {
  CHECK(run_folder("").empty());
  CHECK(run_folder("/no/where") == "/no/where");  // whoever opens it says so
  const std::string found = run_folder("bf16-amp");
  CHECK(found.ends_with("/gpt/runs/bf16-amp"));
  const std::string said = test::error_of([] { run_folder("bf16-anp"); });
  CHECK(has(said, "run='bf16-anp': there is no such folder; did you mean 'bf16-amp'?"));
  CHECK(has(test::run_experiment("gradient_underflow", {"run=bf16-amp"}).finding, "FP16 turns "));
}

TEST_CASE("analysis: every recorded run is whole and small") {
  const std::vector<RecordedRun> runs = recorded_runs();
  REQUIRE(runs.size() >= 16);
  std::uintmax_t bytes = 0;
  for (const RecordedRun& r : runs) {
    CAPTURE(r.name);
    for (const auto& file : std::filesystem::directory_iterator(r.folder)) bytes += file.file_size();
    CHECK(r.parameters > 120'000'000);
    // FP32 without TF32 and torch._scaled_mm are slow: 200 steps of them show what they are recorded for.
    const bool may_be_short = r.recipe == "fp32" || r.recipe == "fp8-scaled-mm";
    CHECK(r.steps >= (may_be_short ? 200 : 600));
    CHECK(r.tokens_per_step * r.steps >= (may_be_short ? 10'000'000 : 30'000'000));
    CHECK(static_cast<std::int64_t>(r.losses.size()) == r.steps);
    CHECK(r.scaler.has_value() == (r.recipe.rfind("fp16-amp", 0) == 0 && r.recipe != "fp16-amp-noscale"));
    CHECK(r.losses[0].loss == doctest::Approx(10.2).epsilon(0.02));  // log 23,040 and what the start adds
  }
  CHECK(bytes < 24'000'000);
}

// FP16 on the GPU against binades recorded in BF16 from the same weights.
TEST_CASE("analysis: binades predict the zeros that an FP16 run recorded") {
  const Outcome o = test::run_experiment("large_run", {});
  CHECK(has(o.finding, "FP16 autocast without a loss scale ends at a loss of 16.79, with PyTorch's scaler"));
  CHECK(o.plots.size() >= 6);
  std::size_t compared = 0;
  for (const auto& row : table_of(o, "check").rows) {
    if (number(row[1]) != 0) continue;
    const std::string& run = std::get<std::string>(row[0]);
    CAPTURE(run);
    const double recorded = number(row[3]), predicted = number(row[4]);
    // At 2^4 gradients that underflow on the way down leave more zeros than the last rounding does. At 2^30 nothing
    // underflows: what zeros there are, BF16 has of its own where sums cancel.
    constexpr double between_types = 0.02, on_the_way = 0.25, own_zeros = 0.003 /* % */;
    if (predicted < own_zeros) {
      CHECK(recorded < own_zeros);
      continue;
    }
    CHECK(std::fabs(recorded - predicted) <= (run == "fp16-amp-2^4" ? on_the_way : between_types) * recorded);
    CHECK(predicted <= recorded * (1 + between_types));
    ++compared;
  }
  CHECK(compared >= 4);
}

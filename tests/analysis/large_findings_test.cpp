// What the large runs together say: made folders with known answers, numbers that Python took from the recorded logs,
// and every finding at another seed.
#include <doctest/doctest.h>

#include <cmath>

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

// Runs of constant loss. A loss that is no number is NaN from the first step on.
struct Runs {
  test::WithData data;

  void add(const std::string& name, const std::string& recipe, int seed, double loss, double held_out,
           const std::string& more = "", int steps = 40) const {
    const std::string folder = "gpt/runs/" + name;
    const std::string word = std::isnan(loss) ? "\"nan\"" : std::to_string(loss);
    std::string lines;
    for (int i = 0; i < steps; ++i) lines += "{\"step\": " + std::to_string(i) + ", \"loss\": " + word + "}\n";
    data.write(folder + "/run.json",
               R"({"narrow_run": 1, "formats": ["fp16", "e4m3"], "recipe": ")" + recipe + R"(", "seed": )" +
                   std::to_string(seed) +
                   (std::isnan(held_out) ? "" : ", \"held_out_loss\": " + std::to_string(held_out)) + more + "}");
    data.write(folder + "/tensors.jsonl", test::watched_line({0, "gradient", "h.0.w", {1, 1e-9f}}));
    data.write(folder + "/loss.jsonl", lines);
  }
};

const std::string& answer(const Outcome& o, std::string_view question) {
  for (const narrow::report::Answer& a : o.answers)
    if (a.question.starts_with(question)) return a.text;
  FAIL("no such question");
  return o.finding;
}

std::string verdict_of(const narrow::report::Table& t, std::string_view run) {
  for (const auto& row : t.rows)
    if (std::get<std::string>(row[0]) == run) return std::get<std::string>(row.back());
  return "absent";
}

}  // namespace

TEST_CASE("analysis: a difference of runs is told from what seeds change") {
  const Runs runs;
  runs.add("a", "a", 1, 2.00, 2.00);
  runs.add("a-seed2", "a", 2, 2.05, 2.02);
  runs.add("near", "near", 1, 2.04, 2.01);
  runs.add("far", "far", 1, 3, 3);
  runs.add("half", "half", 1, 2.04, 2.5);  // within the seeds in one loss, beyond in the other
  runs.add("nan", "nan", 1, NAN, NAN);
  runs.add("short", "short", 1, 1, 1, "", 20);
  // Seeds of a recipe that fails are no measure.
  runs.add("bad", "bad", 1, 9, 9);
  runs.add("bad-seed2", "bad", 2, 19, 19);
  const std::vector<RecordedRun> all = recorded_runs();
  const SeedSpread seeds = spread_of_seeds(all);
  REQUIRE(seeds.is_known());
  CHECK(seeds.runs[0]->recipe == "a");
  CHECK(seeds.final_loss == doctest::Approx(0.05));
  CHECK(seeds.held_out == doctest::Approx(0.02));
  CHECK(std::isnan(seeds.speed_share));
  const Outcome o = test::run_experiment("large_run", {"run=a"});
  const narrow::report::Table& t = table_of(o, "against_best");
  CHECK(verdict_of(t, "near") == "within the seeds");
  CHECK(verdict_of(t, "far") == "above");
  CHECK(verdict_of(t, "half") == "not decided");
  CHECK(verdict_of(t, "nan") == "above");
  CHECK(verdict_of(t, "short") == "absent");
  CHECK(answer(o, "Which recipe") ==
        "3 recipes end as low as a or too near to tell: a, half and near. Not bad, far and nan.");
  CHECK(has(answer(o, "What breaks"), "nan at step 0 (Inf or NaN), bad at step 0 (ends at 9.00), far at step 0"));
  CHECK(has(answer(o, "Do I need"),
            "FP16 without a scale turns 50 % of the gradients at step 0 into zero; what that "
            "does to the loss takes two runs."));
}

TEST_CASE("analysis: answers say what the recordings do not tell") {
  const Runs runs;
  const std::string nothing = "There are no two runs to compare of which one ends in a number.";
  runs.add("bf16-amp", "bf16-amp", 1, 2, 2);
  CHECK(answer(test::run_experiment("large_run"), "Which recipe") == nothing);
  runs.add("fp16-amp", "fp16-amp", 1, 2.5, NAN);
  runs.add("fp16-amp-noscale", "fp16-amp-noscale", 1, 3, 3);
  const Outcome open = test::run_experiment("large_run");
  CHECK(has(answer(open, "Which recipe"), "whether the others are worse is not known"));
  CHECK(has(answer(open, "What breaks"), "No loss becomes Inf or NaN; more takes a recipe at two seeds."));
  CHECK(has(answer(open, "Do I need"), "(one seed: no more can be said)"));
  CHECK(has(answer(open, "Which layers"), "whether they must stay wide is not known here"));
  CHECK(verdict_of(table_of(open, "against_best"), "fp16-amp") == "not known");
  // A run that is no number is worse without any seeds; all of them leave no best.
  runs.add("fp16-amp-noscale", "fp16-amp-noscale", 1, NAN, NAN);
  CHECK(
      has(answer(test::run_experiment("large_run"), "Do I need"), "With FP16, yes: without a scale the run gives Inf"));
  runs.add("fp16-amp", "fp16-amp", 1, NAN, NAN);
  runs.add("bf16-amp", "bf16-amp", 1, NAN, NAN);
  CHECK(answer(test::run_experiment("large_run"), "Which recipe") == nothing);
}

TEST_CASE("analysis: the fastest recipe is one whose speed was measured") {
  const Runs runs;
  const auto torch = [](int speed, const std::string& more = "") {
    return R"(, "arithmetic": "torch", "tokens_per_second": )" + std::to_string(speed) + more;
  };
  runs.add("a", "a", 1, 2, 2, torch(100));
  runs.add("a-seed2", "a", 2, 2.1, 2.1, torch(110));
  runs.add("b", "b", 1, 2.05, 2.05, torch(95));
  runs.add("busy", "busy", 1, 2, 2, torch(900, R"(, "machine_was_busy": true)"));
  runs.add("emulated", "emulated", 1, 2, 2, R"(, "arithmetic": "emulated", "tokens_per_second": 900)");
  runs.add("slow", "slow", 1, 2, 2, torch(50));
  const Outcome o = test::run_experiment("large_run");
  CHECK(
      has(answer(o, "Which recipe"),
          "The fastest that is not shown to end higher than the best: a (100 tokens a second); as fast within the 10 % "
          "by which a's 2 seeds differ: b (95 tokens a second). "));
}

// Means of the last 20 losses, of windows of 10, and counts of zeros, by Python from the gzipped logs.
TEST_CASE("analysis: the recorded runs say what their logs say") {
  const Outcome o = test::run_experiment("large_run");
  const std::vector<RecordedRun> runs = recorded_runs();
  const SeedSpread seeds = spread_of_seeds(runs);
  CHECK(seeds.final_loss == doctest::Approx(4.204445457458496 - 4.132685828208923).epsilon(1e-9));
  CHECK(seeds.held_out == doctest::Approx(4.011913299560547 - 3.993160307407379).epsilon(1e-9));
  const narrow::report::Table& changes = table_of(o, "changes");
  CHECK(verdict_of(changes, "FP16 without a loss scale") == "above");
  CHECK(verdict_of(changes, "stochastic rounding of weights") == "below");
  CHECK(verdict_of(changes, "stochastic rounding, not a master copy") == "not decided");
  CHECK(verdict_of(changes, "FP8 without scales") == "above");
  for (const auto& row : changes.rows)
    if (std::get<std::string>(row[0]) == "stochastic rounding of weights")
      CHECK(number(row[3]) == doctest::Approx(4.156471645832061 - 4.274312520027161).epsilon(1e-9));
  const auto& fp8 = table_of(o, "fp8_check").rows;
  REQUIRE(fp8.size() == 20);
  double sum = 0, seed_sum = 0;
  for (const auto& row : fp8) sum += std::fabs(number(row[1])), seed_sum += number(row[2]);
  CHECK(sum / 20 == doctest::Approx(0.0074145102500915525).epsilon(1e-6));
  CHECK(seed_sum / 20 == doctest::Approx(0.050133032798767074).epsilon(1e-6));
  // Without scales nothing reaches the weights of the blocks: head and embeddings train alone.
  for (const auto& row : table_of(o, "zero_gradients").rows) {
    const auto of = [&](std::size_t i) { return std::get<std::string>(row[i]); };
    if (of(0) != "fp8-noscale") continue;
    if (of(2) == "gradients of weights" && of(3).starts_with("blocks.")) CHECK(number(row[5]) == 100);
    if (of(2) == "gradients of weights" && of(3) == "head") CHECK(number(row[5]) == 0);
    if (of(2) == "gradients of activations" && of(3) == "blocks.5")
      CHECK(number(row[5]) == doctest::Approx(86.66666667));
    if (of(2) == "activations" && of(3) == "blocks.5")
      CHECK(number(row[5]) == doctest::Approx(5.545722e-4).epsilon(1e-6));
  }
  CHECK(has(answer(o, "Do I need"), "With FP16, yes: "));
  CHECK(has(answer(o, "Do I need"), "With BF16, no: "));
  CHECK(has(answer(o, "Where does FP16 hurt"), "99.8 % of head (activation)"));
  // What FP16 has lost before it was counted is not said to be there.
  const Outcome held = test::run_experiment("large_run", {"run=fp16-pure"});
  CHECK(
      answer(held, "Where does FP16 hurt") ==
      "None of the gradients that FP16 had left becomes zero without a loss scale at step 6. Forward there are Inf or "
      "NaN at step 599.");
  CHECK(has(answer(held, "Which layers"), "no layer loses any of the gradients that FP16 had left"));
  for (const char* worse : {"fp16-pure", "fp16-amp-noscale", "fp16-amp-2^4", "fp8-noscale"})
    CHECK(has(answer(o, "What breaks"), worse));
}

// At 2^4 zeros are missing in what attention returns and nowhere else.
TEST_CASE("analysis: zeros that the last rounding does not explain are told by part") {
  const Outcome o = test::run_experiment("large_run");
  std::size_t seen = 0;
  for (const auto& row : table_of(o, "check_parts").rows) {
    if (std::get<std::string>(row[0]) != "fp16-amp-2^4") continue;
    const bool is_attention = std::get<std::string>(row[1]) == "attention.qkv";
    const double recorded = number(row[3]), predicted = number(row[4]);
    if (is_attention) CHECK(recorded - predicted > 25);
    else CHECK(std::fabs(recorded - predicted) < 0.02 * recorded);
    ++seen;
  }
  CHECK(seen == 6);
  CHECK(std::any_of(o.notes.begin(), o.notes.end(), [](const std::string& note) {
    return has(note, "fp16-amp-2^4 recorded 28.2 % zeros") &&
           has(note, "all of them to attention.qkv (59.2 % for 32.1 %");
  }));
}

TEST_CASE("analysis: attention_overflow run= gives the largest score of each layer") {
  const Folder folder;
  test::write_run(folder, {{0, "score", "h.0.a", {1, -3}},
                           {0, "score", "h.1.a", {2}},
                           {9, "score", "h.0.a", {-200}},
                           {9, "score", "h.1.a", {70000, INFINITY}}});
  const Outcome o = test::run_experiment("attention_overflow", {"run=" + folder.path()});
  const narrow::report::Table& t = table_of(o, "by_layer");
  REQUIRE(t.rows.size() == 4);
  CHECK(number(t.rows[0][2]) == 3);
  CHECK(number(t.rows[2][2]) == 200);
  CHECK(number(t.rows[2][4]) == 1);  // BF16 between 128 and 256
  CHECK(number(t.rows[2][5]) == doctest::Approx(std::exp(0.5)));
  CHECK(number(t.rows[3][6]) == 1);
  CHECK(has(o.finding, " is 70000 (h.1, step 9; 3 at step 0), beyond FP16; BF16 has steps of 512 there"));
  CHECK(has(o.finding, "; there are Inf or NaN among them from step 9 on."));
  test::write_run(folder, {{0, "gradient", "w", {1}}});
  CHECK(has(test::run_experiment("attention_overflow", {"run=" + folder.path()}).finding,
            ": no attention scores were watched"));
  CHECK(has(test::error_of([&] {
              test::run_experiment("attention_overflow", {"run=" + folder.path(), "heads=2"});
            }),
            "heads= does not go with run="));
  CHECK(has(test::run_experiment("attention_overflow", {"run=bf16-amp-rate0.006"}).finding,
            "is 3248 (blocks.1, step 384; 1.82 at step 0), 20 times below FP16's limit; BF16 has steps of 16 there"));
}

TEST_CASE("analysis: fp8_scaling run= counts what each kind of scale loses") {
  const Folder folder;
  // E5M2 is zero below 2^-17 and ends at 2^15. At step 5 the tensor is 2^20 times larger than before.
  test::write_run(folder, {{0, "activation_gradient", "w", {0x1p-20f, 0x1p-30f}},
                           {5, "activation_gradient", "w", {1, 0x1p-20f}},
                           {5, "gradient", "w", {1e-30f}}});
  const Outcome o = test::run_experiment("fp8_scaling", {"run=" + folder.path()});
  const auto& rows = table_of(o, "by_step").rows;
  REQUIRE(rows.size() == 6);
  const double zero[] = {100, 0, 100, 50, 0, 0}, beyond[] = {0, 0, 0, 0, 0, 50};
  for (std::size_t i = 0; i < 6; ++i) {
    CAPTURE(i);
    CHECK(number(rows[i][4]) == zero[i]);
    CHECK(number(rows[i][5]) == beyond[i]);
  }
  CHECK(has(o.finding, "loses 50 % of the gradients of activations of "));
  CHECK(has(o.finding, "with the tensor's own 0 %, with the largest of the watched steps before 50 %"));
  // By Python from the log.
  const Outcome large = test::run_experiment("fp8_scaling", {"run=bf16-amp-seed2"});
  const auto& all = table_of(large, "by_step").rows;
  REQUIRE(all.size() >= 3);
  const double lost[] = {99.5588640915653, 0.06524684854563101, 0.06507763396574319};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto& row = all[all.size() - 3 + i];
    CHECK(number(row[4]) + number(row[5]) == doctest::Approx(lost[i]).epsilon(1e-6));
  }
}

// A binade from 1 to 2 in every value has E4M3's error: a step of 2^-3, evenly spread, against a mean square of 7/3.
TEST_CASE("analysis: format_choice run= weighs binades by their counts") {
  const Folder folder;
  std::vector<float> values(1000, 1.5f);
  values[0] = 0x1.fffffep0f;
  test::write_run(folder, {{0, "activation", "w", values}, {0, "parameter", "w", {1, 0x1p-20f}}});
  const Outcome o = test::run_experiment("format_choice", {"run=" + folder.path()});
  bool seen = false;
  for (const auto& row : table_of(o, "splits").rows) {
    if (std::get<std::string>(row[1]) != "e4m3" || std::get<std::string>(row[2]) != "activations") continue;
    seen = true;
    CHECK(number(row[4]) == doctest::Approx(10 * std::log10(7.0 / 3 / (std::ldexp(1.0, -6) / 12))).epsilon(0.003));
    CHECK(number(row[5]) == 0);
    CHECK(number(row[6]) == 0);
  }
  CHECK(seen);
  CHECK(has(o.notes[0], "in each they are taken as evenly spread"));
}

// Which layer, which part, which kind, which format, which scale: the same at both seeds; shares within a quarter.
TEST_CASE("analysis: the findings about bf16-amp hold at seed 2") {
  const std::string one = "run=bf16-amp", two = "run=bf16-amp-seed2";
  const auto both = [&](const char* experiment, std::vector<std::string> more = {}) {
    std::vector<std::string> a = more, b = more;
    a.push_back(one), b.push_back(two);
    return std::pair{test::run_experiment(experiment, a), test::run_experiment(experiment, b)};
  };
  const auto last_rows = [](const Outcome& o, const char* table, std::size_t n) {
    const auto& rows = table_of(o, table).rows;
    return std::vector(rows.end() - static_cast<std::ptrdiff_t>(n), rows.end());
  };
  const auto near = [](double a, double b) { return std::fabs(a - b) <= 0.25 * std::max(a, b); };
  {
    const auto [a, b] = both("large_run");
    // The layers of the last step, by what FP16 loses there without a scale.
    const auto x = last_rows(a, "layers", 16), y = last_rows(b, "layers", 16);
    for (std::size_t i = 0; i < 16; ++i) {
      CHECK(x[i][1] == y[i][1]);
      CHECK(near(number(x[i][3]), number(y[i][3])));
    }
    const std::string lead =
        "Without a loss scale gradients become zero at step 599, by part of a layer: 99.8 % of head (activation), ";
    for (const Outcome* o : {&a, &b}) {
      CHECK(answer(*o, "Where does FP16 hurt").starts_with(lead));
      CHECK(has(answer(*o, "Which layers"), "In FP8 with a scale a tensor head loses most"));
      CHECK(has(answer(*o, "Which loss scale"), "2^17 is the largest"));
      CHECK(has(o->finding, ", most in head ("));
    }
  }
  {
    const auto [a, b] = both("fp8_scaling");
    const auto x = last_rows(a, "by_step", 9), y = last_rows(b, "by_step", 9);
    for (std::size_t i = 0; i < 9; i += 3) {  // without a scale almost all, with either kind almost nothing
      CHECK(near(number(x[i][4]), number(y[i][4])));
      for (std::size_t way = 1; way < 3; ++way) CHECK(std::max(number(x[i + way][4]), number(y[i + way][4])) < 0.1);
    }
  }
  {
    const auto [a, b] = both("format_choice");
    const auto &x = table_of(a, "best").rows, &y = table_of(b, "best").rows;
    REQUIRE(x.size() == y.size());
    for (std::size_t i = 0; i < x.size(); ++i)
      if (number(x[i][0]) == 8) CHECK(x[i][2] == y[i][2]);
  }
  {
    const auto [a, b] = both("attention_overflow");
    for (const Outcome* o : {&a, &b}) CHECK(has(o->finding, "BF16 has steps of 0.5 there"));
  }
  {
    const auto [a, b] = both("master_weights", {"steps=20", "samples=100"});
    const auto x = last_rows(a, "large", 1)[0], y = last_rows(b, "large", 1)[0];
    for (const std::size_t i : {2u, 3u}) CHECK(near(number(x[i]), number(y[i])));
  }
}

// Whether FP16 needs a loss scale, at both seeds that were recorded with and without one.
TEST_CASE("analysis: no loss scale ends higher at seed 2 as well") {
  const std::vector<RecordedRun> runs = recorded_runs();
  const SeedSpread seeds = spread_of_seeds(runs);
  CHECK(seeds.recipes == std::vector<std::string>{"bf16-amp", "fp16-amp", "fp8-current"});
  const auto named = [&](const std::string& name) -> const RecordedRun& {
    const RecordedRun* r = find_run(runs, name);
    REQUIRE(r != nullptr);
    return *r;
  };
  for (const std::string seed : {"", "-seed2"}) {
    const RecordedRun &bare = named("fp16-amp-noscale" + seed), &scaled = named("fp16-amp" + seed);
    CHECK(compare(bare, scaled, seeds).verdict == Difference::above);
    CHECK(bare.final_loss() > 16);
    CHECK(scaled.skipped() == 0);
    CHECK(compare(scaled, named("bf16-amp" + seed), seeds).verdict != Difference::above);
    CHECK(compare(named("fp8-current" + seed), named("bf16-amp" + seed), seeds).verdict != Difference::above);
  }
}

// Means of the last 20 losses and largest scores, by Python from the gzipped logs.
TEST_CASE("analysis: remedies of attention are weighed against the run without them") {
  const Outcome o = test::run_experiment("large_run");
  const std::string& text = answer(o, "What keeps");
  CHECK(has(text, "In bf16-amp-rate0.006 scores reach 3248 and the loss ends at 5.58, with qk_norm they reach 7.67 "));
  CHECK(has(text, "and the loss ends at 4.58 (loss below), with small_q they reach 217 "));
  CHECK(has(text, "and the loss ends at 4.61 (loss below) and with soft_cap they were not watched "));
  CHECK(has(text, "and the loss ends at 4.82 (loss below)."));
  CHECK(has(answer(o, "Which layers"),
            "Moved to the narrow format: fp8-current-softmax (above: 4.60 for 4.18), fp8-current-norm (above: 6.09 for "
            "4.18), fp8-current-residual (above: 7.13 for 4.18) and fp8-current-logits (above: 37.00 for 4.18)."));
  for (const char* part : {"softmax", "norms", "residual sum", "logits"})
    CHECK(verdict_of(table_of(o, "changes"), std::string(part) + " in FP8 too") == "above");
  const std::string coarse =
      "No loss of fp8-current-logits has more than 4 significant bits: smaller differences do not show.";
  CHECK(std::ranges::count(o.notes, coarse) == 1);
  CHECK(std::ranges::count_if(o.notes, [](const std::string& n) { return n.starts_with("No loss of "); }) == 1);
  CHECK(verdict_of(table_of(o, "changes"), "INT8 products") == "above");
  CHECK(verdict_of(table_of(o, "changes"), "scales of the steps before") == "within the seeds");
  const Runs alone;  // without such runs nobody asks
  alone.add("bf16-amp", "bf16-amp", 1, 2, 2);
  const Outcome without = test::run_experiment("large_run");
  REQUIRE(!without.answers.empty());
  for (const narrow::report::Answer& a : without.answers) CHECK_FALSE(a.question.starts_with("What keeps"));
}

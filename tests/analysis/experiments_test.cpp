// The eight experiments on recorded and on made numbers: well formed, the same twice, and right where it can be known.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "analysis/framework/experiment.hpp"
#include "analysis/recordings.hpp"
#include "analysis/stored.hpp"
#include "support/contains.hpp"

using namespace analysis;
using narrow::report::Cell;
using narrow::report::Table;
using test::number;
using test::table_of;

namespace {

struct Small {
  const char* name;
  std::vector<std::string> settings;
};
const std::vector<Small>& small_runs() {
  static const std::vector<Small> runs = {{"large_run", {}},
                                          {"watched_run", {}},
                                          {"gradient_underflow", {}},
                                          {"loss_scaling", {"steps=20"}},
                                          {"attention_overflow", {"longest=128", "trials=1"}},
                                          {"gradient_accumulation", {"most=16"}},
                                          {"all_reduce", {"ranks=16"}},
                                          {"gpu_block", {"length=8"}},
                                          {"accumulator_width", {"outputs=8", "longest=1024"}},
                                          {"fp8_scaling", {}},
                                          {"stochastic_rounding", {"runs=40", "steps=400", "samples=40000"}},
                                          {"operation_policy", {}}};
  return runs;
}

std::size_t column_of(const Table& t, std::string_view name) {
  for (std::size_t i = 0; i < t.columns.size(); ++i)
    if (t.columns[i].name == name) return i;
  FAIL("no column " << name);
  return 0;
}

}  // namespace

TEST_CASE("analysis: experiments run on the recordings and give the same numbers twice") {
  for (const Small& s : small_runs()) {
    CAPTURE(s.name);
    const Outcome first = test::run_experiment(s.name, s.settings), second = test::run_experiment(s.name, s.settings);
    CHECK(test::all_cells(first) == test::all_cells(second));
    CHECK_FALSE(first.plots.empty());
    CHECK(std::any_of(first.finding.begin(), first.finding.end(), [](char c) { return c >= '0' && c <= '9'; }));
    for (const std::string& note : first.notes) CHECK(note.find("not found") == std::string::npos);
  }
}

TEST_CASE("analysis: experiments run without recordings and say so") {
  test::WithData none;
  none.set_environment("");
  for (const Small& s : small_runs()) {
    const std::string name = s.name;
    if (name == "accumulator_width" || name == "stochastic_rounding") continue;  // these never use them
    CAPTURE(name);
    const Outcome o = test::run_experiment(name, s.settings);
    CHECK(std::any_of(o.notes.begin(), o.notes.end(),
                      [](const std::string& note) { return note.find("NARROW_DATA") != std::string::npos; }));
    for (const narrow::report::Plot& p : o.plots) CHECK_FALSE(p.panels.empty());
  }
}

TEST_CASE("analysis: a block of a GPU is predicted, and its finding says what was compared") {
  const Outcome some = test::run_experiment("gpu_block", {"length=8", "type=fp16", "kernel=flash2", "seed=3"});
  const Table& t = table_of(some, "stages");
  CHECK(t.rows.size() == 10);
  for (const auto& row : t.rows) CHECK(std::get<std::string>(row[column_of(t, "as recorded?")]) == "yes");
  CHECK(some.finding.find("80 in 10 stages, are predicted bit for bit") != std::string::npos);
  const Outcome other = test::run_experiment("gpu_block", {"length=2", "seed=4"});
  CHECK(other.finding.starts_with("There is no recording of a GPT block in BF16 with cuDNN's attention (seed 4)"));
  CHECK(std::get<std::string>(table_of(other, "stages").rows[0].back()) == "not recorded");
}

TEST_CASE("analysis: a damaged recording of a block is no proof, and no prediction that failed") {
  const std::string head = "model\ttype\tattention\tseed\tstage\tshape\thash\tfirst\tkernels\n";
  const auto row = [](const std::string& stage, const std::string& hash, const std::string& first) {
    return "gpt_block\tbf16\tcudnn\t1\t" + stage + "\t-\t" + hash + "\t" + first + "\t-\n";
  };
  const auto finding = [&](const std::string& text) {
    const test::WithData data("golden/blocks.tsv", text);
    return test::run_experiment("gpu_block", {"length=2"}).finding;
  };
  const std::string norm1 = "BF3A 3DF1 3F30 BEDF 3DCD BF52 3FC3 3F11",
                    other = "BF3B 3DF1 3F30 BEDF 3DCD BF52 3FC3 3F11";
  CHECK(finding(head + row("norm1", "1", norm1)).find("only 1 of 10 stages are in the recording") != std::string::npos);
  CHECK(finding(head + row("norm1", "1", other)).find("0 of 1 recorded stages are predicted; 'norm1' is the first") !=
        std::string::npos);
  CHECK(finding(head + row("weights", "1", "-")).starts_with("There is no recording of a GPT block"));
  CHECK(test::error_of([&] { finding(head + row("norm1", "1", "1BF3A")); }).find("'1BF3A' is no code") !=
        std::string::npos);
  CHECK(test::error_of([&] { finding(head + row("norm1", "1", "BF3A 3DF1")); }).find("has 2 codes, not 8") !=
        std::string::npos);
  CHECK(test::error_of([&] { finding(head + row("norm1", "x", norm1)); }).find("'x' is no hash") != std::string::npos);
  CHECK(test::error_of([&] { finding("spoiled\n"); }).find("no table of recorded blocks") != std::string::npos);
}

TEST_CASE("analysis: the scaler's rule gives every scale that was recorded on the GPU") {
  const Outcome o = test::run_experiment("loss_scaling", {"steps=20"});
  const Table& t = table_of(o, "recorded");
  std::size_t runs = 0;
  for (const auto& row : t.rows) {
    const Cell& rule = row[column_of(t, "scales that the rule gives")];
    if (std::holds_alternative<std::monostate>(rule)) continue;
    ++runs;
    CHECK(number(rule) == number(row[column_of(t, "steps")]));
  }
  CHECK(runs == 5);
}

TEST_CASE("analysis: promotion bounds the error of FP8 products and one chain does not") {
  const Outcome o = test::run_experiment("accumulator_width", {"outputs=8", "longest=4096"});
  const Table& t = o.tables[0];
  const auto error = [&](const std::string& data, const std::string& machine, double k) {
    for (const auto& row : t.rows)
      if (std::get<std::string>(row[0]) == data && std::get<std::string>(row[1]) == machine && number(row[4]) == k)
        return number(row[column_of(t, "relative error")]);
    FAIL("no row");
    return 0.0;
  };
  CHECK(error("positive", "Hopper FP8, one chain", 4096) > 0.05);
  CHECK(error("positive", "Hopper FP8, FP32 every 128", 4096) < 0.001);
  CHECK(error("positive", "Hopper FP8, one chain", 128) == error("positive", "Hopper FP8, FP32 every 128", 128));
  CHECK(error("positive", "FP32, pairwise", 4096) < 0x1p-22);
}

// 512 contributions of 2^-9 to a mean of 1. In BF16 the running sum stops where 2^-9 is half of its quantum, at 1/2,
// one after the other as in a ring; FP16 has the bits, a tree adds equals, Kahan carries what is lost.
TEST_CASE("analysis: a sum of equal gradients loses exactly what stagnation predicts") {
  const std::string header = R"({"ones":{"dtype":"F32","shape":[512,2],"data_offsets":[0,4096]}})";
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(header.size() >> (8 * i));
  file += header;
  for (int i = 0; i < 1024; ++i) file += std::string("\x00\x00\x80\x3f", 4);
  const test::WithData data("ones.safetensors", file);
  const Outcome o = test::run_experiment("gradient_accumulation",
                                         {"micro_batches=" + data.folder() + "/ones.safetensors", "most=512"});
  const auto error = [&](const char* table, const std::string& name) {
    for (const auto& row : table_of(o, table).rows)
      if (number(row[0]) == 512 && std::get<std::string>(row[1]) == name) return number(row[2]);
    FAIL("no row " << name);
    return 0.0;
  };
  CHECK(error("micro_batches", "BF16") == 50);
  CHECK(error("micro_batches", "BF16, Kahan") == 0);
  CHECK(error("micro_batches", "FP16") == 0);
  CHECK(std::isnan(error("micro_batches", "FP16, loss scale 2^16")));  // a mean of 1 times 2^16 overflows: undefined
  CHECK(error("micro_batches", "FP32") == 0);
  CHECK(error("micro_batches", "BF16, stochastic rounding") < 20);
  CHECK(error("all_reduce", "BF16, ring") == 50);
  CHECK(error("all_reduce", "BF16, tree") == 0);
  CHECK(error("all_reduce", "FP32, ring") == 0);

  // Over ranks it is the same sum, whatever carries it; FP16 is scaled into its range.
  const Outcome ranks =
      test::run_experiment("all_reduce", {"micro_batches=" + data.folder() + "/ones.safetensors", "ranks=512"});
  const auto by_rank = [&](const char* algorithm, const char* format) {
    for (const auto& row : table_of(ranks, "ranks").rows)
      if (number(row[0]) == 512 && std::get<std::string>(row[1]) == algorithm &&
          std::get<std::string>(row[2]) == format)
        return number(row[3]);
    FAIL("no row " << algorithm);
    return 0.0;
  };
  CHECK(by_rank("ring", "bf16") == 50);
  CHECK(by_rank("ring", "e5m2") == 100 * (1 - 8.0 / 512));  // eight of them: the quantum of 8 to 16 is 2
  for (const char* exact : {"fp16", "fp32"}) CHECK(by_rank("ring", exact) == 0);
  for (const char* format : {"bf16", "fp16", "e5m2"})
    for (const char* algorithm : {"tree", "fp32-once"}) CHECK(by_rank(algorithm, format) == 0);
  CHECK(ranks.finding.find("is 50 % wrong as a BF16 ring, 0 % wrong as a tree") != std::string::npos);
}

TEST_CASE("analysis: bad requests of experiments are errors of one line") {
  const auto refusal = [](const std::string& name, const std::vector<std::string>& settings) {
    return test::error_of([&] { test::run_experiment(name, settings); });
  };
  for (const std::string& text :
       {refusal("gradient_underflow", {"gradients=/nowhere.safetensors"}), refusal("gradient_underflow", {"step=7"}),
        refusal("attention_overflow", {"attention=/nowhere.safetensors"}),
        refusal("stochastic_rounding", {"format=fp32"}), refusal("accumulator_width", {"longest=1e9"}),
        refusal("fp8_scaling", {"outliers=2"}),
        refusal("operation_policy", {"recording=" NARROW_DATA "/torch/step0.safetensors"}),
        refusal("attention_overflow", {"attention=" NARROW_DATA "/torch/micro_batches.safetensors"})}) {
    CAPTURE(text);
    CHECK_FALSE(text.empty());
    CHECK(text.find('\n') == std::string::npos);
  }
}

TEST_CASE("analysis: rounding to nearest loses what is below half a quantum and stochastic rounding does not") {
  const Outcome o = test::run_experiment("stochastic_rounding", {"runs=200", "steps=1000", "samples=100000"});
  const Table& t = table_of(o, "kept");
  const std::size_t nearest = column_of(t, "to nearest"), random = column_of(t, "32 random bits");
  for (const auto& row : t.rows) {
    CAPTURE(number(row[0]));
    if (number(row[0]) <= 0x1p-8) CHECK(number(row[nearest]) == 0);
    constexpr double few_runs = 50;  // per cent: 200 runs of a few lucky steps each at the smallest updates
    CHECK(std::fabs(number(row[random]) - 100) < few_runs);
  }
  const Table& bits = table_of(o, "bits");
  const double standard_error = 0.41 / std::sqrt(100000.0);
  for (const auto& row : bits.rows) CHECK(std::fabs(number(row[2]) - number(row[3])) < 5 * standard_error);
}

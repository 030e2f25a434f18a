// Transformer blocks that torch ran on an H200 (data/golden/blocks.tsv), computed here from their seeds alone.
#include <map>
#include <string>
#include <vector>

#include "cuda/golden_folder.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/golden/product_inputs.hpp"
#include "narrow/special/operation.hpp"
#include "support/scale.hpp"

namespace {

constexpr std::size_t width = 768, heads = 12, tokens = 1024;

struct RecordedBlock {
  std::string type, attention;
  std::uint64_t seed = 0;
  struct Stage {
    std::uint64_t hash = 0;
    std::vector<std::uint16_t> first;  // eight codes
  };
  std::map<std::string, Stage> stages;
};

std::vector<RecordedBlock> recorded_blocks() {
  std::vector<RecordedBlock> out;
  for (const auto& row : test::golden_table("blocks.tsv").rows) {
    REQUIRE(row.size() == 9);
    if (row[0] != "gpt_block") continue;
    if (row[4] == "weights") out.push_back({row[1], row[2], std::stoull(row[3]), {}});
    REQUIRE(!out.empty());
    RecordedBlock::Stage stage{std::stoull(row[6], nullptr, 16), {}};
    for (std::size_t at = 0; row[7] != "-" && at < row[7].size(); at += 5)
      stage.first.push_back(static_cast<std::uint16_t>(std::stoul(row[7].substr(at, 4), nullptr, 16)));
    out.back().stages[row[4]] = stage;
  }
  return out;
}

}  // namespace

// The first token sees itself alone: what is recorded of it does not depend on the tokens after it, nor on the kernel
// of attention.
TEST_CASE("golden: the first token of recorded GPT blocks, seed 1, stage by stage") {
  const std::vector<RecordedBlock> blocks = recorded_blocks();
  CHECK(blocks.size() == 12);
  for (const RecordedBlock& r : blocks) {
    if (r.seed != 1) continue;  // making the weights takes longer than the block
    CAPTURE(r.type);
    CAPTURE(r.attention);
    CAPTURE(r.seed);
    const narrow::GptBlock block = narrow::recorded_gpt_block(*narrow::find_format(r.type), width, heads, r.seed);
    const std::vector<std::uint16_t> x = narrow::recorded_gpt_input(block, 8, r.seed);
    CHECK(std::vector(x.begin(), x.begin() + 8) == r.stages.at("input").first);
    const auto stages = narrow::run_gpt_block(block, x, {.attention = r.attention});
    CHECK(stages.size() == 10);
    for (const narrow::GptStage& stage : stages) {
      CAPTURE(stage.name);
      CHECK(std::vector(stage.codes.begin(), stage.codes.begin() + 8) == r.stages.at(stage.name).first);
    }
    // A linear layer and its GELU are two kernels: as one product with an epilogue that rounds between.
    const std::vector<std::uint16_t>& norm2 = stages.at(5).codes;
    CHECK(stages.at(5).name == "norm2");
    const narrow::DotModel& model =
        *narrow::find_dot_model(r.type == "bf16" ? "hopper.wgmma.f32.bf16.bf16" : "hopper.wgmma.f32.f16.f16");
    narrow::GemmOptions options{.output = block.type, .c_format = block.type, .rounds_before = true};
    for (const narrow::EpilogueFunction& f : narrow::epilogue_functions())
      if (f.name == "gelu_tanh") options.function = f;
    std::vector<std::uint16_t> d(8);
    const narrow::CodeMatrix bias{block.fc_bias.data(), 2, 1, 8, 0, narrow::Layout::row_major};
    gemm(model, narrow::parse_plan("chain"), narrow::CodeMatrix{norm2.data(), 2, 1, width, width},
         narrow::CodeMatrix{block.fc_weight.data(), 2, width, 8, width, narrow::Layout::column_major}, bias,
         narrow::MatrixView<std::uint16_t>{d.data(), 1, 8}, options);
    CHECK(d == r.stages.at("mlp.gelu").first);
  }
}

TEST_CASE("golden: recorded GPT blocks whole, long ones" * doctest::skip()) {
  int replayed = 0;
  for (const RecordedBlock& r : recorded_blocks()) {
    if (r.seed != 1 && test::scale() <= 1) continue;  // six seconds each
    if (r.type != "bf16" && test::scale() < 0.1) continue;
    CAPTURE(r.type);
    CAPTURE(r.attention);
    CAPTURE(r.seed);
    const narrow::GptBlock block = narrow::recorded_gpt_block(*narrow::find_format(r.type), width, heads, r.seed);
    const std::vector<std::uint16_t> x = narrow::recorded_gpt_input(block, tokens, r.seed);
    CHECK(narrow::stage_hash(x) == r.stages.at("input").hash);
    std::vector<std::uint16_t> weights;
    for (const auto* part : {&block.norm1_weight, &block.norm1_bias, &block.qkv_weight, &block.qkv_bias,
                             &block.proj_weight, &block.proj_bias, &block.norm2_weight, &block.norm2_bias,
                             &block.fc_weight, &block.fc_bias, &block.down_weight, &block.down_bias})
      weights.insert(weights.end(), part->begin(), part->end());
    CHECK(narrow::stage_hash(weights) == r.stages.at("weights").hash);
    ++replayed;
    for (const narrow::GptStage& stage : narrow::run_gpt_block(block, x, {.attention = r.attention})) {
      CAPTURE(stage.name);
      CHECK(narrow::stage_hash(stage.codes) == r.stages.at(stage.name).hash);
    }
  }
  CHECK(replayed >= 2);
}

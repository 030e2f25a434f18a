// %% [markdown]
// # A block of a GPT, bit for bit
//
// Run the same model twice on the same GPU and the logits agree; run it with another library, another batch size or on
// another machine and they do not. Is that noise? No: every kernel adds in a fixed order, calls fixed functions and
// rounds in fixed places. Whoever knows them needs no GPU. This lesson takes a transformer block that PyTorch ran on an
// NVIDIA H200 (1024 tokens, 768 wide, 12 heads, BF16), makes its weights from their seed, and computes every number of
// it again, here. Then it changes one operation at a time and looks at how far that reaches.

// %% tags=["folded"]
#include <algorithm>
#include <fstream>
#include <iomanip>
#include <map>
#include <sstream>

#include "lesson.hpp"
#include "narrow/array/array.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/golden/product_inputs.hpp"
#include "narrow/special/attention.hpp"
#include "narrow/special/operation.hpp"

using namespace narrow;
using namespace lesson;

constexpr Format bf16 = "bf16"_fmt;
using Codes = std::vector<std::uint16_t>;

// The hash of each stage of one recorded block; "gpu", "torch" and the like from the head of the file.
std::map<std::string, std::string> read_recorded(const std::string& type, const std::string& attention) {
  std::ifstream file(data_file("golden/blocks.tsv"));
  std::map<std::string, std::string> found;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("# ")) {
      const std::size_t space = std::min(line.find(' ', 2), line.size() - 1);
      found[line.substr(2, space - 2)] = line.substr(space + 1);
    }
    std::vector<std::string> cells;
    std::istringstream columns(line);
    for (std::string cell; std::getline(columns, cell, '\t');) cells.push_back(cell);
    if (cells.size() == 9 && cells[0] == "gpt_block" && cells[1] == type && cells[2] == attention && cells[3] == "1")
      found[cells[4]] = cells[6];
  }
  return found;
}

std::string hash_of(const Codes& codes) {
  std::ostringstream out;
  out << std::hex << std::uppercase << std::setw(16) << std::setfill('0') << stage_hash(codes);
  return out.str();
}

// In percent.
double other_bits(const Codes& x, const Codes& y) {
  std::size_t other = 0;
  for (std::size_t i = 0; i < x.size(); ++i) other += x[i] != y[i] ? 1 : 0;
  return 100 * static_cast<double>(other) / static_cast<double>(x.size());
}

// %% tags=["program"]
// clang-format off: the cells below are the statements of main, written from the margin as a notebook has them.
int main() {

// %% [markdown]
// ## What was recorded
//
// `data/golden/blocks.tsv` has a hash of what each module of the block returned: 64 bits that stand for all bits of up
// to three million numbers. The weights are not stored. They are functions of a seed, in integer arithmetic.

// %%
const auto recorded = read_recorded("bf16", "cudnn");
const GptBlock block = recorded_gpt_block(bf16, 768, 12, /*seed=*/1);
const Codes input = recorded_gpt_input(block, 1024, 1);
say("Recorded on an {} with torch {} in eager mode, cuDNN {}. The input has {} numbers, the first of them:",
    recorded.at("gpu"), recorded.at("torch"), recorded.at("cudnn"), input.size());
for (std::size_t i = 0; i < 3; ++i) bits(input[i], bf16);
expect(hash_of(input) == recorded.at("input"), "the input made here is the one that the GPU got");

// %% [markdown]
// ## The first operation: a norm
//
// A layer norm is a mean, a variance and a division. In which order are 768 numbers added? PyTorch's kernel deals them,
// four at a time, to 128 threads, each of which keeps a running mean and a sum of squares (Welford's way), and merges
// the threads in a tree. The definition, computed in double precision and rounded once, is closer to the truth, and is
// not what the GPU returns.

// %%
std::vector<float> x(input.size()), w(768), b(768);
decode_array(std::span<const std::uint16_t>(input), bf16, std::span(x));
decode_array(std::span<const std::uint16_t>(block.norm1_weight), bf16, std::span(w));
decode_array(std::span<const std::uint16_t>(block.norm1_bias), bf16, std::span(b));
const auto norm = [&](const char* variant) {
  const auto codes = run_operation(
      "layer_norm", variant, {.type = bf16, .rows = 1024, .cols = 768, .x = x, .w = w, .b = b});
  return Codes(codes.begin(), codes.end());
};
const Codes as_torch = norm("torch"), by_definition = norm("double");
Table norms = new_table("Two layer norms of the same numbers",
                        {text_column("how"), text_column("hash"), text_column("is it the GPU's?"),
                         fixed_column("values with other bits", "%", 3)});
for (const auto& [name, codes] : {std::pair("threads of PyTorch's kernel", &as_torch),
                                  std::pair("double, rounded once", &by_definition)})
  add_row(norms, name, hash_of(*codes), hash_of(*codes) == recorded.at("norm1") ? "yes" : "no",
          other_bits(*codes, as_torch));
table(norms);
expect(hash_of(as_torch) == recorded.at("norm1"),
       "the order of PyTorch's threads gives all 786,432 values of the GPU");
expect(hash_of(by_definition) != recorded.at("norm1"), "the better computation does not");
expect(other_bits(by_definition, as_torch) < 0.01,
       "and yet fewer than one value in 10,000 tells them apart: BF16 keeps 8 bits of 24");

// %% [markdown]
// ## The whole block
//
// Ten operations follow each other, each one fed with what was computed here and with nothing of the recording. One
// wrong bit in one norm would go into a product with 2304 columns and come out everywhere: hashes that agree to the end
// leave no room for it.

// %%
const std::vector<GptStage> stages = run_gpt_block(block, input);
const std::map<std::string, std::string> what = {
    {"norm1", "layer norm"},
    {"attention.qkv", "product with bias"},
    {"attention.attend", "causal attention, 12 heads"},
    {"attention.proj", "product with bias"},
    {"sum1", "sum with the input"},
    {"norm2", "layer norm"},
    {"mlp.fc", "product with bias"},
    {"mlp.gelu", "GELU, by tanh"},
    {"mlp.proj", "product with bias"},
    {"sum2", "sum: the end of the block"}};
Table proof = new_table("Stage by stage", {text_column("stage"), text_column("operation"), integer_column("values"),
                                           text_column("hash here"), text_column("as the GPU's?")});
std::size_t values = 0, equal = 0;
for (const GptStage& stage : stages) {
  const bool same = hash_of(stage.codes) == recorded.at(stage.name);
  values += stage.codes.size(), equal += same ? 1 : 0;
  add_row(proof, stage.name, what.at(stage.name), stage.codes.size(), hash_of(stage.codes),
          same ? "yes" : "no");
}
table(proof);
say("**{} of {}** stages, {:.3} million values.", equal, stages.size(), static_cast<double>(values) * 1e-6);
expect(equal == stages.size() && stages.size() == 10, "every stage of the block has the hash that the H200 gave");

// %% [markdown]
// ## Attention has many kernels
//
// `scaled_dot_product_attention` is one function and at least four kernels, and PyTorch chooses. They cut the keys into
// blocks of other sizes, so that the running maximum and the sum of a softmax are rounded in other places. The block
// was recorded once with cuDNN's kernel and once with FlashAttention-2.

// %%
const Codes& qkv = stages[1].codes;
const auto attend = [&](const char* kernel, std::size_t tokens) {
  Codes parts[3];
  for (std::size_t part = 0; part < 3; ++part)
    for (std::size_t head = 0; head < 12; ++head)
      for (std::size_t token = 0; token < tokens; ++token)
        for (std::size_t i = 0; i < 64; ++i)
          parts[part].push_back(qkv[token * 2304 + part * 768 + head * 64 + i]);
  AttentionRequest request{
      .type = bf16, .heads = 12, .kv_heads = 12, .queries = tokens, .keys = tokens, .dim = 64};
  request.q = parts[0], request.k = parts[1], request.v = parts[2], request.causal = true;
  return run_attention(kernel, request);
};
const auto with_flash = read_recorded("bf16", "flash2");
expect(hash_of(stages[2].codes) == recorded.at("attention.attend"),
       "cuDNN's order gives the attention that was recorded with cuDNN");
expect(hash_of(attend("flash2", 1024)) == with_flash.at("attention.attend"),
       "FlashAttention's order gives the one recorded with FlashAttention");
expect(recorded.at("attention.attend") != with_flash.at("attention.attend"),
       "and the two differ, on one GPU, for the same numbers");
Table kernels = new_table("Values of 256 tokens that differ from cuDNN's",
                          {text_column("kernel"), fixed_column("with other bits", "%", 2)},
                          "flash2, cudnn and efficient round the weights to BF16 before they multiply V; math has "
                          "them in FP32");
const Codes of_cudnn = attend("cudnn", 256);
for (const char* kernel : {"flash2", "efficient", "math", "double"})
  add_row(kernels, kernel, other_bits(attend(kernel, 256), of_cudnn));
table(kernels);
expect(other_bits(attend("math", 256), of_cudnn) > 2 * other_bits(attend("flash2", 256), of_cudnn),
       "where the weights are rounded matters more than the order of the sums");

// %% [markdown]
// ## How far does one operation reach?
//
// Now compute one operation otherwise, by its definition in double precision, rounded once, and leave the others as the
// GPU has them. Nothing is wrong with it, it is even the better answer. What part of the later numbers changes?

// %%
const Codes few(input.begin(), input.begin() + 64 * 768);  // 64 tokens: attention is causal, the rest works row by row
const auto as_gpu = run_gpt_block(block, few);
struct Change {
  const char* name;
  GptArithmetic how;
  PlotColour colour;
};
const Change changes[] = {{"the first norm", {.norm1 = "double"}, PlotColour::blue},
                          {"all products", {.product = "software.fma.f64"}, PlotColour::vermilion},
                          {"attention", {.attention = "double"}, PlotColour::green},
                          {"GELU", {.gelu = "double"}, PlotColour::purple}};
Panel panel;
panel.x = {"stage", "", AxisScale::linear, 0.5, 10.5, {}, {}};
panel.y = {"values with other bits", "%", AxisScale::linear, 0.0, {}, {}, {}};
Table reach = new_table("One operation otherwise: values with other bits",
                        {text_column("changed"), fixed_column("where it happens", "%", 3),
                         fixed_column("at the end of the block", "%", 3)});
std::map<std::string, double> starts, ends;
for (const Change& change : changes) {
  const auto other = run_gpt_block(block, few, change.how);
  Series line = new_series(change.name, Draw::line_points, change.colour);
  double& first = starts[change.name];
  for (std::size_t s = 0; s < other.size(); ++s) {
    const double share = other_bits(other[s].codes, as_gpu[s].codes);
    if (first == 0) first = share;
    add_point(line, static_cast<double>(s + 1), share);
  }
  panel.series.push_back(line);
  ends[change.name] = other_bits(other.back().codes, as_gpu.back().codes);
  add_row(reach, change.name, first, ends[change.name]);
}
table(reach);
picture(new_plot("Two numbers of a norm reach a third of the block",
                 "Values with other bits after each of the ten stages, 64 tokens; one operation in double precision",
                 {panel}, 300));
const auto changed_values = [&](double percent) {
  return static_cast<int>(percent / 100 * static_cast<double>(few.size()) + 0.5);
};
say("The first norm differs in **{}** of its {} numbers, and {:.2} % of what the block returns has other bits. GELU "
    "differs in {:.2} % of its numbers, and {:.2} % of the block's are left of that.",
    changed_values(starts["the first norm"]), few.size(), ends["the first norm"], starts["GELU"], ends["GELU"]);
expect(changed_values(starts["the first norm"]) == 2 && ends["the first norm"] > 30,
       "two changed numbers at the start reach a third of the end: products spread them over a row, attention over "
       "all later tokens");
expect(ends["GELU"] < starts["GELU"], "near the end most changes are rounded away");
expect(ends["all products"] < 50, "and most numbers of the block are the same in any order of sums");

// %% [markdown]
// That is what people see who change a library and find "a few percent of the values differ in the last bit". The share
// says how many roundings were near a tie, not how good the new library is.

// %% [markdown]
// ## Your own model
//
// `narrow.torch.predict(module, inputs)` does the same for a module of PyTorch and says which operations it predicts
// and which it does not. `narrow op softmax --x step300.safetensors:act.head -o softmax.npy` computes one operation;
// `narrow validate --op softmax --x step300.safetensors:act.head --d softmax.npy` names the kernel that gave an output.
// `narrow run gpu_block --fast` is this lesson as an experiment, for FP16 and the other recordings as well. What nobody
// knows from a shape alone is which plan cuBLAS chooses for a product: lesson 10.
//
// ## Exercises
//
// 1. The two recordings, cuDNN and FlashAttention-2, share some hashes. Which stages, and why those?
// 2. Change the last bit of one number of the last token. How much of the output changes?
// 3. Is the sum at the end of a block as sensitive to order as the rest?

// %% [markdown] tags=["solution"]
// **1.** What comes before attention: the weights, the input, the norm, and the product for Q, K and V.

// %% tags=["solution"]
std::string shared;
for (const GptStage& stage : stages)
  if (recorded.at(stage.name) == with_flash.at(stage.name)) shared += (shared.empty() ? "" : ", ") + stage.name;
say("The same in both: {}.", shared);
expect(shared == "norm1, attention.qkv", "the recordings part at attention and do not meet again");

// %% [markdown] tags=["solution"]
// **2.** Attention is causal and everything else works row by row: only the last row can change. Much of it does.

// %% tags=["solution"]
Codes touched = few;
touched[63 * 768] ^= 1;
const Codes changed = run_gpt_block(block, touched).back().codes;
std::size_t before = 0, last = 0;
for (std::size_t i = 0; i < changed.size(); ++i)
  (i < 63 * 768 ? before : last) += changed[i] != as_gpu.back().codes[i] ? 1 : 0;
say("{} values of the first 63 tokens, {} of the 768 of the last one.", before, last);
expect(before == 0, "no earlier token feels it");
expect(last > 7, "the last one does, in more than one place in a hundred");

// %% [markdown] tags=["solution"]
// **3.** No. It adds two numbers, and two numbers have no order: $a + b$ in FP32 is exact or rounded once, then rounded
// to BF16. A sum of two is the one operation here whose bits everybody agrees on.

// %% tags=["program"]
}

// %% [markdown]
// # Predicting a cuBLAS product bit for bit
//
// Two libraries multiply the same matrices and the results differ in the last bits. Is one of them wrong? Neither: a
// floating-point sum has no value before its order is fixed, and a fast library cuts the sum as it likes. But it always
// cuts it *somewhere*, and once the cut is known the product can be predicted on any computer, bit for bit. The
// products in this lesson were computed by cuBLAS on an NVIDIA H200 and recorded as hashes; here they are computed
// again without a GPU.

// %% tags=["folded"]
#include <bit>
#include <cmath>
#include <fstream>
#include <iomanip>
#include <map>
#include <sstream>

#include "lesson.hpp"
#include "narrow/dot/gemm.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/golden/product_inputs.hpp"

using namespace narrow;
using namespace lesson;

// One line of data/golden/products.tsv.
struct Recorded {
  std::string type, model, plan;
  std::size_t m = 0, n = 0, k = 0;
  std::uint64_t seed = 0, hash = 0;
};

// header: what the file says of its making, by key.
std::vector<Recorded> read_recorded(std::map<std::string, std::string>& header) {
  std::ifstream file(data_file("golden/products.tsv"));
  std::vector<Recorded> products;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("# ")) {
      const std::size_t space = std::min(line.find(' ', 2), line.size() - 1);
      header[line.substr(2, space - 2)] = line.substr(space + 1);
    }
    if (line.empty() || line[0] == '#' || line.starts_with("type\t")) continue;
    std::vector<std::string> cells;
    std::istringstream columns(line);
    for (std::string cell; std::getline(columns, cell, '\t');) cells.push_back(cell);
    products.push_back({cells[0], cells[6], cells[7], std::stoul(cells[1]), std::stoul(cells[2]),
                        std::stoul(cells[3]), std::stoull(cells[4]),
                        std::stoull(cells[10], nullptr, 16)});
  }
  return products;
}

// %% tags=["program"]
// clang-format off: the cells below are the statements of main, written from the margin as a notebook has them.
int main() {

// %% [markdown]
// ## What was recorded
//
// Each line of `data/golden/products.tsv` is one product: the types, the sizes $m$, $n$ and $k$, the seed of the
// inputs, and a hash of all bits of the output. The inputs are not stored. They are a function of the seed, in integer
// arithmetic, so that every machine makes the same ones.

// %%
std::map<std::string, std::string> header;
const std::vector<Recorded> recorded = read_recorded(header);
const auto find_recorded = [&](const char* type, std::size_t m, std::size_t n, std::size_t k) {
  for (const Recorded& r : recorded)
    if (r.type == type && r.m == m && r.n == n && r.k == k) return r;
  throw std::logic_error("no such recording");
};
const auto hex = [](std::uint64_t hash) {
  std::ostringstream out;
  out << std::hex << std::uppercase << std::setw(16) << std::setfill('0') << hash;
  return out.str();
};
const Recorded small = find_recorded("f16", 128, 128, 128);
say("**{}** products. This one is {} x {} x {} of FP16 numbers with an FP32 result: hash `{}`.",
    recorded.size(), small.m, small.n, small.k, hex(small.hash));
say("Recorded on an {} with the cuBLAS of {}, called directly and not through torch, which may bring another. What "
    "follows holds for that library: another version may choose other kernels and cut the sum elsewhere.",
    header.at("gpu"), header.at("cublas"));
expect(header.at("torch") == "none", "the recording names its cuBLAS, and that torch had no part in it");
for (std::uint64_t i = 0; i < 3; ++i) bits(product_code(small.seed, 0, i, "fp16"_fmt), "fp16"_fmt);

// %% [markdown]
// ## The product, computed here
//
// `narrow::gemm` takes a *model*, the arithmetic of one step of the tensor core, and a *plan*, how the sum over $k$ is
// cut and joined. cuBLAS stores its result by columns, so we compute the transposed product, whose rows are these
// columns.

// %%
const auto product = [](const Recorded& r, const std::string& model_name, const std::string& plan) {
  const DotModel& model = *find_dot_model(model_name);
  const bool words =
      r.type == "tf32";  // TF32 gets whole FP32 words: how they are rounded is part of the plan
  const auto fill = [&](int matrix, std::size_t lines, const Format& f) {
    std::vector<std::uint32_t> codes(lines * r.k);
    for (std::size_t i = 0; i < codes.size(); ++i)
      codes[i] = words ? std::bit_cast<std::uint32_t>(product_value(r.seed, matrix, i))
                       : static_cast<std::uint32_t>(product_code(r.seed, matrix, i, f));
    return codes;
  };
  const auto left = fill(1, r.n, model.a.format), right = fill(0, r.m, model.b.format);
  std::vector<std::uint32_t> d(r.n * r.m);
  GemmOptions options;
  if (r.type == "f16-f16") options.output = "fp16"_fmt;
  if (r.type == "bf16-bf16" || r.type == "e4m3-bf16") options.output = "bf16"_fmt;
  gemm(model, parse_plan(plan), MatrixView<const std::uint32_t>{left.data(), r.n, r.k},
       MatrixView<const std::uint32_t>{right.data(), r.k, r.m, 0, Layout::column_major},
       MatrixView<const std::uint32_t>{}, MatrixView<std::uint32_t>{d.data(), r.n, r.m}, options);
  return d;
};
const auto hash_of = [](const std::vector<std::uint32_t>& d) {
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < d.size(); ++i)
    hash += mix_bits(static_cast<std::uint64_t>(d[i]) << 32 | i);
  return hash;
};

// %% [markdown]
// Now guess. Here are five ways to compute the same 16,384 sums of 128 products: one fused multiply-add after the
// other, multiplication and addition rounded apart, a balanced tree, and the tensor cores of two generations. Only one
// of them has the hash that the H200 gave.

// %%
const auto in_tensor_core = product(small, "hopper.wgmma.f32.f16.f16", "chain");
Table guesses = new_table("Five ways to multiply",
                          {text_column("how"), text_column("hash"), text_column("is it cuBLAS?"),
                           fixed_column("outputs with other bits", "%", 1)});
int right_guesses = 0;
for (const char* name :
     {"software.fma.f32.f16.f16", "software.muladd.f32.f16.f16", "software.pairwise.f32.f16.f16",
      "ampere.mma.f32.f16.f16.k16", "hopper.wgmma.f32.f16.f16"}) {
  const auto d = product(small, name, "chain");
  std::size_t other = 0;
  for (std::size_t i = 0; i < d.size(); ++i) other += d[i] != in_tensor_core[i] ? 1 : 0;
  const bool same = hash_of(d) == small.hash;
  right_guesses += same ? 1 : 0;
  add_row(guesses, name, hex(hash_of(d)), same ? "yes" : "no",
          100 * static_cast<double>(other) / static_cast<double>(d.size()));
}
table(guesses);
expect(hash_of(in_tensor_core) == small.hash,
       "a chain of Hopper steps gives all 16,384 outputs of cuBLAS, bit for bit");
expect(right_guesses == 1, "and no other of the five does");

// %% [markdown]
// The first two rows agree with each other: a product of two FP16 numbers has at most 22 bits and fits into FP32, so
// that only the addition rounds. Everything else differs in most outputs, and none of it is wrong.

// %% [markdown]
// ## K is cut
//
// With only 128 x 128 outputs most of the GPU would be idle, so for a long sum cuBLAS splits $k$ among several groups
// of threads and adds their partial results. One chain is then the wrong answer.

// %%
const Recorded deep = find_recorded("f16", 128, 128, 4096);
const auto as_chain = product(deep, deep.model, "chain"),
           as_split = product(deep, deep.model, "split:1408");
say("`chain`: {}. `split:1408`, that is parts of 1408, 1408 and {}: {}.",
    hash_of(as_chain) == deep.hash ? "equal" : "not equal", 4096 - 2 * 1408,
    hash_of(as_split) == deep.hash ? "equal" : "not equal");
expect(hash_of(as_chain) != deep.hash, "at k = 4096 one chain does not give cuBLAS's bits");
expect(hash_of(as_split) == deep.hash, "three chains of 1408, 1408 and 1280, added in FP32, do");

// %% [markdown]
// ## Finding the cut
//
// How does one find such a number? By trying. Take FP32 matrices with TF32 allowed, 64 x 64 x 64. Two things are
// unknown: how the operands lose their last 13 bits (cut, rounded to nearest even, or with ties away from zero), and
// into which parts $k$ is cut. That is a short list, and the hash of 4096 outputs does not agree by accident.

// %%
const Recorded puzzle = find_recorded("tf32", 64, 64, 64);
int tried = 0, agree = 0;
std::string solution;
for (const char* operands : {"", ",rna", ",rne"})
  for (int length = 8; length <= 64; length += 8) {
    const std::string plan =
        length == 64 ? text("chain{}", operands) : text("split:{}{}", length, operands);
    ++tried;
    if (hash_of(product(puzzle, "hopper.wgmma.f32.tf32.tf32", plan)) == puzzle.hash) {
      print("{:<14} agrees", plan);
      solution = plan, ++agree;
    }
  }
say("Of {} plans, **{}** agrees: operands rounded to nearest even, and k cut into parts of 32.",
    tried, agree);
expect(agree == 1 && solution == "split:32,rne",
       "this product is split:32 with operands rounded to nearest even");
expect(solution == puzzle.plan, "and that is the plan which the recording names");

// %% [markdown]
// ## FP8, fast and less fast
//
// For FP8, cuBLAS knows two ways to add. Fast accumulation leaves the sum in the tensor core with its 13 bits; the
// other takes it out every 128 products and adds it to an FP32 number (lesson 09 shows why).

// %%
const Recorded fast = find_recorded("e4m3", 128, 128, 1024),
               slow = find_recorded("e4m3-slow", 128, 128, 1024);
const auto fast_bits = product(fast, fast.model, "chain"),
           slow_bits = product(slow, slow.model, "promote:128");
expect(hash_of(fast_bits) == fast.hash, "fast FP8: one chain, bit for bit");
expect(hash_of(slow_bits) == slow.hash,
       "the other way: a new chain every 128 products, bit for bit");

// %% [markdown]
// How much do the two differ? Both claim to be the product of the same matrices.

// %% tags=["folded"]
Panel spread;
spread.x = {"relative difference", "", AxisScale::exponent_of_two, -24.0, 0.0, {}, {}};
spread.y = {"outputs", "%", AxisScale::linear, 0.0, {}, {}, {}};
const auto differences = [](const std::vector<std::uint32_t>& x,
                            const std::vector<std::uint32_t>& y, const char* name,
                            PlotColour colour) {
  std::map<int, int> by_binade;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double a = static_cast<double>(std::bit_cast<float>(x[i])),
                 b = static_cast<double>(std::bit_cast<float>(y[i]));
    if (a != b && b != 0)
      ++by_binade[std::max(-24, static_cast<int>(std::floor(std::log2(std::fabs(a / b - 1)))))];
  }
  Series s = new_series(name, Draw::bars, colour);
  for (const auto& [binade, count] : by_binade)
    add_point(s, binade + 0.5, 100.0 * count / static_cast<double>(x.size()));
  return s;
};
spread.series = {
    differences(fast_bits, slow_bits, "FP8: fast against every 128", PlotColour::vermilion),
    differences(as_chain, as_split, "FP16, k = 4096: one chain against three", PlotColour::blue)};
spread.bars = BarLayout::overlaid;
picture(new_plot("Two honest products of the same matrices",
                 "Relative difference of the outputs, by binade", {spread}, 280));
const auto mean_difference = [](const std::vector<std::uint32_t>& x,
                                const std::vector<std::uint32_t>& y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    sum += std::fabs(static_cast<double>(std::bit_cast<float>(x[i])) -
                     static_cast<double>(std::bit_cast<float>(y[i])));
  return sum / static_cast<double>(x.size());
};
const double mean_fp16 = mean_difference(as_chain, as_split),
             mean_fp8 = mean_difference(fast_bits, slow_bits);
say("On average the FP16 products differ by {:.2}, and the FP8 products, a quarter as long, by "
    "{:.2}.",
    mean_fp16, mean_fp8);
expect(mean_fp8 > 50 * mean_fp16, "the choice matters far more in FP8 than in FP16");

// %% [markdown]
// ## All of them
//
// The same for every recorded product that is small enough for a few seconds here. When the recording was made, all of
// them, the largest too, were compared output by output.

// %%
struct Count {
  int replayed = 0, equal = 0;
};
std::map<std::string, Count> by_type;
for (const Recorded& r : recorded) {
  if (r.m * r.n * r.k > 1100000 || r.model.empty()) continue;
  Count& count = by_type[r.type];
  ++count.replayed;
  count.equal += hash_of(product(r, r.model, r.plan)) == r.hash ? 1 : 0;
}
Table replayed = new_table("Replayed here", {text_column("types"), integer_column("products"),
                                             integer_column("bit for bit equal")});
int all = 0, all_equal = 0;
for (const auto& [type, count] : by_type) {
  add_row(replayed, type, count.replayed, count.equal);
  all += count.replayed, all_equal += count.equal;
}
table(replayed);
expect(all == all_equal && all > 50, text("all {} products have the hash that the H200 gave", all));

// %% [markdown]
// With a GPU at hand, `narrow gpu plan 128 128 4096` asks the cuBLAS that is installed which algorithm it would choose,
// names the plan before the product runs, and warns where its version is not that of the recording; without one,
// `narrow gpu plan 128 128 4096 --cublas 13.1.0` answers from the recording. `narrow gemm --model hopper.wgmma.f32.f16.f16 --plan split:1408 --a a.npy --b b.npy -o d.npy` computes
// it on your own matrices.
//
// ## Exercises
//
// 1. Change the lowest bit of one element of $A$. How many outputs can change, and how many do?
// 2. For $k = 100$ one chain in ascending order fails, and `chain,residue=64` is right. What does it mean?
// 3. Is $(AB)^T$ the same as $B^T A^T$, bit for bit?

// %% [markdown] tags=["solution"]
// **1.** One element of $A$ takes part in one row of the result, that is in $n$ outputs; most of them change, because
// the sums are rounded to 24 bits and a change in the last of 11 bits is much more. Nothing else moves.

// %% tags=["solution"]
// Row 0 of the result, with bit 0 of A[0][0] changed or not.
const auto row_of = [&](std::uint32_t change) {
  const DotModel& model = *find_dot_model(small.model);
  std::vector<Code> a(small.k), b(small.k), row;
  for (std::size_t i = 0; i < small.k; ++i)
    a[i] = product_code(small.seed, 0, i, model.a.format);
  a[0] ^= change;
  for (std::size_t j = 0; j < small.n; ++j) {
    for (std::size_t i = 0; i < small.k; ++i)
      b[i] = product_code(small.seed, 1, j * small.k + i, model.b.format);
    row.push_back(dot(model, a, b, 0));
  }
  return row;
};
const auto before = row_of(0), after = row_of(1);
int changed = 0;
for (std::size_t j = 0; j < small.n; ++j) changed += before[j] != after[j] ? 1 : 0;
say("{} of the {} outputs of that row change.", changed, small.n);
expect(changed > 100, "most outputs of a row feel the last bit of one element");

// %% [markdown] tags=["solution"]
// **2.** 100 is no multiple of a tile of 64. The kernel takes the 36 products that are left over *first*, filled up
// with zeros, and then the whole tile. The sums are the same, the order is not.

// %% tags=["solution"]
const Recorded odd = find_recorded("f16", 100, 100, 100);
say("`chain`: {}. `{}`: {}.",
    hash_of(product(odd, odd.model, "chain")) == odd.hash ? "equal" : "not equal", odd.plan,
    hash_of(product(odd, odd.model, odd.plan)) == odd.hash ? "equal" : "not equal");
expect(hash_of(product(odd, odd.model, "chain")) != odd.hash, "ascending order fails");
expect(hash_of(product(odd, odd.model, odd.plan)) == odd.hash,
       "the left-over products come first");

// %% [markdown] tags=["solution"]
// **3.** For this model yes: products are exact and commute, and the order of the steps over $k$ is the same. This
// lesson has used it from the beginning, by computing the transposed product. It need not hold when the library chooses
// another plan for the transposed shape.

// %% tags=["solution"]
bool same_both_ways = true;
for (std::size_t j = 0; j < small.n; ++j)
  same_both_ways = same_both_ways && before[j] == in_tensor_core[j * small.m];
expect(same_both_ways, "row 0 of AB is column 0 of the transposed product, bit for bit");

// %% tags=["program"]
}

// %% [markdown]
// # What autocast keeps in FP32 and why
//
// Mixed precision is not "everything in FP16". PyTorch's autocast has lists: matrix products run in FP16; exponentials,
// logarithms, sums, softmax, norms and losses run in FP32; the rest takes what it gets. The lists look arbitrary. They
// are not: each entry answers one of three questions. Can a result leave the range? Does a long sum stop growing? Does
// the answer hang on the last bits? This lesson asks them with numbers of a real model.

// %% tags=["folded"]
#include <algorithm>
#include <cmath>
#include <functional>

#include "lesson.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/format/neighbours.hpp"
#include "narrow/round/round_to.hpp"
#include "narrow/tensor/tensor_file.hpp"
#include "narrow/train/run/run.hpp"

using namespace narrow;
using namespace lesson;

constexpr Format fp16 = "fp16"_fmt, bf16 = "bf16"_fmt, fp32 = "fp32"_fmt;
using Numbers = std::vector<double>;

// 128 x 256 numbers of step 300 of a byte-level GPT.
Numbers recorded(const char* name) {
  const TensorFile file = open_tensor_file(data_file("torch/step300.safetensors"));
  Numbers values(128 * 256);
  read_values(*file.find(name), 0, values);
  return values;
}

// Every result of an operation is rounded to one format; without a format nothing is.
struct Rounder {
  const Format* format = nullptr;
  double operator()(double x) const { return format == nullptr ? x : round_to(x, *format); }
};

// The same functions serve the exact and the rounded computation.
double sum_of(const double* x, std::size_t n, const Rounder& r) {
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum = r(sum + r(x[i]));
  return sum;
}
Numbers softmax_of(const Numbers& x, const Rounder& r) {
  Numbers out;
  for (std::size_t row = 0; row < x.size(); row += 256) {
    Numbers e;
    double max = -HUGE_VAL;
    for (std::size_t i = 0; i < 256; ++i) max = std::max(max, r(x[row + i]));
    for (std::size_t i = 0; i < 256; ++i) e.push_back(r(std::exp(r(r(x[row + i]) - max))));
    const double sum = sum_of(e.data(), 256, r);
    for (const double v : e) out.push_back(r(v / sum));
  }
  return out;
}
Numbers layer_norm_of(const Numbers& x, const Rounder& r) {
  Numbers out;
  for (std::size_t row = 0; row < x.size(); row += 256) {
    const double mean = r(sum_of(&x[row], 256, r) / 256);
    Numbers squares;
    for (std::size_t i = 0; i < 256; ++i)
      squares.push_back(r(r(r(x[row + i]) - mean) * r(r(x[row + i]) - mean)));
    const double variance = r(sum_of(squares.data(), 256, r) / 256);
    const double inverse = r(1 / r(std::sqrt(r(variance + r(1e-5)))));
    for (std::size_t i = 0; i < 256; ++i) out.push_back(r(r(r(x[row + i]) - mean) * inverse));
  }
  return out;
}

// Root mean square of the error over that of the exact result; infinite when a result is.
double relative_error(const Numbers& got, const Numbers& exact) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    error += (got[i] - exact[i]) * (got[i] - exact[i]), size += exact[i] * exact[i];
  return std::isfinite(error) ? std::sqrt(error / size) : HUGE_VAL;
}

// %% tags=["program"]
// clang-format off: the cells below are the statements of main, written from the margin as a notebook has them.
int main() {

// %% [markdown]
// ## Question 1: can the result leave the range?
//
// FP16 ends at 65504. For functions that grow fast this is near. We try all positive FP16 numbers: for which is the
// result infinite, and for which is it zero?

// %%
Table range = new_table("Where FP16 leaves the range",
                        {text_column("function"), text_column("infinite"), text_column("zero")});
struct Function {
  const char* name;
  double (*f)(double);
};
const Function functions[] = {{"exp(x)", [](double x) { return std::exp(x); }},
                              {"exp(-x)", [](double x) { return std::exp(-x); }},
                              {"x^2", [](double x) { return x * x; }},
                              {"x^3", [](double x) { return x * x * x; }},
                              {"1 / x", [](double x) { return 1 / x; }}};
const auto where = [](const std::function<bool(double)>& holds) -> std::string {
  const Code last = fp16.infinity_code() - 1;
  Code edge = 1;
  if (holds(decode(1, fp16))) {
    while (edge < last && holds(decode(edge + 1, fp16))) ++edge;
    return text("up to {:.4}", decode(edge, fp16));
  }
  while (edge < last && !holds(decode(edge, fp16))) ++edge;
  return holds(decode(edge, fp16)) ? text("from {:.4}", decode(edge, fp16)) : "never";
};
for (const Function& f : functions)
  add_row(range, f.name, where([&](double x) { return std::isinf(round_to(f.f(x), fp16)); }),
          where([&](double x) { return round_to(f.f(x), fp16) == 0; }));
table(range);
expect(std::isinf(round_to(std::exp(11.1), fp16)), "exp(11.1) is infinite in FP16");
expect(std::isinf(round_to(256.0 * 256.0, fp16)), "256 squared is infinite in FP16");

// %% [markdown]
// So `exp`, `pow` and everything that squares its input, norms and variances among them, are on the FP32 list.
//
// The other end bites as well. LayerNorm adds a small $\epsilon$ to the variance, so that it never divides by zero. In
// FP16 it may not be there.

// %%
for (const double epsilon : {1e-5, 1e-6, 1e-8})
  print("epsilon {:<7} is {} in FP16", epsilon, round_to(epsilon, fp16));
const double tiny = round_to(0x1p-13 * 0x1p-13, fp16);
say("And the square of an activation of 2^-13 is {}: with $\\epsilon = 10^{{-8}}$ the norm of a "
    "row of such numbers is 1/0.",
    tiny);
expect(round_to(1e-8, fp16) == 0 && tiny == 0,
       "small squares and a small epsilon are both zero in FP16");

// %% [markdown]
// ## Question 2: does a long sum stop growing?
//
// Add the squares of real activations, one after the other, each sum rounded. The larger the sum, the larger its
// quantum; at some point the next term is less than half of it.

// %% tags=["folded"]
const Numbers gelu = recorded("act.blocks.3.gelu"), residual = recorded("act.blocks.3.residual"),
              logits = recorded("act.head");
Panel sums;
sums.x = {"terms added", "", AxisScale::linear, 0.0, 16384.0, {}, {}};
sums.y = {"sum", "", AxisScale::linear, 0.0, {}, {}, {}};
struct Line {
  const char* name;
  const Format* format;
  PlotColour colour;
};
const Line lines[] = {{"exact", nullptr, PlotColour::ink},
                      {"FP16", &fp16, PlotColour::blue},
                      {"BF16", &bf16, PlotColour::vermilion}};
std::vector<double> reached;
for (const Line& line : lines) {
  Series s = new_series(line.name, Draw::line, line.colour);
  const Rounder r{line.format};
  double sum = 0;
  for (std::size_t i = 0; i < 16384; ++i) {
    sum = r(sum + r(residual[i] * residual[i]));
    if (i % 128 == 0) add_point(s, static_cast<double>(i), sum);
  }
  reached.push_back(sum);
  sums.series.push_back(s);
}
picture(new_plot(text("BF16 reaches {:.0f} % of the sum, FP16 {:.0f} %",
                      100 * reached[2] / reached[0], 100 * reached[1] / reached[0]),
                 "Squares of 16,384 numbers of the residual stream, added one by one", {sums},
                 280));
expect(reached[2] < 0.8 * reached[0], "a long sum in BF16 comes out far too small");
expect(std::fabs(reached[1] / reached[0] - 1) < std::fabs(reached[2] / reached[0] - 1),
       "FP16 is better: it has three more bits");

// %% [markdown]
// So `sum`, `mean`, `var`, `norm` and `cumsum` go to FP32. Note that range has nothing to do with it: BF16 has all the
// range of FP32 and does worse. A matrix product is a long sum too. It may run in FP16 because only its *operands* are
// FP16; the tensor core adds in FP32.

// %%
const auto product_error = [&](const Format& f, bool narrow_sums) {
  const Numbers a = recorded("act.blocks.3.ln2"), b = recorded("weight.blocks.3.up.weight");
  Numbers exact, got;
  for (std::size_t i = 0; i < 32; ++i)
    for (std::size_t j = 0; j < 32; ++j) {
      double sum = 0, rounded = 0;
      for (std::size_t t = 0; t < 256; ++t) {
        sum += a[i * 256 + t] * b[j * 256 + t];
        const double term = round_to(a[i * 256 + t], f) * round_to(b[j * 256 + t], f);
        rounded = round_to(rounded + term, narrow_sums ? f : fp32);
      }
      exact.push_back(sum), got.push_back(round_to(rounded, f));
    }
  return relative_error(got, exact);
};
Table products = new_table("A matrix product of 256 terms",
                           {text_column("operands"), real_column("error, FP32 sums", "%", 2),
                            real_column("error, sums in the format", "%", 2)});
add_row(products, "FP16", 100 * product_error(fp16, false), 100 * product_error(fp16, true));
add_row(products, "BF16", 100 * product_error(bf16, false), 100 * product_error(bf16, true));
table(products);
expect(product_error(bf16, true) > 2 * product_error(bf16, false),
       "what saves the product is the FP32 accumulator");

// %% [markdown]
// Two operations of image models fit here. A convolution is a matrix product of its unfolded input (one row for each
// window), so `conv1d`, `conv2d` and `conv3d` stand beside `linear` on the FP16 list. Batch norm is on no list: it takes
// FP16 images, but its kernel adds in FP32 and keeps the *running* mean and variance, 0.9 of the old plus 0.1 of the
// batch, in FP32. Why not in the format of the images? The 256 channels of the residual stream, 300 batches of 8 rows:

// %%
Table running =
    new_table("Running means of 300 batches",
              {text_column("kept in"), real_column("error", "%", 2), real_column("quantum of 1", "%", 2)});
Numbers kept_exactly;
std::vector<double> off;
for (const Line& line : lines) {
  const Rounder r{line.format};
  Numbers means(256, 0.0);
  for (std::size_t batch = 0; batch < 300; ++batch)
    for (std::size_t c = 0; c < 256; ++c) {
      double sum = 0;
      for (std::size_t i = 0; i < 8; ++i) sum += residual[(batch % 16 * 8 + i) * 256 + c];
      means[c] = r(0.9 * means[c] + 0.1 * sum / 8);
    }
  if (line.format == nullptr) kept_exactly = means;
  off.push_back(relative_error(means, kept_exactly));
  const double quantum = line.format == nullptr ? 0 : std::ldexp(1.0, -line.format->mantissa_bits);
  add_row(running, line.name, 100 * off.back(), 100 * quantum);
}
table(running);
expect(off[2] > 4 * off[1], "a running mean in BF16 errs several times as much as one in FP16");

// %% [markdown]
// ## Question 3: does the answer hang on the last bits?
//
// The loss of a token is $-\log p$. For a token that the model is almost sure of, $p$ is close to 1 and the loss is a
// small difference; for one that it thinks impossible, $p$ is so small that it has no code. Both ends, in FP16:

// %%
Table loss =
    new_table("-log p", {real_column("p", "", 7), real_column("exact", "", 4),
                         real_column("p and log in FP16", "", 4), real_column("in BF16", "", 4)});
for (const double p : {0.9999, 0.999, 0.5, 1e-4, 1e-8})
  add_row(loss, p, -std::log(p), round_to(-std::log(round_to(p, fp16)), fp16),
          round_to(-std::log(round_to(p, bf16)), bf16));
table(loss);
expect(round_to(0.9999, fp16) == 1, "0.9999 is 1 in FP16: the loss is 0, and so is the gradient");
expect(std::isinf(-std::log(round_to(1e-8, fp16))), "1e-8 is 0 in FP16: the loss is infinite");

// %% [markdown]
// ## All of it in one picture
//
// Now each operation on recorded tensors, with *every* result inside it rounded to one format: the relative error, as
// the root mean square over all outputs.

// %% tags=["folded"]
const auto cross_entropy_of = [](const Numbers& x, const Rounder& r) {
  Numbers out;
  const Numbers p = softmax_of(x, r);
  for (std::size_t row = 0; row < x.size(); row += 256)
    out.push_back(r(-std::log(p[row + row / 256 % 256])));
  return out;
};
struct Operation {
  const char* name;
  const char* list;
  std::function<Numbers(const Rounder&)> run;
};
const std::vector<Operation> operations = {
    {"residual add", "as its inputs",
     [&](const Rounder& r) {
       Numbers out;
       for (std::size_t i = 0; i < gelu.size(); ++i) out.push_back(r(r(residual[i]) + r(gelu[i])));
       return out;
     }},
    {"softmax", "FP32", [&](const Rounder& r) { return softmax_of(logits, r); }},
    {"LayerNorm", "FP32", [&](const Rounder& r) { return layer_norm_of(residual, r); }},
    {"sum of 4096", "FP32",
     [&](const Rounder& r) {
       Numbers out;
       for (std::size_t i = 0; i < gelu.size(); i += 4096) out.push_back(sum_of(&gelu[i], 4096, r));
       return out;
     }},
    {"exp", "FP32",
     [&](const Rounder& r) {
       Numbers out;
       for (const double x : logits) out.push_back(r(std::exp(r(x))));
       return out;
     }},
    {"cross entropy", "FP32", [&](const Rounder& r) { return cross_entropy_of(logits, r); }}};
const Format formats[] = {fp32, fp16, bf16};
Panel map;
map.x.categories = {"FP32", "FP16", "BF16"};
map.cells = {"relative error", "", true, 2};
Series cells = new_series("", Draw::cells);
std::vector<std::vector<double>> errors;
const auto add_cell = [&](std::size_t format, double value) {
  add_point(cells, static_cast<double>(format), static_cast<double>(errors.size() - 1));
  cells.value.push_back(value);
  errors.back().push_back(value);
};
errors.emplace_back();
map.y.categories.push_back("matmul, FP32 sums  [FP16]");
for (std::size_t f = 0; f < 3; ++f) add_cell(f, product_error(formats[f], false));
for (const Operation& operation : operations) {
  const Numbers exact = operation.run({});
  errors.emplace_back();
  for (std::size_t f = 0; f < 3; ++f)
    add_cell(f, relative_error(operation.run({&formats[f]}), exact));
  map.y.categories.push_back(text("{}  [{}]", operation.name, operation.list));
}
map.series = {cells};
picture(new_plot(
    "The FP32 list is where the errors are",
    "Relative error of operations whose every result is rounded; in brackets: autocast's list",
    {map}, 360));
bool all_worse = true;
for (std::size_t i = 0; i < operations.size(); ++i)
  if (std::string_view(operations[i].list) == "FP32")
    all_worse = all_worse && errors[i + 1][1] > 3 * errors[0][1];
expect(
    all_worse,
    "in FP16 every operation of the FP32 list is at least three times worse than a matrix product");
expect(errors[4][2] > 5 * errors[0][2],
       "in BF16 a sum of 4096 numbers is many times worse than a matrix product");

// %% [markdown]
// ## Does training notice?
//
// The honest answer for a small model: often not, in 16 bits. The lists are made for the worst case. With FP8 the
// difference shows. A tiny transformer, FP8 in its linear layers; then one more operation is moved into FP8 each time.

// %%
Table runs = new_table("Byte-level text, 80 steps",
                       {text_column("recipe"), fixed_column("final loss", "", 3),
                        fixed_column("more than fp8-current", "", 3)});
std::vector<double> losses;
for (const char* name : {"fp8-current", "fp8-current-softmax", "fp8-current-norm",
                         "fp8-current-residual", "fp8-current-logits"}) {
  train::RunRequest request;
  request.task = train::Task::lm;
  request.shape = train::ModelShape{
      .kind = train::ModelKind::transformer, .layers = 1, .width = 32, .heads = 2, .context = 32};
  request.recipe = train::require_recipe(name);
  request.steps = 80, request.batch = 4;
  losses.push_back(train::run_training(request).final_loss);
  add_row(runs, name, losses.back(), losses.back() - losses[0]);
}
table(runs);
expect(losses[4] > losses[0] + 0.01, "the last product and the loss in FP8 cost the most");
expect(losses[4] - losses[0] > losses[1] - losses[0], "softmax inside a layer costs less");

// %% [markdown]
// `narrow run operation_policy -o out --fast` measures more operations in more formats; `narrow train --recipe fp16-amp-norm`
// and its relatives train with any one of them moved.
//
// ## Exercises
//
// 1. The mean of 1000 ones, computed in BF16 one by one: what is it?
// 2. $\exp(12)$ is infinite in FP16. Why does softmax of the scores 12, 11, 10 work there all the same?
// 3. `a + b` is on neither list: the result has the wider type of the two. What would happen to a residual stream in
//    BF16 with values around 20, to which a layer adds numbers around 0.05?

// %% [markdown] tags=["solution"]
// **1.** The sum stops at 256, where the quantum is 2 and 1 is a tie. The mean is 0.256.

// %% tags=["solution"]
const Numbers ones(1000, 1.0);
const double mean = round_to(sum_of(ones.data(), 1000, {&bf16}) / 1000, bf16);
say("The mean is **{}**.", mean);
expect(std::fabs(mean - 0.256) < 0.001, "the mean of a thousand ones is 0.256 in BF16");

// %% [markdown] tags=["solution"]
// **2.** The largest score is subtracted first, which changes nothing in exact arithmetic. All exponents are then 0 or
// less, all exponentials 1 or less; and the sum is at least 1, so that nothing is divided by zero.

// %% tags=["solution"]
Numbers three(256, -HUGE_VAL);
three[0] = 12, three[1] = 11, three[2] = 10;
const Numbers safe = softmax_of(three, {&fp16});
print("{:.4} {:.4} {:.4}", safe[0], safe[1], safe[2]);
expect(std::fabs(safe[0] + safe[1] + safe[2] - 1) < 0.002,
       "with the largest score subtracted FP16 gives probabilities");

// %% [markdown] tags=["solution"]
// **3.** The quantum of BF16 at 20 is $2^{4-7} = 0.125$; 0.05 is less than half of it. The layer would be ignored. This
// is why autocast leaves the residual stream in FP32.

// %% tags=["solution"]
expect(round_to(20 + 0.05, bf16) == 20, "20 + 0.05 is 20 in BF16");
expect(decode(next_up(encode(20.0, bf16), bf16), bf16) == 20.125, "its next number is 20.125");

// %% tags=["program"]
}

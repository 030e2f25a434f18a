#include "narrow/golden/torch_products.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "narrow/base/error.hpp"
#include "narrow/dot/gemm.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/golden/product_inputs.hpp"
#include "narrow/special/operation.hpp"
#include "narrow/text/split.hpp"

namespace narrow {

namespace {

[[noreturn]] void refuse_line(std::size_t line, const std::string& why) {
  throw Error("products through torch: line " + std::to_string(line) + ": " + why);
}

std::uint64_t whole(std::string_view word, std::size_t line, int base) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value, base);
  if (error != std::errc{} || end != word.data() + word.size())
    refuse_line(line, "'" + std::string(word) + "' is no whole number");
  return value;
}

// fp32 operands are recorded as they are, whatever a kernel makes of their low bits.
std::vector<std::uint64_t> operand(std::size_t count, std::uint64_t seed, int matrix, const Format& f) {
  std::vector<std::uint64_t> codes(count);
  for (std::size_t i = 0; i < count; ++i)
    codes[i] = f.width() >= 32 ? encode(product_value(seed, matrix, i), f) : product_code(seed, matrix, i, f);
  return codes;
}

Format format_of(const RecordedTorchProduct& r) {
  if (r.type == "f16") return "fp16"_fmt;
  if (r.type == "bf16") return "bf16"_fmt;
  if (r.type == "s8") return *find_format("int8");
  return r.type.starts_with("e4m3") ? "e4m3"_fmt : r.type == "fp64" ? "fp64"_fmt : "fp32"_fmt;
}

}  // namespace

// By the names of the columns. The outputs of a batch are so many times m n; FP8 sums are fast where the seed is odd.
std::vector<RecordedTorchProduct> read_torch_products(std::string_view table) {
  constexpr std::array names{"type", "api", "m", "n", "k", "exact", "model", "plan", "total", "seed", "hash"};
  std::array<std::size_t, names.size()> at{};
  std::size_t blas = 0, algorithm = 0, number = 0, width = 0;
  std::vector<RecordedTorchProduct> products;
  for (const std::string_view line : parts_of(table, "\n")) {
    ++number;
    if (line.empty() || line.starts_with('#')) continue;
    const std::vector<std::string_view> words = parts_of(line, "\t");
    if (width == 0) {
      width = words.size();
      for (std::size_t i = 0; i < names.size(); ++i) {
        at[i] = static_cast<std::size_t>(std::find(words.begin(), words.end(), names[i]) - words.begin());
        if (at[i] == width) refuse_line(number, "no column '" + std::string(names[i]) + "'");
      }
      blas = static_cast<std::size_t>(std::find(words.begin(), words.end(), "blas") - words.begin());
      algorithm = static_cast<std::size_t>(std::find(words.begin(), words.end(), "algorithm") - words.begin());
      continue;
    }
    if (words.size() != width)
      refuse_line(number, std::to_string(words.size()) + " columns where " + std::to_string(width) + " belong");
    const auto size = [&](std::size_t i) { return static_cast<int>(whole(words[at[i]], number, 10)); };
    RecordedTorchProduct p{std::string(words[at[0]]),
                           std::string(words[at[1]]),
                           blas < width ? std::string(words[blas]) : "cublas",
                           {size(2), size(3), size(4)}};
    const bool named = words[at[5]] == "1";
    if (p.shape.m < 1 || p.shape.n < 1 || p.shape.k < 1) refuse_line(number, "sizes begin at 1");
    if (p.function == "bmm") p.batch = std::max(1, size(8) / p.shape.m / p.shape.n);
    p.seed = whole(words[at[9]], number, 10), p.hash = whole(words[at[10]], number, 16);
    if (p.type == "e4m3" && p.seed % 2 == 0) p.type = "e4m3-slow";
    if (algorithm < width && words[algorithm] != "-") {
      try {
        p.algorithm = read_algorithm(words[algorithm]);
      } catch (const Error& error) {
        refuse_line(number, error.what());
      }
    }
    if (named) p.model = words[at[6]], p.plan = words[at[7]];
    products.push_back(std::move(p));
  }
  if (width == 0) throw Error("products through torch: the table has no line of names");
  return products;
}

std::uint64_t torch_product_hash(const RecordedTorchProduct& r, std::string_view model_name, std::string_view plan,
                                 int threads) {
  const DotModel* model = find_dot_model(model_name);
  if (model == nullptr) throw Error("no model '" + std::string(model_name) + "'");
  const Format in = format_of(r);
  const auto m = static_cast<std::size_t>(r.shape.m), n = static_cast<std::size_t>(r.shape.n),
             k = static_cast<std::size_t>(r.shape.k), batch = static_cast<std::size_t>(r.batch);
  GemmOptions options{.threads = threads};
  options.output = in == "e4m3"_fmt ? "bf16"_fmt : in.is_integer() ? model->accumulator.format : in;
  options.c_format = in;
  for (const EpilogueFunction& f : epilogue_functions())
    if (f.name == (r.function == "gelu" ? "gelu_tanh" : r.function)) options.function = f;
  const std::vector<std::uint64_t> a = operand(batch * m * k, r.seed, 0, in), b = operand(batch * k * n, r.seed, 1, in),
                                   c = operand(n, r.seed + 1000, 0, in);
  const bool linear = r.function.starts_with("linear");
  const bool biased = r.function == "linear+bias" || options.function.of != nullptr;
  std::vector<std::uint64_t> d(m * n);
  std::uint64_t hash = 0, index = 0;
  for (std::size_t item = 0; item < batch; ++item) {
    const CodeMatrix x{a.data() + item * m * k, 8, m, k, k},
        y{b.data() + item * k * n, 8, k, n, linear ? k : n, linear ? Layout::column_major : Layout::row_major},
        bias = biased ? CodeMatrix{c.data(), 8, m, n, 0} : CodeMatrix{};
    gemm(*model, parse_plan(plan), x, y, bias, MatrixView<std::uint64_t>{d.data(), m, n}, options);
    for (const std::uint64_t code : d) hash += mix_bits(code << 32 | index++);
  }
  return hash;
}

}  // namespace narrow

#include "narrow/golden/plan_prediction.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <tuple>
#include <utility>

#include "narrow/base/error.hpp"
#include "narrow/dot/model.hpp"
#include "narrow/dot/plan.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/split.hpp"

namespace narrow {

namespace {

constexpr std::size_t columns = 11;  // type m n k seed algorithm model plan outputs equal hash

[[noreturn]] void refuse(std::size_t line, const std::string& why) {
  throw Error("recorded products: line " + std::to_string(line) + ": " + why);
}

int whole_number(std::string_view word, std::size_t line) {
  int value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size())
    refuse(line, "'" + std::string(word) + "' is no whole number");
  return value;
}

int bytes_of_element(const ProductType& t) { return t.a == "tf32" ? 4 : t.a == "fp16" || t.a == "bf16" ? 2 : 1; }

// cublasLtMatmulStages_t counts 16x1..16x6, 32x1..32x6, 64x1.., 128x1.., and then others: the K of a kernel's tile. 0:
// it does not say.
int tile_k_of(int stages) {
  constexpr std::array tiles{16, 32, 64, 128};
  if (stages >= 1 && stages <= 24) return tiles[static_cast<std::size_t>(stages - 1) / 6];
  return stages == 25 ? 32 : stages == 27 ? 16 : stages == 26 || stages == 28 || stages == 31 ? 8 : 0;
}

// Kernels for one row or column, of several kinds: which sums they make their numbers do not say.
bool is_vector_kernel(const ProductAlgorithm& a) { return a.id >= 11 && a.id <= 14; }

// Kernels written as in CUTLASS 2 (algorithms 21 to 24) take what their tiles leave over first.
bool takes_residue_first(const ProductAlgorithm& a) { return a.id >= 21 && a.id <= 24; }

// Where the parts of a split meet, and a bias: in place (1) it joins the first part, and the sum is rounded to the
// output with each; in the type of the output (4) it is added to what was rounded.
void join_parts(Plan& plan, int reduction, bool narrow_output, bool bias) {
  if (reduction == 1 && bias) plan.c = PlaceOfC::first;
  if (reduction == 1 && narrow_output) plan.partials = Partials::serial;
  if (reduction == 4 && narrow_output) plan.partials = Partials::stored;
  if (reduction == 4 && narrow_output && bias) plan.c = PlaceOfC::after;
}

int rounded_up(int value, int to) { return (value + to - 1) / to * to; }

}  // namespace

ProductAlgorithm read_algorithm(std::string_view text) {
  ProductAlgorithm a;
  const std::pair<std::string_view, int*> fields[] = {
      {"id", &a.id},           {"tile", &a.tile},           {"stages", &a.stages},
      {"split-k", &a.split_k}, {"reduction", &a.reduction}, {"swizzle", &a.swizzle},
      {"custom", &a.custom},   {"inner", &a.inner},         {"cluster", &a.cluster}};
  const std::vector<std::string_view> words = parts_of(text, " ");
  if (words.size() != 2 * std::size(fields)) throw Error("the algorithm has not nine numbers");
  for (std::size_t i = 0; i < std::size(fields); ++i) {
    const std::string_view word = words[2 * i + 1];
    if (words[2 * i] != fields[i].first)
      throw Error("'" + std::string(words[2 * i]) + "' where '" + std::string(fields[i].first) + "' belongs");
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), *fields[i].second);
    if (error != std::errc{} || end != word.data() + word.size())
      throw Error("'" + std::string(word) + "' is no whole number");
  }
  return a;
}

std::vector<RecordedProduct> read_recorded_products(std::string_view table) {
  std::vector<RecordedProduct> products;
  std::size_t number = 0;
  bool names = true;
  for (const std::string_view line : parts_of(table, "\n")) {
    ++number;
    if (line.empty() || line.starts_with('#') || std::exchange(names, false)) continue;
    const std::vector<std::string_view> words = parts_of(line, "\t");
    if (words.size() != columns) refuse(number, std::to_string(words.size()) + " columns where 11 belong");
    const ProductShape shape{whole_number(words[1], number), whole_number(words[2], number),
                             whole_number(words[3], number)};
    ProductAlgorithm algorithm;
    try {
      algorithm = read_algorithm(words[5]);
    } catch (const Error& error) {
      refuse(number, error.what());
    }
    products.push_back({std::string(words[0]), shape, algorithm, std::string(words[6]), std::string(words[7])});
  }
  return products;
}

ProductOrigin read_product_origin(std::string_view table) {
  const auto value = [&](std::string_view key) {
    const std::string start = "# " + std::string(key) + " ";
    for (const std::string_view line : parts_of(table, "\n"))
      if (line.starts_with(start) && line.size() > start.size()) return std::string(line.substr(start.size()));
    throw Error("recorded products: the header has no line '" + start +
                "...'; plans hold for the library that they were recorded with, so it must be named");
  };
  return {value("gpu"), value("toolkit"), value("cublas"), value("torch")};
}

std::string ProductOrigin::text() const {
  const bool by_toolkit = cublas.starts_with("CUDA ");
  return gpu + ", cuBLAS " + (by_toolkit ? "of " + cublas + " (its own number was not recorded)" : cublas) +
         (torch == "none" ? ", without torch" : ", torch " + torch);
}

CublasVersion parse_cublas_version(std::string_view text) {
  const bool cuda = text.starts_with("CUDA ");
  const std::string_view number = cuda ? text.substr(5) : text;
  bool fine = parts_of(number, ".").size() >= 2;
  for (const std::string_view part : parts_of(number, "."))
    fine = fine && !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
  if (!fine) throw Error(quote(text) + " is no version; '13.1.0' names a cuBLAS, 'CUDA 13.0' that of a toolkit");
  return cuda ? CublasVersion{"", std::string(number)} : CublasVersion{std::string(number), ""};
}

// Two numbers or two toolkits are compared. A number and a toolkit tell only where their majors differ, for cuBLAS
// carries the major number of its CUDA.
std::string version_warning(const ProductOrigin& recorded, const CublasVersion& used) {
  const CublasVersion table = parse_cublas_version(recorded.cublas);
  const bool numbers = !table.number.empty() && !used.number.empty(),
             toolkits = !table.cuda.empty() && !used.cuda.empty();
  const std::string ours = table.number + table.cuda, theirs = numbers || used.cuda.empty() ? used.number : used.cuda;
  if ((numbers || toolkits) && ours == theirs) return "";
  const std::string name = used.number.empty() ? "CUDA " + used.cuda : used.number;
  const auto major = [](const std::string& version) { return version.substr(0, version.find('.')); };
  if (!numbers && !toolkits && major(ours) == major(theirs))
    return "whether the table's cuBLAS (" + recorded.cublas + ") is " + name + " was not recorded";
  return "the table was recorded with another cuBLAS (" + recorded.cublas + ", not " + name +
         "): the choice of algorithm and the plan may differ";
}

// The rules, each seen on every recorded product that it applies to but those that plan_prediction_test counts:
//   FP8 with slow accumulation: promote:128, whatever the split says
//   split-k S > 1: S parts of ceil(K / S), rounded up to 128 bytes of K; kernels of CUTLASS 2 take 16 bytes instead
//   where
//     128 do not divide K
//   CUTLASS 2 kernels: what tiles of K leave over comes first, in every part
//   stream-K (split-k below 0): a chain; where it cuts K the numbers do not say, only a recording does
//   the reduction scheme of a split says where its parts are joined (join_parts), else in FP32
//   tf32 operands are rounded to nearest even; integer sums are exact, so a chain says as much as any plan
PlanPrediction plan_of_algorithm(const ProductType& type, const ProductShape& shape, const ProductAlgorithm& algorithm,
                                 bool bias) {
  const auto ptx = [](const std::string& f) { return f == "fp16" ? "f16" : f == "int8" ? "s8" : f; };
  const std::string types = ptx(type.b) + "." + ptx(type.a);  // rows of the result are columns of the product
  const bool integer = type.a == "int8", sixteen = bytes_of_element(type) == 2;
  const bool without_stages = sixteen && algorithm.id == 24 && algorithm.stages == 0;  // kernels older than wgmma
  if (is_vector_kernel(algorithm) && !integer) return {};
  if (type.a == "tf32" && algorithm.id == 55) return {"software.fma.f32.f32.f32", "chain"};  // no tensor cores
  PlanPrediction p;
  p.model = integer          ? "hopper.mma.s32.s8.s8.k32"
            : without_stages ? "hopper.mma.f32." + types + ".k8"
                             : "hopper.wgmma.f32." + types;
  Plan plan;
  if (type.a == "tf32") plan.operands = Operands::nearest_even;
  if (bytes_of_element(type) == 1 && !integer && !type.fast) {
    plan.order = SumOrder::promote, plan.length = 128;
  } else if (!integer) {
    const bool older = takes_residue_first(algorithm);
    const int line = 128 / bytes_of_element(type), least = 16 / bytes_of_element(type);
    int length = shape.k;
    if (algorithm.id == 63 && algorithm.split_k > 1) {  // tiles of K go to the parts in turn
      plan.order = SumOrder::slice, plan.length = algorithm.split_k, plan.run = tile_k_of(algorithm.stages);
    } else if (algorithm.split_k > 1)
      length = rounded_up((shape.k + algorithm.split_k - 1) / algorithm.split_k,
                          older && shape.k % line != 0 ? least : line);
    if (length < shape.k) plan.order = SumOrder::split, plan.length = length;
    if (length < shape.k) join_parts(plan, algorithm.reduction, type.d == "fp16" || type.d == "bf16", bias);
    const int tile = without_stages ? 32 : older ? tile_k_of(algorithm.stages) : 0;
    if (tile != 0 && (length % tile != 0 || shape.k % length % tile != 0)) plan.residue = tile;
  }
  p.plan = plan_text(plan);
  return p;
}

bool same_sums(const PlanPrediction& x, const PlanPrediction& y, const ProductShape& shape) {
  const DotModel *mx = find_dot_model(x.model), *my = find_dot_model(y.model);
  if (mx == nullptr || my == nullptr) return x.model == y.model && x.plan == y.plan;
  if (mx->is_integer() && my->is_integer()) return true;
  if (!same_arithmetic(*mx, *my)) return false;
  const auto chains = [&](const std::string& text) {
    Plan plan = parse_plan(text);
    const Schedule s = make_schedule(plan, *mx, static_cast<std::size_t>(shape.k), static_cast<std::size_t>(shape.n),
                                     static_cast<std::size_t>(shape.m));
    std::vector<std::vector<std::int32_t>> found;
    const auto step = static_cast<std::size_t>(mx->products_per_step);
    for (const Segment& segment : s.segments) {
      found.emplace_back();
      for (std::size_t at = segment.begin; at < segment.end; at += step) {
        const auto from = s.order.begin() + static_cast<std::ptrdiff_t>(at);
        const auto to = s.order.begin() + static_cast<std::ptrdiff_t>(std::min(at + step, segment.end));
        if (std::any_of(from, to, [](std::int32_t k) { return k >= 0; }))
          found.back().insert(found.back().end(), from, to);
      }
    }
    if (plan.join == Join::reversed) std::reverse(found.begin(), found.end()), plan.join = Join::in_order;
    const bool alone = found.size() < 2;  // then nothing is joined
    return std::tuple{found, plan.operands, plan.c, alone ? Join::in_order : plan.join,
                      alone ? Partials::wide : plan.partials};
  };
  return chains(x.plan) == chains(y.plan);
}

PlanPrediction predict_plan(std::span<const RecordedProduct> recorded, const ProductType& type,
                            const ProductShape& shape, const ProductAlgorithm& algorithm) {
  for (const RecordedProduct& r : recorded)
    if (r.type == type.name && r.shape.m == shape.m && r.shape.n == shape.n && r.shape.k == shape.k &&
        r.algorithm.text() == algorithm.text() && !r.model.empty())
      return {r.model, r.plan, true};
  return plan_of_algorithm(type, shape, algorithm);
}

}  // namespace narrow

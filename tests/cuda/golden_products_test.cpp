#include <set>

#include "cuda/golden_folder.hpp"
#include "narrow/base/random.hpp"
#include "narrow/dot/gemm.hpp"
#include "narrow/golden/product_inputs.hpp"
#include "support/scale.hpp"

namespace {

using narrow::Code;

struct Recorded {
  std::string type, model, plan;
  std::size_t m = 0, n = 0, k = 0;
  std::uint64_t seed = 0, hash = 0;
};

std::vector<Recorded> recorded_products() {
  std::vector<Recorded> products;
  const test::GoldenTable table = test::golden_table("products.tsv");
  CHECK(table.origin.size() >= 5);
  for (const auto& row : table.rows) {
    if (row.size() != 11 || row[6].empty() || row[6] == "software.fma") continue;
    products.push_back({row[0], row[6], row[7], std::stoul(row[1]), std::stoul(row[2]), std::stoul(row[3]),
                        std::stoull(row[4]), std::stoull(row[10], nullptr, 16)});
  }
  return products;
}

// D transposed, as the column-major output of the recording lies in memory: n rows of m.
std::uint64_t hash_of_product(const Recorded& r) {
  const narrow::DotModel* model = narrow::find_dot_model(r.model);
  REQUIRE(model != nullptr);
  const bool words = model->a.name == "tf32";
  const auto fill = [&](int matrix, std::size_t lines, const narrow::Format& f) {
    std::vector<std::uint32_t> codes(lines * r.k);
    for (std::size_t i = 0; i < codes.size(); ++i)
      codes[i] = words ? std::bit_cast<std::uint32_t>(narrow::product_value(r.seed, matrix, i))
                       : static_cast<std::uint32_t>(narrow::product_code(r.seed, matrix, i, f));
    return codes;
  };
  // Rows of the transposed result are B's lines; the model's a is the type of B.
  const auto left = fill(1, r.n, model->a.format), right = fill(0, r.m, model->b.format);
  const bool is_half = r.type == "f16-f16", is_bf16 = r.type == "bf16-bf16" || r.type == "e4m3-bf16";
  narrow::GemmOptions options;
  if (is_half) options.output = narrow::ieee(5, 10);
  if (is_bf16) options.output = narrow::ieee(8, 7);
  std::vector<std::uint32_t> d(r.n * r.m);
  const narrow::MatrixView<const std::uint32_t> a{left.data(), r.n, r.k, 0, narrow::Layout::row_major};
  const narrow::MatrixView<const std::uint32_t> b{right.data(), r.k, r.m, 0, narrow::Layout::column_major};
  narrow::gemm(*model, narrow::parse_plan(r.plan), a, b, narrow::MatrixView<const std::uint32_t>{},
               narrow::MatrixView<std::uint32_t>{d.data(), r.n, r.m, 0, narrow::Layout::row_major}, options);
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < d.size(); ++i) hash += narrow::mix_bits(static_cast<std::uint64_t>(d[i]) << 32 | i);
  return hash;
}

}  // namespace

TEST_CASE("golden: cuBLASLt's products come out of their models and plans on a CPU") {
  const auto products = recorded_products();
  CHECK(products.size() >= 600);
  const double budget = 4e6 * std::max(0.02, test::scale());  // multiply-adds a product
  std::size_t replayed = 0;
  std::set<std::string> types;
  for (const Recorded& r : products) {
    if (static_cast<double>(r.m) * static_cast<double>(r.n) * static_cast<double>(r.k) > budget) continue;
    const std::string product = r.type + " " + std::to_string(r.m) + " x " + std::to_string(r.n) + " x " +
                                std::to_string(r.k) + " " + r.model + " " + r.plan;
    CAPTURE(product);
    CHECK(hash_of_product(r) == r.hash);
    ++replayed;
    types.insert(r.type);
  }
  MESSAGE(replayed << " products of " << types.size() << " types");
  CHECK(replayed > 0);
}

TEST_CASE("golden: conversions have the hashes that the other recorder gave") {
  const test::GoldenTable table = test::golden_table("conversions.tsv");
  CHECK(table.origin.size() >= 5);
  const std::string systems = test::read_text(NARROW_DATA "/conformance/systems.tsv");
  std::size_t found = 0;
  for (const auto& row : table.rows) {
    REQUIRE(row.size() == 4);
    if (row[2] != "4294967296" || !row[0].starts_with("cvt ")) continue;
    if (systems.find("\tf32\t" + row[3] + "\t") != std::string::npos) ++found;
  }
  CHECK(found >= 28);  // all but relu and the packed pairs, which the other recorder does not have
}

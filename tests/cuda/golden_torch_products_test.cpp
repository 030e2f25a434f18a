// Products through torch on an H200: the model and plan that validate named give every bit of them again.
#include "cuda/golden_folder.hpp"
#include "narrow/base/random.hpp"
#include "narrow/dot/gemm.hpp"
#include "narrow/golden/product_inputs.hpp"
#include "support/scale.hpp"

namespace {

struct TorchProduct {
  std::string type, api, model, plan;
  std::size_t m, n, k;
  std::uint64_t seed, hash;
  bool exact;
  std::size_t items() const { return api == "bmm" ? 2 + seed % 3 : 1; }
  double products() const {
    return static_cast<double>(items()) * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
};

std::vector<TorchProduct> torch_products() {
  std::vector<TorchProduct> out;
  for (const auto& r : test::golden_table("torch-products.tsv").rows) {
    REQUIRE(r.size() >= 12);
    out.push_back({r[0], r[1], r[7], r[8], std::stoul(r[2]), std::stoul(r[3]), std::stoul(r[4]), std::stoull(r[5]),
                   std::stoull(r[11], nullptr, 16), r[6] == "1"});
  }
  return out;
}

std::vector<std::uint64_t> matrix_of(std::size_t count, std::uint64_t seed, int matrix, const narrow::Format& f) {
  std::vector<std::uint64_t> codes(count);
  for (std::size_t i = 0; i < count; ++i)
    codes[i] = f.width() >= 32 ? narrow::encode(narrow::product_value(seed, matrix, i), f)
                               : narrow::product_code(seed, matrix, i, f);
  return codes;
}

std::uint64_t hash_of_torch_product(const TorchProduct& r) {
  const narrow::DotModel& model = *narrow::find_dot_model(r.model);
  const auto format = [](const std::string& name) { return narrow::find_format(name).value(); };
  const narrow::Format in = r.type == "f16"    ? format("fp16")
                            : r.type == "tf32" ? format("fp32")
                            : r.type == "s8"   ? format("int8")
                                               : format(r.type);
  narrow::GemmOptions options;
  options.output = r.type == "e4m3" ? format("bf16") : r.type == "s8" ? model.accumulator.format : in;
  options.c_format = in;
  const std::vector<std::uint64_t> a = matrix_of(r.items() * r.m * r.k, r.seed, 0, in),
                                   b = matrix_of(r.items() * r.k * r.n, r.seed, 1, in),
                                   c = matrix_of(r.n, r.seed + 1000, 0, in);
  const bool linear = r.api.starts_with("linear");
  std::vector<std::uint64_t> d(r.m * r.n);
  std::uint64_t hash = 0, index = 0;
  for (std::size_t item = 0; item < r.items(); ++item) {
    const narrow::CodeMatrix x{a.data() + item * r.m * r.k, 8, r.m, r.k, r.k},
        y{b.data() + item * r.k * r.n,
          8,
          r.k,
          r.n,
          linear ? r.k : r.n,
          linear ? narrow::Layout::column_major : narrow::Layout::row_major},
        bias = r.api == "linear+bias" ? narrow::CodeMatrix{c.data(), 8, r.m, r.n, 0} : narrow::CodeMatrix{};
    gemm(model, narrow::parse_plan(r.plan), x, y, bias, narrow::MatrixView<std::uint64_t>{d.data(), r.m, r.n}, options);
    for (const std::uint64_t code : d) hash += narrow::mix_bits(code << 32 | index++);
  }
  return hash;
}

}  // namespace

TEST_CASE("golden: what validate named of torch's products gives them again") {
  const std::vector<TorchProduct> all = torch_products();
  REQUIRE(all.size() >= 300);
  // As many as a few seconds hold, of every type and entry.
  double left = 1.2e9 * test::scale();
  std::size_t replayed = 0;
  for (std::size_t n = 0; n < all.size() && left > 0; ++n) {
    const TorchProduct& r = all[n * 37 % all.size()];
    if (!r.exact || r.products() > 2e7 || narrow::find_dot_model(r.model)->is_integer() != (r.type == "s8")) continue;
    left -= r.products(), ++replayed;
    CAPTURE(r.type);
    CAPTURE(r.api);
    CAPTURE(r.m);
    CAPTURE(r.n);
    CAPTURE(r.k);
    CAPTURE(r.model);
    CAPTURE(r.plan);
    CHECK(hash_of_torch_product(r) == r.hash);
  }
  MESSAGE(replayed << " of " << all.size() << " products replayed");
  CHECK(replayed > 30 * test::scale());
}

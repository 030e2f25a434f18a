// Do products give the same bits whatever rounding mode and flush-to-zero the caller has set?
#include "dot/matrices.hpp"
#include "narrow/base/error.hpp"
#include "narrow/dot/models.hpp"
#include "support/float_environments.hpp"

using test::Digest;

namespace {

// Codes of all exponents, subnormals included; no Inf and NaN, which would hide the rest.
std::vector<std::uint64_t> codes_of(const narrow::Format& f, std::size_t count, std::uint64_t seed) {
  std::vector<std::uint64_t> codes(count);
  for (std::size_t i = 0; i < count; ++i) {
    codes[i] = test::mix(seed + i) & f.code_mask();
    if (narrow::is_nan(codes[i], f) || narrow::is_inf(codes[i], f)) codes[i] = i % f.code_mask();
  }
  return codes;
}

}  // namespace

TEST_CASE("dot: products and dot products give the same bits in every floating-point environment") {
  constexpr std::size_t m = 9, n = 11, k = 96;
  std::size_t models = 0;
  for (const narrow::DotModel& model : narrow::dot_models()) {
    if (model.is_block_scaled()) continue;
    ++models;
    const std::vector<std::uint64_t> a = codes_of(model.a.format, m * k, 1), b = codes_of(model.b.format, k * n, 2),
                                     c = codes_of(model.accumulator.format, m * n, 3);
    test::check_environments(std::string(model.name.view()).c_str(), [&](Digest& digest) {
      std::vector<std::uint64_t> d(m * n);
      const narrow::MatrixView<const std::uint64_t> va{a.data(), m, k, k}, vb{b.data(), k, n, n}, vc{c.data(), m, n, n};
      const narrow::CodeMatrix x = code_matrix(va), y = code_matrix(vb), z = code_matrix(vc);
      const narrow::MatrixView<std::uint64_t> out{d.data(), m, n, n};
      narrow::GemmOptions options;
      options.threads = 2;
      narrow::gemm(model, narrow::parse_plan("chain"), x, y, z, out, options);
      digest.add_all(d);
      digest.add(narrow::dot(model, std::span(a).first(k), std::span(b).first(k), c[0]));
      const narrow::ProductError e =
          narrow::product_error(model, x, y, z, code_matrix(out), model.accumulator.format, 0, 2);
      digest.add(e.mean_relative), digest.add(e.mean_bits_lost), digest.add(e.max_relative);
    });
  }
  CHECK(models > 100);
}

TEST_CASE("dot: the constant model of a name is that of the table and an unknown name is refused") {
  constexpr narrow::DotModel known = narrow::hardware_model("hopper.wgmma.f32.e4m3.e4m3");
  const narrow::DotModel* found = narrow::find_dot_model("hopper.wgmma.f32.e4m3.e4m3");
  REQUIRE(found != nullptr);
  CHECK(same_arithmetic(known, *found));
  CHECK(known.name.view() == found->name.view());
  for (const char* name : {"", "hopper", "hopper.wgmma.f32.e4m3", "software.fma.f32.f16.f16"})
    CHECK_THROWS_AS(static_cast<void>(narrow::hardware_model(name)), narrow::Error);
}

#include "narrow/cuda/gemm.hpp"

#include "cuda/device.hpp"
#include "cuda/device_memory.hpp"
#include "narrow/base/random.hpp"
#include "narrow/dot/gemm.hpp"
#include "narrow/golden/product_inputs.hpp"

namespace {

constexpr std::size_t m = 70, n = 67, k = 200;  // no multiple of a tile

void check_product(const char* name, const char* plan_words) {
  CAPTURE(name);
  CAPTURE(plan_words);
  const narrow::DotModel* model = narrow::find_dot_model(name);
  REQUIRE(model != nullptr);
  const bool words = model->a.name == "tf32";
  const auto make = [&](int matrix, std::size_t lines, const narrow::Format& f) {
    std::vector<std::uint32_t> codes(lines * k);
    for (std::size_t i = 0; i < codes.size(); ++i) {
      codes[i] = words ? std::bit_cast<std::uint32_t>(narrow::product_value(5, matrix, i))
                       : static_cast<std::uint32_t>(narrow::product_code(5, matrix, i, f));
      if (i % 997 == 0)
        codes[i] =
            static_cast<std::uint32_t>(narrow::random_bits(1, i) & (words ? ~0u : f.code_mask()));  // a few specials
    }
    return codes;
  };
  const std::vector<std::uint32_t> a = make(0, m, model->a.format), b = make(1, n, model->b.format);
  const narrow::Plan plan = narrow::parse_plan(plan_words);
  std::vector<std::uint32_t> want(m * n);
  narrow::gemm(*model, plan, narrow::MatrixView<const std::uint32_t>{a.data(), m, k, 0, narrow::Layout::row_major},
               narrow::MatrixView<const std::uint32_t>{b.data(), k, n, 0, narrow::Layout::column_major},
               narrow::MatrixView<const std::uint32_t>{},
               narrow::MatrixView<std::uint32_t>{want.data(), m, n, 0, narrow::Layout::row_major});
  const test::OnDevice<std::uint32_t> left(a), right(b), result(want.size());
  narrow::gemm_on_device(*model, plan, m, n, k, {left.data(), 4, k, 1}, {right.data(), 4, k, 1}, nullptr, result.data(),
                         nullptr);
  CHECK(result.host() == want);
}

}  // namespace

TEST_CASE("cuda: products on the device have the bits of the host for models of every generation") {
  if (!test::has_device()) return;
  for (const char* name :
       {"hopper.wgmma.f32.f16.f16", "hopper.wgmma.f32.bf16.bf16", "hopper.wgmma.f32.tf32.tf32",
        "hopper.wgmma.f32.e4m3.e5m2", "ampere.mma.f32.f16.f16.k16", "volta.mma.f32.f16.f16.k4",
        "ada.mma.f32.e4m3.e4m3.k32", "blackwell.tcgen05.f32.e4m3.e5m2", "blackwell.tcgen05.f32.e2m1.e2m1.nvf4",
        "blackwell.tcgen05.f32.e4m3.e2m1.mxf8f6f4", "hopper.mma.s32.s8.s8.k32"})
    check_product(name, "chain");
}

TEST_CASE("cuda: plans on the device are those of the host") {
  if (!test::has_device()) return;
  for (const char* plan : {"promote:128", "split:64", "split:72", "slice:4", "chain,residue=32"})
    check_product("hopper.wgmma.f32.f16.f16", plan);
  check_product("hopper.wgmma.f32.e4m3.e4m3", "promote:128");
}

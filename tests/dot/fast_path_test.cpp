// Does the fast path of gemm() give the bits of dot()?
#include "dot/fast_path.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstring>

#include "narrow/base/random.hpp"
#include "narrow/dot/fused_lanes.hpp"
#include "support/scale.hpp"

TEST_CASE("gemm: the fast path gives the bits of dot() for every arithmetic") {
  const auto models = test::distinct_models();
  const std::uint64_t each = test::scaled(NARROW_DOT_COUNT, 10000);
  std::vector<test::Mismatches> wrong(models.size());
  std::atomic<std::uint64_t> done{0};
  const auto start = std::chrono::steady_clock::now();
  narrow::parallel_parts(models.size(), 1, 0, [&](std::size_t i, std::size_t) {
    // Where there is no fast path, enough to see that gemm() hands everything over.
    const std::uint64_t count = test::has_fast_path(*models[i]) ? each : std::min<std::uint64_t>(each, 20000);
    done += test::sweep_fast_path(*models[i], count, 1000 * i, wrong[i]);
  });
  for (std::size_t i = 0; i < models.size(); ++i) wrong[i].require_none(std::string(models[i]->name.view()));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  MESSAGE(models.size() << " arithmetics, " << done.load() << " dot products, " << seconds << " s");
}

TEST_CASE("gemm: four lanes and eight lanes give the same bits") {
  using namespace narrow;
  using Operands = detail::LaneOperands<float, std::int8_t>;
  constexpr std::size_t products = 128;
  std::uint64_t n = 0;
  const auto below = [&](std::uint64_t limit) { return random_bits(7, n++) % limit; };
  for (const char* name : {"hopper.wgmma.f32.f16.f16", "hopper.wgmma.f32.e4m3.e4m3", "hopper.wgmma.f16.f16.f16",
                           "volta.mma.f32.f16.f16.k4", "ampere.mma.f32.tf32.tf32.k8"}) {
    CAPTURE(name);
    const DotModel& model = *find_dot_model(name);
    const detail::LaneConstants constants = detail::lane_constants(model);
    for (int round = 0; round < 200; ++round) {
      // Fractions of four bits, exponents that spread, zeros; large ones make FP16 infinite.
      float a[products], b[products * detail::lane_columns];
      std::int8_t a_exponent[products], b_exponent[products * detail::lane_columns];
      const auto fill = [&](float& value, std::int8_t& exponent) {
        exponent = static_cast<std::int8_t>(static_cast<int>(below(static_cast<std::uint64_t>(2 + round % 12))) - 6 + round % 7);
        value = std::ldexp(static_cast<float>(16 + below(16)) / 16, exponent) * (below(2) == 0 ? 1.0f : -1.0f);
        if (below(16) == 0) value = 0, exponent = detail::zero_exponent<std::int8_t>;
      };
      for (std::size_t k = 0; k < products; ++k) fill(a[k], a_exponent[k]);
      for (std::size_t k = 0; k < products * detail::lane_columns; ++k) fill(b[k], b_exponent[k]);
      float four[detail::lane_columns] = {}, eight[detail::lane_columns] = {}, chosen[detail::lane_columns] = {};
      const Operands x{a, a_exponent, b, b_exponent};
      const bool finite = detail::FusedLanes<4>::chain<true>(model, constants, x, products, four);
      CHECK(detail::FusedLanes<8>::chain<true>(model, constants, x, products, eight) == finite);
      CHECK(detail::fused_chain(model, constants, x, products, chosen) == finite);
      if (!finite) continue;
      CHECK(std::memcmp(four, eight, sizeof four) == 0);
      CHECK(std::memcmp(four, chosen, sizeof four) == 0);
    }
  }
}

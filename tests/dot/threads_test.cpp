// Products on several threads: the bits of one thread. Small, so that the thread sanitizer can watch.
#include <doctest/doctest.h>

#include "dot/matrices.hpp"

TEST_CASE("gemm: the number of threads does not show in the bits") {
  for (const char* name : {"hopper.mma.f32.f16.f16.k16", "hopper.wgmma.f32.e4m3.e4m3", "hopper.mma.f16.e4m3.e4m3.k32",
                           "software.muladd.bf16.bf16.bf16", "hopper.mma.f64.f64.f64.k16", "cdna3.mfma.f32.f16.f16.k16",
                           "ampere.mma.s32.s8.s8.k32"}) {
    const narrow::DotModel* m = narrow::find_dot_model(name);
    REQUIRE(m != nullptr);
    const test::Matrices x(*m, test::make_problem(*m, test::Family::window, 40, 50, 64, 4));
    for (const char* plan : {"chain", "split:32", "streamk:7,tile=16x16x16"})
      for (const bool one_by_one : {false, true}) {
        const test::Matrix one =
            test::product(*m, narrow::parse_plan(plan), x, true, {.threads = 1, .one_by_one = one_by_one});
        for (const int threads : {2, 5}) {
          const test::Matrix many =
              test::product(*m, narrow::parse_plan(plan), x, true, {.threads = threads, .one_by_one = one_by_one});
          std::size_t different = 0;
          for (std::size_t i = 0; i < 40; ++i)
            for (std::size_t j = 0; j < 50; ++j) different += one.get(i, j) == many.get(i, j) ? 0 : 1;
          CHECK(different == 0);
        }
      }
  }
}

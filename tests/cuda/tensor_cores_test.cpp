#include "narrow/cuda/tensor_cores.hpp"

#include "cuda/device.hpp"

TEST_CASE("cuda: instructions agree with their models, fast and scalar") {
  if (!test::has_device()) return;
  for (const narrow::Instruction& i : narrow::all_instructions()) {
    CAPTURE(i.name());
    const int sm = narrow::open_device().capability;
    if (!i.runs_on(sm) || !narrow::can_check_instruction(i, sm)) continue;
    for (const bool scalar : {false, true}) {
      const narrow::GpuCheckResult result = narrow::check_instruction(i, 100'000, 3, scalar, sm);
      CAPTURE(result.first);
      CHECK(result.mismatches == 0);
    }
  }
}

TEST_CASE("cuda: all conversions and operations agree on a sample") {
  if (!test::has_device()) return;
  narrow::GpuCheckOptions options;
  options.scale = 1e-3, options.capability = narrow::open_device().capability;
  const narrow::GpuReport report = [](const narrow::GpuCheckResult& r) {
    CAPTURE(r.name);
    CAPTURE(r.first);
    CHECK(r.mismatches == 0);
  };
  narrow::check_conversions(options, report);
  narrow::check_arithmetic(options, report);
}

// The same bits on every machine, compiler and number of threads: checksums of all parameters after short runs. Whoever
// changes an order of summation or a function on purpose puts the new ones here; the failing test prints them.
#include <doctest/doctest.h>

#include "narrow/tensor/crc32.hpp"
#include "train/runs.hpp"

using namespace narrow::train;

TEST_CASE("train: short runs end in the same bits on every machine") {
  struct Row {
    const char* recipe;
    std::uint32_t digits, lm, cnn;
  };
  constexpr Row rows[] = {
      {"fp32", 0x924558a0, 0x94c0f8d5, 0x1ce46ba0},
      {"fp16-amp", 0x462d374f, 0x7179155d, 0x0f98344c},
      {"bf16-pure-stochastic", 0xaa121956, 0xc7d37d8d, 0x92d8cc8b},
      {"fp8-current", 0x051259cc, 0xfcb6fc15, 0x95fe65a5},
      {"fp8-delayed", 0xa58e075b, 0xc032bbef, 0x0cacdd29},
      {"mxfp8", 0x7760ac89, 0x0e652029, 0x6eb286dd},
      {"fp16-amp-norm", 0x462d374f, 0x1f660367, 0xae5db0ce},
      {"bf16-hopper", 0x725b177c, 0xfa578d64, 0xdc92b6bc},
  };
  const auto checksum = [](const RunRequest& request) {
    Trainer trainer(request);
    while (!trainer.finished()) trainer.step();
    std::uint32_t crc = 0;
    for (const std::vector<float>& values : trainer.state().parameters)
      crc = narrow::crc32_of(crc, std::as_bytes(std::span(values)));
    return crc;
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.recipe));
    CHECK(checksum(test::digits_request(row.recipe, 8)) == row.digits);
    CHECK(checksum(test::small_lm_request(row.recipe, 4)) == row.lm);
    CHECK(checksum(test::cnn_request(row.recipe, 4)) == row.cnn);
  }
}

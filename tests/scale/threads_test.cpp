#include <doctest/doctest.h>

#include "narrow/scale/block_format.hpp"
#include "narrow/scale/quantise.hpp"
#include "support/inputs.hpp"

TEST_CASE("scale: any number of threads gives the same codes and scales and statistics") {
  const std::size_t rows = 300, cols = 700;
  std::vector<float> x(rows * cols);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = test::spread<float>(i, *narrow::find_format("fp16"));
  for (const char* name : {"mxfp8_e4m3", "nvfp4", "fp8_128x128", "fp8_row_e4m3", "fp8_tensor_e4m3", "mxint8"}) {
    CAPTURE(name);
    const narrow::BlockFormat f = narrow::require_block_format(name);
    const narrow::Quantised one = narrow::quantise(x, rows, cols, f, 1);
    const float amax = narrow::tensor_amax(x, f, 1);
    const auto statistics = narrow::block_format_statistics(x, rows, cols, f, amax, 1, 1);
    for (const int threads : {2, 3, 8}) {
      const narrow::Quantised many = narrow::quantise(x, rows, cols, f, threads);
      CHECK(many.codes == one.codes);
      std::size_t differ = 0;
      for (std::size_t b = 0; b < one.scales.size(); ++b)
        differ += test::bits(one.scales[b]) != test::bits(many.scales[b]) ? 1 : 0;
      CHECK(differ == 0);
      const std::vector<float> a = narrow::dequantise(one, 1), b = narrow::dequantise(many, threads);
      for (std::size_t i = 0; i < a.size(); ++i) differ += test::bits(a[i]) != test::bits(b[i]) ? 1 : 0;
      CHECK(differ == 0);
      const auto other = narrow::block_format_statistics(x, rows, cols, f, amax, 1, threads);
      CHECK(test::bits(other.elements.squared_error) == test::bits(statistics.elements.squared_error));
    }
  }
}

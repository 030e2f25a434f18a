// Do block formats, scalers and traces give the same bits whatever rounding mode and flush-to-zero the caller has set?
#include "narrow/scale/block_format.hpp"
#include "narrow/scale/gradient_log.hpp"
#include "narrow/scale/quantise.hpp"
#include "narrow/scale/trace.hpp"
#include "support/float_environments.hpp"
#include "support/inputs.hpp"

using test::Digest;

TEST_CASE("scale: block formats give the same bits in every floating-point environment") {
  const narrow::Format fp16 = narrow::find_format("fp16").value();
  constexpr std::size_t rows = 70, cols = 1000;
  std::vector<float> data(rows * cols);
  for (std::size_t i = 0; i < data.size(); ++i) {
    data[i] = test::spread<float>(2 * i + 1, fp16);
    if (i % 97 == 0) data[i] = test::from_bits<float>(test::mix(i) & 0x807FFFFF);  // subnormal
    if (!(std::abs(data[i]) < 1e30f)) data[i] = 3.0f;
  }
  for (const narrow::BlockFormatRow& row : narrow::block_format_table())
    for (const std::string_view rule : narrow::rules_for(row.format)) {
      const std::string name = std::string(row.name) + ":" + std::string(rule);
      test::check_environments(name.c_str(), [&](Digest& d) {
        const narrow::BlockFormat f = narrow::require_block_format(name);
        const narrow::Quantised q = narrow::quantise(data, rows, cols, f, 3);
        d.add_all(q.codes), d.add_all(q.scales), d.add(q.tensor_scale), d.add_all(narrow::dequantise(q));
        const float amax = narrow::tensor_amax(data, f);
        std::vector<std::uint8_t> codes(data.size());
        std::vector<float> scales(q.scales.size());
        narrow::quantise_plainly(std::span(data).first(10 * cols), 10, cols, f, amax, std::span(codes).first(10 * cols),
                                 std::span(scales).first(narrow::grid_rows(f, 10) * narrow::grid_cols(f, cols)));
        d.add_all(codes), d.add_all(scales);
        const narrow::BlockFormatStatistics s = narrow::block_format_statistics(data, rows, cols, f, amax, 0.1f);
        d.add(s.elements.underflow), d.add(s.elements.overflow), d.add(s.elements.squared_error),
            d.add(s.elements.signal);
      });
    }
}

TEST_CASE("scale: policies give the same scales in every floating-point environment") {
  const std::vector<float> pieces = {1e-3f, 2e-3f, 5e-3f, 1e-40f};
  test::check_environments("traces", [&](Digest& d) {
    for (const auto model :
         {narrow::GradientModel::growth, narrow::GradientModel::decay, narrow::GradientModel::spikes}) {
      narrow::GradientLog log;
      log.amax = narrow::model_amax(model, pieces, 300, 1);
      for (std::int64_t i = 0; i < 300; ++i) log.steps.push_back(i);
      d.add_all(log.amax);
      const narrow::OverflowModel overflow(log);
      for (const narrow::ScalerRow& row : narrow::scaler_table()) {
        const narrow::Trace trace = run_trace(*narrow::make_scaler(row.name).scaler, overflow);
        for (const narrow::TraceStep& s : trace.steps) d.add(s.scale), d.add(s.skipped);
        d.add(trace.clipped);
      }
    }
  });
}

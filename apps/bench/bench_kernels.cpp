// The kernels of the library that `narrow bench` times.
#include <bit>
#include <memory>
#include <utility>

#include "bench/bench.hpp"
#include "narrow/array/array.hpp"
#include "narrow/array/histogram.hpp"
#include "narrow/array/statistics.hpp"
#include "narrow/special/special.hpp"
#include "narrow/text/text.hpp"

namespace app {
namespace {

using narrow::Cast;
using narrow::Format;
using narrow::FormatCast;
using narrow::Overflow;
using narrow::Rounding;

// Output buffers, shared by all kernels of one input.
struct Buffers {
  std::vector<float> floats;
  std::vector<std::uint8_t> bytes;
  std::vector<std::uint16_t> halves;
};

class List {
 public:
  List(const BenchInput& input, std::vector<BenchKernel>& kernels)
      : input_(input), kernels_(kernels), buffers_(std::make_shared<Buffers>()) {
    buffers_->floats.resize(input.values.size());
    buffers_->bytes.resize(input.values.size());
    buffers_->halves.resize(input.values.size());
  }

  void round(const char* name, const Cast& cast) {
    const Format f = narrow::require_format(name);
    add("round", name, cast, 8, [=, b = buffers_, in = std::span<const float>(input_.values)](int threads) {
      narrow::round_array(in, b->floats, f, cast, 1, threads);
    });
  }
  void encode(const char* name, const Cast& cast) {
    const Format f = narrow::require_format(name);
    const bool byte = f.width() <= 8;
    add("encode", name, cast, byte ? 5 : 6, [=, b = buffers_, in = std::span<const float>(input_.values)](int threads) {
      if (byte) narrow::encode_array(in, f, cast, b->bytes, 1, threads);
      else narrow::encode_array(in, f, cast, b->halves, 1, threads);
    });
  }
  // The codes of this input, so that specials occur as often as they do.
  void decode(const char* name) {
    const Format f = narrow::require_format(name);
    const auto in = std::span<const float>(input_.values);
    if (f.width() <= 8) {
      const auto codes = std::make_shared<std::vector<std::uint8_t>>(in.size());
      narrow::encode_array(in, f, {}, *codes);
      add("decode", name, {}, 5,
          [=, b = buffers_](int threads) { narrow::decode_array(*codes, f, b->floats, threads); });
    } else {
      const auto codes = std::make_shared<std::vector<std::uint16_t>>(in.size());
      narrow::encode_array(in, f, {}, *codes);
      add("decode", name, {}, 6,
          [=, b = buffers_](int threads) { narrow::decode_array(*codes, f, b->floats, threads); });
    }
  }
  void statistics(const char* label, const std::vector<const char*>& names) {
    std::vector<FormatCast> formats;
    for (const char* name : names) formats.push_back({narrow::require_format(name)});
    add("statistics", label, {}, 4, [=, in = std::span<const float>(input_.values)](int threads) {
      (void)narrow::statistics(in, formats, 1, 0, threads);
    });
  }
  void histogram() {
    add("histogram", "", {}, 4,
        [in = std::span<const float>(input_.values)](int threads) { (void)narrow::exponent_histogram(in, threads); });
  }
  // Of arguments from 1/16 to 4, with the mantissas of this input.
  void special(const char* name, narrow::Special f) {
    if (arguments_ == nullptr) {
      arguments_ = std::make_shared<std::vector<float>>(input_.values);
      for (std::size_t i = 0; i < arguments_->size(); ++i) {
        const auto word = std::bit_cast<std::uint32_t>((*arguments_)[i]);
        (*arguments_)[i] = std::bit_cast<float>((word & 0x7FFFFFu) | static_cast<std::uint32_t>(123 + i % 6) << 23);
      }
    }
    add("special", name, {}, 8,
        [=, b = buffers_, in = arguments_](int threads) { narrow::special_array(f, *in, b->floats, false, threads); });
    kernels_.back().row.data += ", from 1/16 to 4";
  }

 private:
  void add(const char* kernel, const char* format, const Cast& cast, double bytes, std::function<void(int)> run) {
    BenchRow row{kernel, format, "", "", input_.values.size(), 1, input_.name};
    if (kernel != std::string("decode") && kernel != std::string("histogram") && kernel != std::string("special")) {
      row.mode = narrow::name_of(cast.rounding);
      row.overflow = narrow::name_of(cast.overflow);
    }
    kernels_.push_back({std::move(row), bytes, std::move(run)});
  }

  const BenchInput& input_;
  std::vector<BenchKernel>& kernels_;
  std::shared_ptr<Buffers> buffers_;
  std::shared_ptr<std::vector<float>> arguments_;
};

}  // namespace

std::vector<BenchKernel> library_kernels(const BenchInput& input) {
  std::vector<BenchKernel> kernels;
  List list(input, kernels);
  const Cast nearest{}, saturating{.overflow = Overflow::saturate};
  for (const char* name : {"fp16", "e4m3", "e5m2", "e3m2", "e6m9", "bf16", "tf32"}) {
    list.round(name, nearest);
    list.round(name, saturating);
  }
  for (const char* name : {"fp16", "e4m3", "bf16"}) {
    for (const Rounding mode : {Rounding::toward_zero, Rounding::up, Rounding::down, Rounding::to_odd,
                                Rounding::nearest_away, Rounding::nearest_to_zero, Rounding::stochastic})
      list.round(name, {.rounding = mode});
  }
  for (const char* name : {"fp16", "bf16", "e4m3", "e5m2", "e4m3fnuz", "e3m4", "e2m3", "e3m2", "e2m1", "e8m0", "int8"})
    list.encode(name, nearest);
  for (const char* name : {"fp16", "e4m3"}) list.encode(name, saturating);
  for (const char* name : {"fp16", "bf16", "e4m3", "e5m2", "e2m1", "e8m0", "int8"}) list.decode(name);
  for (const char* name : {"fp16", "bf16", "e4m3"}) list.statistics(name, {name});
  list.statistics("six formats", {"fp16", "bf16", "e4m3", "e5m2", "e3m2", "tf32"});
  list.histogram();
  using narrow::Special;
  constexpr std::pair<const char*, Special> functions[] = {
      {"ex2", Special::sfu_ex2},     {"lg2", Special::sfu_lg2},     {"rcp", Special::sfu_rcp},
      {"rsqrt", Special::sfu_rsqrt}, {"sqrt", Special::sfu_sqrt},   {"sin", Special::sfu_sin},
      {"tanh", Special::sfu_tanh},   {"expf", Special::cuda_expf},  {"logf", Special::cuda_logf},
      {"erff", Special::cuda_erff},  {"tanhf", Special::cuda_tanhf}};
  for (const auto& [name, function] : functions) list.special(name, function);
  return kernels;
}

}  // namespace app

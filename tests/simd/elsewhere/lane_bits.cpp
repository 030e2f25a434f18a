// Prints a hash of what each kernel in lanes gives. For machines that cannot run the tests themselves: two of them must
// print the same lines.
#include <cmath>
#include <cstdio>
#include <limits>

#include "narrow/array/array.hpp"
#include "narrow/array/histogram.hpp"
#include "narrow/array/statistics.hpp"
#include "narrow/base/random.hpp"
#include "narrow/dot/gemm.hpp"
#include "narrow/dot/plan.hpp"
#include "narrow/format/format_table.hpp"
#include "narrow/scale/quantise.hpp"
#include "narrow/simd/target.hpp"
#include "narrow/special/special.hpp"

namespace {

using namespace narrow;

class Hash {  // FNV-1a
 public:
  template <class T>
  void add(std::span<const T> values) {
    for (const std::byte b : std::as_bytes(values)) word_ = (word_ ^ static_cast<std::uint64_t>(b)) * 0x100000001B3u;
  }
  void add(auto... values) { (add(std::span<const decltype(values)>(&values, 1)), ...); }
  void say(std::string_view kernel, std::string_view what) const {
    std::printf("%.*s %.*s %016llx\n", static_cast<int>(kernel.size()), kernel.data(), static_cast<int>(what.size()),
                what.data(), static_cast<unsigned long long>(word_));
  }

 private:
  std::uint64_t word_ = 0xCBF29CE484222325u;
};

// Any word, or one with an exponent near that of one, which every format rounds. From none to all of the mantissa's
// bits are zero, so that ties are as frequent as all else. The length fits no lanes.
constexpr std::size_t size = 8209;
std::vector<float> floats(bool is_any) {
  std::vector<float> x(size);
  for (std::size_t i = 0; i < size; ++i) {
    const auto word = static_cast<std::uint32_t>(random_bits(3, i)) & ~0u << i % 24;
    x[i] = std::bit_cast<float>(is_any ? word : (word & 0x87FFFFFFu) + 0x3C000000u);
  }
  return x;
}

// Which NaN a value is, is the machine's own affair; its code is not.
void one_nan(std::span<float> x) {
  for (float& v : x)
    if (std::isnan(v)) v = std::numeric_limits<float>::quiet_NaN();
}

template <class U>
void codes_of(Hash& encoded, Hash& decoded, std::span<const float> x, const Format& f, const Cast& cast) {
  std::vector<U> codes(size);
  std::vector<float> back(size);
  encode_array(x, f, cast, codes, 5);
  encoded.add(std::span<const U>(codes));
  decode_array(codes, f, back);
  one_nan(back);
  decoded.add(std::span<const float>(back));
}

void casts() {
  const std::vector<float> inputs[] = {floats(true), floats(false)};
  for (const NamedFormat& named : format_table) {
    const Format& f = named.format;
    if (f.width() > 32) continue;
    Hash rounded, encoded, decoded, counted;
    for (int rounding = 0; rounding <= static_cast<int>(Rounding::stochastic); ++rounding)
      for (int overflow = 0; overflow <= static_cast<int>(Overflow::saturate_finite); ++overflow)
        for (int subnormals = 0; subnormals <= static_cast<int>(Subnormals::flush_inputs); ++subnormals)
          for (const std::vector<float>& x : inputs) {
            const Cast cast{.rounding = static_cast<Rounding>(rounding),
                            .overflow = static_cast<Overflow>(overflow),
                            .subnormals = static_cast<Subnormals>(subnormals)};
            std::vector<float> y(size);
            round_array(x, y, f, cast, 5);
            one_nan(y);
            rounded.add(std::span<const float>(y));
            if (f.width() <= 8) codes_of<std::uint8_t>(encoded, decoded, x, f, cast);
            else if (f.width() <= 16) codes_of<std::uint16_t>(encoded, decoded, x, f, cast);
            else codes_of<std::uint32_t>(encoded, decoded, x, f, cast);
            const FormatCast to{f, cast};
            const Statistics s = statistics(x, {&to, 1}, 1, 5);
            counted.add(s.input.count, s.input.zeros, s.input.nan, s.input.inf, s.input.amax, s.input.min_nonzero,
                        s.input.sum);
            const FormatStatistics& g = s.formats[0];
            counted.add(g.underflow, g.subnormal, g.overflow, g.saturated, g.not_finite, g.compared, g.squared_error,
                        g.signal, g.max_relative_error);
          }
    rounded.say("round", named.name), encoded.say("encode", named.name), decoded.say("decode", named.name);
    counted.say("statistics", named.name);
  }
  for (const std::vector<float>& x : inputs) {
    Hash hash;
    const ExponentHistogram h = exponent_histogram(x);
    hash.add(std::span<const SignCounts>(h.binades));
    hash.add(h.zero, h.subnormal, h.inf, h.nan);
    hash.say("histogram", &x == inputs ? "any" : "near");
  }
}

void blocks() {
  constexpr std::size_t rows = 37, cols = 221;  // 8,177 of the floats
  const std::vector<float> x = floats(false);
  for (const BlockFormatRow& row : block_format_table()) {
    const Quantised q = quantise(std::span(x).first(rows * cols), rows, cols, row.format);
    Hash hash;
    hash.add(std::span<const std::uint8_t>(q.codes)), hash.add(std::span<const float>(q.scales)),
        hash.add(q.tensor_scale);
    const std::vector<float> back = dequantise(q);
    hash.add(std::span<const float>(back));
    hash.say("quantise", row.name);
  }
}

// Codes with exponents near one and all bits of a double, so that sums in FP64 round their products too.
void products() {
  constexpr std::size_t m = 9, n = 13, k = 96;
  for (const DotModel& model : dot_models()) {
    if (model.is_block_scaled() || model.is_integer()) continue;
    const auto operand = [&](const Format& f, std::uint64_t seed) {
      std::vector<std::uint64_t> codes(std::max(m, n) * k);
      for (std::size_t i = 0; i < codes.size(); ++i)
        codes[i] = encode(std::bit_cast<double>((random_bits(seed, i) & 0x803FFFFFFFFFFFFFu) + 0x3FE0000000000000u), f,
                          {.overflow = Overflow::saturate});
      return codes;
    };
    const auto a = operand(model.a.format, 1), b = operand(model.b.format, 2);
    std::vector<std::uint64_t> d(m * n);
    gemm(model, parse_plan("chain"), MatrixView<const std::uint64_t>{a.data(), m, k},
         MatrixView<const std::uint64_t>{b.data(), k, n}, MatrixView<const std::uint64_t>{},
         MatrixView<std::uint64_t>{d.data(), m, n});
    Hash hash;
    hash.add(std::span<const std::uint64_t>(d));
    hash.say("product", model.name);
  }
}

void specials() {
  // From 1/16 to 4, where lanes do all of it; with either sign they do what takes both.
  std::vector<float> middle(size), signs(size);
  for (std::size_t i = 0; i < size; ++i) {
    const auto word = static_cast<std::uint32_t>(random_bits(4, i));
    middle[i] = std::bit_cast<float>((word & 0x7FFFFFu) | (123 + (word >> 23) % 6) << 23);
    signs[i] = word >> 31 != 0 ? -middle[i] : middle[i];
  }
  const std::vector<float> inputs[] = {floats(true), floats(false), middle, signs};
  for (int f = 0; f <= static_cast<int>(Special::cuda_erff); ++f)
    for (const std::vector<float>& x : inputs)
      for (const bool ftz : {false, true}) {
        std::vector<float> y(size);
        special_array(static_cast<Special>(f), x, y, ftz);
        Hash hash;
        hash.add(std::span<const float>(y));
        hash.say("special", std::to_string(f));
      }
}

}  // namespace

int main() {
  std::fprintf(stderr, "%s\n", std::string(simd::name_of(simd::current_target())).c_str());
  casts(), blocks(), products(), specials();
}

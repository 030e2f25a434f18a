// Statements about what formats hold: ranges, digits, single numbers.
#include <algorithm>

#include "analysis/claims/claims.hpp"
#include "analysis/recordings/gradients.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/round/named_cast.hpp"
#include "narrow/round/round_to.hpp"

namespace analysis {
namespace {

using namespace narrow;

// log10 of the largest over the smallest positive value.
double decades_of(const Format& f) { return std::log10(largest(f)) - std::log10(smallest_positive(f)); }

double relative_error(double x, const Format& f) { return std::fabs(round_to(x, f) - x) / x; }

Measurement e4m3_reach(const Study&) {
  const std::pair<const char*, Format> readings[] = {
      {"OCP", e4m3}, {"IEEE-style", "e4m3ieee"_fmt}, {"fnuz", "e4m3fnuz"_fmt}};
  std::string text;
  std::size_t first = 0, second = 0;
  for (const auto& [name, f] : readings) {
    text += (text.empty() ? "" : ", ") + std::string(name) + " " + digits(largest(f));
    first += largest(f) == 240, second += largest(f) == 448;
  }
  // Each number is right for the readings that have it.
  return {"largest value by reading: " + text, first + second == std::size(readings) && first > 0 && second > 0
                                                   ? judge_cases(first, std::size(readings))
                                                   : judge_parts(first + second, std::size(readings))};
}

std::size_t values_in_binade(const Format& f) {
  std::size_t count = 0;
  for (Code code = 0; code <= f.max_magnitude(); ++code) count += decode(code, f) >= 1 && decode(code, f) < 2;
  return count;
}

Measurement e5m2_reach(const Study&) {
  const std::size_t a = values_in_binade(e4m3), b = values_in_binade(e5m2);
  return {"E5M2 reaches " + digits(largest(e5m2), 5) + "; values in [1, 2): E4M3 " + std::to_string(a) + ", E5M2 " +
              std::to_string(b),
          judge_parts((largest(e5m2) == 57344) + (a == 8) + (b == 4), 3)};
}

// p bits of significand are p log10 2 decimal digits.
Measurement decimal_digits(const Study&) {
  struct Said {
    const char* name;
    Format format;
    double digits;
  };
  constexpr Said said[] = {{"FP32", "fp32"_fmt, 7.2}, {"TF32", "tf32"_fmt, 3.3}, {"FP16", fp16, 3.3},
                           {"BF16", bf16, 2.4},       {"E4M3", e4m3, 1.0},       {"E5M2", e5m2, 0.6}};
  std::string text;
  std::size_t right = 0;
  for (const Said& s : said) {
    const double measured = s.format.significand_bits() * std::log10(2.0);
    right += judge_number(s.digits, measured, 0.1) == Verdict::holds;
    text += (text.empty() ? "" : ", ") + std::string(s.name) + " " + narrow::report::fixed_text(measured, 2);
  }
  return {"(m + 1) log10 2: " + text + "; " + std::to_string(right) + " of 6 as said",
          judge_parts(right, std::size(said))};
}

// What is left of the values of one binade, 1000 of them evenly spaced, which the formats do not share.
std::string left_of_binade(int e, const Cast& cast) {
  constexpr int count = 1000;
  double kept = 0, error = 0;
  for (int i = 0; i < count; ++i) {
    const double x = std::ldexp(1 + (i + 0.5) / count, e), y = round_to(x, fp16, cast);
    kept += y != 0, error += std::fabs(y - x) / x;
  }
  return share(kept / count) + ", " + percent_text(error / count, 2);
}

// The number is that of the smallest normal value, but the statement is about what becomes of smaller ones: it is true
// of the systems that flush them.
Measurement fp16_floor(const Study& study) {
  const auto below = static_cast<std::int64_t>(encode(smallest_normal(fp16), fp16)) - 1;
  std::size_t flushing = 0;
  const char* systems[] = {"cuda", "torch"};
  for (const char* system : systems) flushing += round_to(0x1p-20, fp16, named_cast(system, fp16)) == 0;
  std::string text = "smallest normal " + digits(smallest_normal(fp16)) + ", with " + count_text(below) +
                     " positive values below it, down to " + digits(smallest_positive(fp16)) + "; " +
                     std::to_string(flushing) + " of " + std::to_string(std::size(systems)) +
                     " systems flush them; stay non-zero and mean error by binade, kept: ";
  for (const int e : {-15, -20, -24, -25, -26})
    text += power_text(std::ldexp(1.0, e)) + " " + left_of_binade(e, {}) + "; ";
  constexpr Cast flush{.subnormals = Subnormals::flush_results};
  text += "flushed: 2^-15 " + left_of_binade(-15, flush) + "; 2^-20 " + left_of_binade(-20, flush);
  if (study.recording) {
    ExponentHistogram all;
    for (const RecordedPass* p : plain_passes(*study.recording)) all.merge(from_pass(*p).all);
    double small = static_cast<double>(all.subnormal.total()), kept = 0;
    for (int e = ExponentHistogram::min_exponent; e < fp16.min_exponent(); ++e) {
      const auto n = static_cast<double>(all.binade(e).total());
      small += n;
      // [2^-25, 2^-24) rounds up to the smallest subnormal, but for its first value.
      if (e >= fp16.min_quantum_exponent() - 1) kept += n;
    }
    text += "; of the recorded gradients below the smallest normal " + share(kept / std::max(small, 1.0)) +
            " stay non-zero where subnormals are kept";
  }
  return {text, judge_parts(flushing, std::size(systems))};
}

// Powers of ten: an end is right when its order of magnitude is.
Measurement fp16_span(const Study&) {
  const double low = smallest_positive(fp16), high = largest(fp16);
  const bool low_right = std::floor(std::log10(low)) == -5, high_right = std::floor(std::log10(high)) == 4;
  return {digits(low) + " to " + digits(high, 5) + " (normal from " + digits(smallest_normal(fp16)) + ")",
          judge_parts(low_right + high_right, 2)};
}

Measurement scaled_tiny(const Study&) {
  const double x = 1e-7, product = std::ldexp(x, 15);
  return {"1e-7 * 2^15 = " + digits(product, 4) + "; and 1e-7 itself is " + digits(round_to(x, fp16)) +
              " in FP16, an error of " + share(relative_error(x, fp16)),
          judge_number(3.3, product, 0.1)};
}

Measurement fp16_decades(const Study&) {
  const int binades = fp16.max_exponent() - fp16.min_quantum_exponent() + 1;
  return {std::to_string(binades) + " binades, " + fixed_text(decades_of(fp16), 2) + " decades",
          judge_number(24, decades_of(fp16), 1)};
}

// Zero without the scale, not zero with it.
Measurement exercise(const Study& study) {
  const double plain = round_to(study.gradient, fp16), scaled = study.gradient * study.scale,
               kept = round_to(scaled, fp16);
  const std::string state = kept == 0 ? "zero" : kept < smallest_normal(fp16) ? "subnormal" : "normal";
  return {digits(study.gradient) + " becomes " + digits(plain) + "; times " + power_text(study.scale) + " it is " +
              digits(scaled) + ", in FP16 " + digits(kept) + " (" + state + ", error " +
              share(relative_error(scaled, fp16)) + ")",
          judge_parts((plain == 0) + (kept != 0), 2)};
}

// BF16 and FP32: the same exponents; the last subnormals differ.
Measurement bf16_range(const Study&) {
  constexpr Format fp32 = "fp32"_fmt;
  const bool exponents = bf16.min_exponent() == fp32.min_exponent() && bf16.max_exponent() == fp32.max_exponent();
  const double between = 0x1.fffp127;  // an FP32 value beyond the largest BF16
  const bool all_fit = std::isfinite(round_to(between, bf16)) && smallest_positive(bf16) == smallest_positive(fp32);
  return {"largest " + digits(largest(bf16), 4) + " against " + digits(largest(fp32), 4) + ", smallest normal " +
              digits(smallest_normal(bf16)) + " both, smallest subnormal " + digits(smallest_positive(bf16)) +
              " against " + digits(smallest_positive(fp32)) + "; " + digits(between, 6) + " is Inf in BF16",
          judge_parts(exponents + all_fit, 2)};
}

Measurement tf32_width(const Study&) {
  constexpr Format tf32 = "tf32"_fmt;
  return {std::to_string(tf32.width()) + " bits: 1 sign, " + std::to_string(tf32.exponent_bits) + " exponent, " +
              std::to_string(tf32.mantissa_bits) + " mantissa; stored in 32",
          judge_number(19, tf32.width(), 1)};
}

}  // namespace

Claims format_claims() {
  return {
      {1, "001, 002", "E4M3 ends at 240 (one text) or near 448 (another).", e4m3_reach,
       "narrow formats e4m3 e4m3ieee e4m3fnuz"},
      {2, "001", "E5M2 ends at 57344; E4M3 has 8 values between powers of two, E5M2 has 4.", e5m2_reach,
       "narrow formats e4m3 e5m2 --card -o card.html"},
      {3, "001", "Decimal digits: FP32 7.2, TF32 and FP16 3.3, BF16 2.4, E4M3 1.0, E5M2 0.6.", decimal_digits,
       "narrow formats fp32 tf32 fp16 bf16 e4m3 e5m2"},
      {4, "002", "FP16 holds no gradient below about 6e-5: smaller ones become zero.", fp16_floor,
       "narrow show 6e-5 1e-6 1e-7 2e-8 --formats fp16 --explain"},
      {5, "003", "FP16 spans 1e-5 to 1e4.", fp16_span, "narrow formats fp16"},
      {6, "003", "A gradient of 1e-7 times 2^15 is 3.3.", scaled_tiny,
       "narrow show 1e-7 3.2768e-3 --formats fp16 --explain"},
      {7, "004", "FP16 spans about 24 orders of magnitude.", fp16_decades, "narrow formats fp16"},
      {29, "004", "Exercise: such a small gradient is lost in FP16, and a loss scale saves it.", exercise,
       "narrow show 1e-8 1.024e-5 --formats fp16 --explain"},
      {30, "002", "BF16 has the range of FP32, so values convert without a thought.", bf16_range,
       "narrow show 0x1.fffp127 1e-45 --formats fp32,bf16"},
      {31, "003", "TF32 is a 32-bit type of which 19 bits count.", tf32_width, "narrow formats tf32"},
  };
}

}  // namespace analysis

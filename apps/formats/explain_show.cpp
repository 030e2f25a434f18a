#include "formats/explain_show.hpp"

#include <algorithm>
#include <cmath>

#include "cli/explanation.hpp"
#include "cli/limits.hpp"
#include "cli/number_text.hpp"
#include "cli/terminal.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/text/binary_text.hpp"
#include "narrow/text/exact_sum.hpp"
#include "narrow/text/text.hpp"

namespace app {
namespace {

using narrow::Cast;
using narrow::Code;
using narrow::ExactNumber;
using narrow::Format;
using narrow::NumberKind;
using narrow::Rounding;

std::string plural(const std::string& count, const char* what) {
  return count + " " + what + (count == "1" ? "" : "s");
}

std::string bits_text(Code code, int high, int count) {
  std::string bits;
  for (int i = high; i > high - count; --i) bits += (code >> i & 1) != 0 ? '1' : '0';
  return bits;
}

std::string fields_text(const Format& f) {
  if (f.is_integer())
    return std::to_string(f.width()) + "-bit integer, " + (f.has_sign ? "two's complement" : "unsigned");
  return std::string(f.has_sign ? "1 sign bit, " : "no sign bit, ") +
         plural(std::to_string(f.exponent_bits), "exponent bit") + ", " +
         plural(std::to_string(f.mantissa_bits), "mantissa bit") + ", bias " + std::to_string(f.bias);
}

// "2^-14 (6.1e-05)"; the decimal only where it helps.
std::string power_with_value(int exponent) {
  if (exponent >= 0 && exponent <= 16) return std::to_string(1ll << exponent);
  return narrow::binade_text(exponent) + " (" + digits_text(std::ldexp(1.0, exponent), 3) + ")";
}

// "1639 * 2^-14 = 0.10003662109375", or by a few digits where the exact decimal is long.
std::string steps_text(std::uint64_t steps, int quantum) {
  const std::string exact = narrow::binary_text(narrow::exact_quanta(static_cast<std::int64_t>(steps), quantum), 24);
  const bool plain = exact.find_first_of("^x") == std::string::npos;
  const double near = std::ldexp(static_cast<double>(steps), quantum);
  return std::to_string(steps) + " * " + narrow::binade_text(quantum) +
         (plain ? " = " + exact : " (" + digits_text(near, 4) + ")");
}

// Where |x| stands on the ladder of a format: |x| = (kept + fraction) * 2^quantum with 0 <= fraction < 1.
struct Place {
  int binade = 0;          // floor(log2 |x|)
  int quantum = 0;         // exponent of one step here
  std::uint64_t kept = 0;  // whole steps; of the largest value when |x| is beyond it
  double fraction = 0;     // of the next step
  bool exact = false, tie = false;
  bool beyond = false;      // above the largest finite value
  bool far_beyond = false;  // at or above the step that would follow it
  bool below = false;       // under the smallest value of a format that has no zero
};

ExactNumber magnitude_of(ExactNumber x) {
  x.negative = false;
  return x;
}

// x: finite and not zero.
Place place_of(const ExactNumber& x, const Format& f) {
  Place p;
  const narrow::Exact bits = narrow::leading_bits(x);
  p.binade = bits.exponent + narrow::bit_length(bits.significand) - 1;
  p.quantum = f.is_integer() ? f.min_quantum_exponent()
                             : std::clamp(p.binade, f.min_exponent(), f.max_exponent()) - f.mantissa_bits;
  const bool negative = x.negative && f.has_sign;
  ExactNumber magnitude = magnitude_of(x);
  const ExactNumber top = magnitude_of(narrow::exact_number(f.max_code(negative), f));
  p.beyond = narrow::compare(magnitude, top) > 0;
  p.below = !f.has_zero && narrow::compare(magnitude, narrow::exact_quanta(1, f.min_exponent())) < 0;
  // A format without signs sees the magnitude alone.
  const Cast cut{.rounding = narrow::Rounding::toward_zero, .overflow = narrow::Overflow::saturate};
  magnitude.negative = negative;
  const Code floor = narrow::round_number(magnitude, f, cut);
  const narrow::Unpacked u = narrow::unpack(floor, f);
  p.kept = u.is_zero() ? 0 : u.significand;
  narrow::ExactSum next;
  next.add(false, narrow::U128{p.kept} + 1, p.quantum);
  p.far_beyond = p.beyond && narrow::compare(magnitude_of(magnitude), next.value()) >= 0;
  p.exact = narrow::compare(magnitude, narrow::exact_number(floor, f)) == 0;
  p.fraction = std::fabs(narrow::ulp_error(magnitude, floor, f));
  narrow::ExactSum middle;
  middle.add(false, 2 * narrow::U128{p.kept} + 1, p.quantum - 1);
  p.tie = narrow::compare(magnitude_of(magnitude), middle.value()) == 0;
  return p;
}

// Why this mode moved up, or did not.
std::string decision_text(const CastCase& c, const Place& p, bool up) {
  const std::string share = digits_text(p.fraction, 4), to = up ? "away from zero" : "toward zero";
  const std::string chosen = std::to_string(p.kept + (up ? 1 : 0));
  const bool odd = (p.kept & 1) != 0, to_odd = c.cast.rounding == Rounding::to_odd;
  if (c.target.format.ties_to_even_code() && (to_odd || (c.cast.rounding == Rounding::nearest_even && p.tie)))
    return std::string(to_odd ? "to odd" : "exactly half way between two neighbours") +
           ": of powers of two the code tells, and that of " + chosen + " is " + (to_odd ? "odd" : "even");
  switch (c.cast.rounding) {
    case Rounding::nearest_even:
      if (p.tie)
        return "exactly half way between two neighbours: the tie goes to the even one, and of " +
               std::to_string(p.kept) + " and " + std::to_string(p.kept + 1) + " that is " + chosen;
      break;
    case Rounding::nearest_away:
      if (p.tie) return "exactly half way: this mode takes the larger magnitude, " + chosen;
      break;
    case Rounding::nearest_to_zero:
      if (p.tie) return "exactly half way: this mode takes the smaller magnitude, " + chosen;
      break;
    case Rounding::toward_zero: return "toward zero: what is left over is cut, " + chosen + " remains";
    case Rounding::up:
    case Rounding::down:
      return std::string(c.cast.rounding == Rounding::up ? "up" : "down") + ": for a " +
             (c.number.negative ? "negative" : "positive") + " number that is " + to + ", to " + chosen;
    case Rounding::to_odd:
      return "to odd: " + std::to_string(p.kept) + " is " +
             (odd ? "odd and stays" : "even, so the odd neighbour is taken") + ": " + chosen;
    case Rounding::stochastic: {
      const int n = c.cast.random_bits;
      const std::uint64_t random = c.random & narrow::low_mask(n);
      return "stochastic: up with probability " + share + "; " + std::to_string(n) + " random bits read " +
             std::to_string(random) + ", as a fraction " + digits_text(std::ldexp(static_cast<double>(random), -n), 4) +
             ", and fraction + random " + (up ? "reaches 1: up" : "stays below 1: down") + ", to " + chosen;
    }
  }
  return share + " of a step is " + (up ? "more" : "less") + " than one half: the nearer neighbour is " + chosen;
}

std::string range_sentence(const CastCase& c, const Place& p) {
  const Format& f = c.target.format;
  if (f.is_integer())
    return "an integer format has one step for all values: " + power_with_value(p.quantum) + "; it reaches from " +
           exact_text(f.max_code(true), f) + " to " + exact_text(f.max_code(), f);
  std::string text = narrow::binade_text(p.binade) + " <= |" + c.text + "| < " + narrow::binade_text(p.binade + 1) +
                     ", so its own exponent is " + std::to_string(p.binade);
  if (p.binade < f.min_exponent())
    text += "; the smallest normal value is " + power_with_value(f.min_exponent()) + ", so the exponent is held at " +
            std::to_string(f.min_exponent()) + (f.has_subnormals() ? ": subnormal, the steps no longer shrink" : "");
  else if (p.beyond) text += "; the largest value of " + c.target.name + " is " + exact_text(f.max_code(), f);
  else
    text +=
        ", which the format has (" + std::to_string(f.min_exponent()) + " to " + std::to_string(f.max_exponent()) + ")";
  return text;
}

std::string step_sentence(const Format& f, const Place& p) {
  if (f.is_integer()) return "one step is " + power_with_value(p.quantum);
  const int held = p.quantum + f.mantissa_bits;
  return plural(std::to_string(f.mantissa_bits), "mantissa bit") + ": " +
         (f.mantissa_bits == 0 ? "only powers of two, one step is " + power_with_value(p.quantum)
                               : "a binade has " + std::to_string(1ull << f.mantissa_bits) + " steps, each " +
                                     narrow::binade_text(held) + " / " + narrow::binade_text(f.mantissa_bits) + " = " +
                                     power_with_value(p.quantum));
}

std::string code_sentence(Code code, const Format& f) {
  const std::string hex = narrow::to_hex_code(code, f);
  if (narrow::is_nan(code, f) || narrow::is_inf(code, f))
    return hex + ", which stands for " +
           (narrow::is_nan(code, f)        ? "NaN"
            : narrow::is_negative(code, f) ? "-Inf"
                                           : "Inf");
  if (f.is_integer())
    return bits_text(code, f.width() - 1, f.width()) + " = " + hex + (f.has_sign ? " in two's complement" : "");
  const narrow::Unpacked u = narrow::unpack(code, f);
  const Code field = narrow::magnitude_of(code, f) >> f.mantissa_bits;
  const Code mantissa = narrow::magnitude_of(code, f) & f.mantissa_mask();
  std::string text;
  if (f.has_sign) text += "sign " + std::string(u.negative ? "1" : "0") + "; ";
  if (field == 0 && f.has_zero) text += "exponent field 0 (no implicit one); ";
  else
    text += "exponent field " + std::to_string(u.exponent + f.mantissa_bits) + " + bias " + std::to_string(f.bias) +
            " = " + std::to_string(field) + "; ";
  if (f.mantissa_bits > 0)
    text += field == 0 && f.has_zero
                ? "mantissa " + std::to_string(mantissa) + "; "
                : "mantissa " + std::to_string(u.significand) + " - " + narrow::binade_text(f.mantissa_bits) + " = " +
                      std::to_string(mantissa) + "; ";
  text += "bits";
  if (f.has_sign) text += " " + bits_text(code, f.width() - 1, 1);
  text += " " + bits_text(code, f.exponent_bits + f.mantissa_bits - 1, f.exponent_bits);
  if (f.mantissa_bits > 0) text += " " + bits_text(code, f.mantissa_bits - 1, f.mantissa_bits);
  return text + " = " + hex;
}

std::string error_sentence(const CastCase& c) {
  const Format& f = c.target.format;
  const double ulp = narrow::ulp_error(c.number, c.code, f);
  if (std::isnan(ulp)) return "a NaN has no error";
  if (std::isinf(ulp)) return "infinite";
  if (ulp == 0) return "none: " + c.target.name + " holds this number exactly";
  std::string text = exact_text(c.code, f) + " - " + c.text + " is " + digits_text(ulp, 4) + " steps (ulp)";
  constexpr Format fp64 = narrow::operator""_fmt("fp64", 4);
  const double x = narrow::decode(narrow::round_number(c.number, fp64), fp64);
  if (x != 0 && std::isfinite(x))
    text += ", a relative error of " + digits_text(std::fabs(narrow::decode(c.code, f) - x) / std::fabs(x), 3);
  return text;
}

void explain_overflow(Explanation& e, const CastCase& c, const Place& p) {
  const Format& f = c.target.format;
  const bool negative = c.number.negative && f.has_sign;
  narrow::ExactSum middle;
  middle.add(false, 2 * narrow::U128{p.kept} + 1, p.quantum - 1);
  e.say("range",
        "the step after the largest value, " + steps_text(p.kept + 1, p.quantum) + ", has no code" +
            (f.has_infinity() || !f.has_nan() ? "" : " of a number (it is NaN)") +
            ((f.ties_to_even_code() ? f.max_magnitude() : p.kept) % 2 == 0
                 ? "; rounding to nearest even overflows above the middle, " + narrow::binary_text(middle.value(), 24)
                 : "; rounding to nearest even overflows from the middle, " + narrow::binary_text(middle.value(), 24) +
                       ", on"));
  const bool special = narrow::is_nan(c.code, f) || narrow::is_inf(c.code, f);
  if (special)
    e.say("decision", (p.tie ? c.text + " is the middle, and of the two the even one has no code: it" : c.text) +
                          " overflows, and this cast then gives " +
                          (narrow::is_inf(c.code, f) ? "Inf" : "NaN, because the format has no Inf"));
  else if (c.code != f.max_code(negative)) e.say("decision", "this cast gives " + exact_text(c.code, f) + " here");
  else if (c.cast.overflow != narrow::Overflow::to_special)
    e.say("decision", "this cast saturates: everything beyond the largest value becomes the largest value");
  else if (!f.has_nan() && !f.has_infinity())
    e.say("decision", "the format has neither Inf nor NaN, so the largest value is all there is");
  else
    e.say("decision", p.far_beyond ? "this rounding mode never leaves the finite values: the largest one"
                                   : decision_text(c, p, false));
}

// The ordinary case: a finite number that is not zero.
void explain_finite(Explanation& e, const CastCase& c) {
  const Format& f = c.target.format;
  if (c.number.negative && !f.has_sign) {
    e.say("sign", c.cast.negative == narrow::Negative::to_nan
                      ? "the format has no sign bit: a negative number becomes " + narrow::to_decimal(c.code, f)
                      : "the format has no sign bit: this cast goes on with the magnitude");
    if (c.cast.negative == narrow::Negative::to_nan) return;
  }
  const Place p = place_of(c.number, f);
  e.say("binade", range_sentence(c, p));
  if (p.beyond) return explain_overflow(e, c, p);
  if (p.below)
    return e.say("decision", "the format has no zero, and its smallest value is " + power_with_value(f.min_exponent()) +
                                 ": this cast gives " + exact_text(c.code, f));
  e.say("steps", step_sentence(f, p));
  e.say("position",
        "|" + c.text + "| / " + narrow::binade_text(p.quantum) + " = " +
            (p.exact ? plural(std::to_string(p.kept), "step") + " exactly"
                     : plural(std::to_string(p.kept), "step") + " and " + digits_text(p.fraction, 4) + " of the next"));
  Cast kept = c.cast;
  kept.subnormals = narrow::Subnormals::keep;
  const Code rounded = narrow::round_number(c.number, f, kept, c.random);
  if (!p.exact) {
    const narrow::Unpacked u = narrow::unpack(rounded, f);
    narrow::ExactSum above;
    above.add(false, narrow::U128{p.kept} + 1, p.quantum);
    const bool up = narrow::compare(magnitude_of(narrow::exact_number(rounded, f)), above.value()) == 0;
    e.say("neighbours", std::string(c.number.negative ? "of the magnitude: " : "") + steps_text(p.kept, p.quantum) +
                            " and " + steps_text(p.kept + 1, p.quantum));
    e.say("decision", up || (u.is_finite() && (u.is_zero() ? 0 : u.significand) == p.kept)
                          ? decision_text(c, p, up)
                          : "this cast has a rule of its own near zero, which gives " + exact_text(rounded, f));
  }
  if (rounded != c.code)
    e.say("flush", c.cast.subnormals == narrow::Subnormals::flush_inputs
                       ? "the number is subnormal where it comes from, and this cast flushes such inputs to zero"
                       : exact_text(rounded, f) + " is subnormal, and this cast flushes subnormal results to zero");
  else if (narrow::classify(c.code, f) == narrow::ValueClass::zero)
    e.say("underflow", "the number is gone: between the smallest positive value, " +
                           power_with_value(f.min_quantum_exponent()) + ", and zero there is nothing");
}

}  // namespace

std::string explain_cast(const CastCase& asked, bool colour) {
  CastCase c = asked;
  const Format& f = c.target.format;
  Explanation e;
  e.say("format", fields_text(f) + "; specials: " + specials_text(f));
  if (c.cast.through_fp32 && c.number.kind == NumberKind::finite && !c.number.is_zero()) {
    constexpr Format fp32 = narrow::operator""_fmt("fp32", 4);
    const Code first = narrow::round_number(c.number, fp32);
    c.number = narrow::exact_number(first, fp32);
    e.say("first", "this system goes through FP32: " + c.text + " becomes " + exact_text(first, fp32));
    if (c.number.kind == NumberKind::finite) c.text = exact_text(first, fp32);
  }
  if (c.number.kind == NumberKind::nan)
    e.say("NaN", f.has_nan() ? "not a number stays not a number"
                             : "the format has no NaN: this cast gives " + exact_text(c.code, f));
  else if (c.number.kind == NumberKind::inf)
    e.say("Inf", f.has_infinity() && narrow::is_inf(c.code, f) ? "the format has an Inf: it stays"
                 : f.has_infinity()                            ? "this cast saturates: Inf becomes the largest value"
                                    : "the format has no Inf: this cast gives " + narrow::to_decimal(c.code, f));
  else if (c.number.is_zero())
    e.say("zero", f.has_zero ? "zero is a code of its own: every bit but the sign is 0"
                             : "the format has no zero: this cast gives " + exact_text(c.code, f));
  else explain_finite(e, c);
  e.say("code", code_sentence(c.code, f));
  e.say("value", exact_text(c.code, f) + " (" + std::string(narrow::name_of(narrow::classify(c.code, f))) + ")");
  c.text = asked.text, c.number = asked.number;
  e.say("error", error_sentence(c));
  return paint(asked.text + " in " + c.target.name, Colour::bold, colour) + "\n" + e.text(colour);
}

}  // namespace app

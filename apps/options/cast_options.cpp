#include "options/cast_options.hpp"

#include "narrow/format/find_format.hpp"
#include "narrow/round/named_cast.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/text.hpp"

namespace app {
namespace {

std::uint64_t parse_integer(std::string_view flag, const std::string& text, std::uint64_t least, const char* range) {
  constexpr narrow::Format any_word = narrow::operator""_fmt("fp64", 4);
  std::uint64_t value = 0;
  bool good = true;
  try {
    value = narrow::parse_code(text, any_word);
  } catch (const narrow::Error&) {
    good = false;
  }
  if (good && value >= least) return value;
  throw narrow::Error(std::string(flag) + ": " + narrow::quote(text) + " is not accepted; accepted: an integer " +
                      range);
}

void check_system(const std::string& system) {
  std::vector<std::string_view> accepted;
  std::string list;
  for (const std::string_view name : narrow::named_cast_systems) {
    if (narrow::detail::same_word(name, system)) return;
    accepted.push_back(name);
    list += (list.empty() ? "" : " ") + std::string(name);
  }
  const std::string close = narrow::did_you_mean(system, accepted);
  throw narrow::Error("--cast: unknown system " + narrow::quote(system) +
                      (close.empty() ? ";" : "; did you mean '" + close + "'?") + " accepted: " + list);
}

}  // namespace

void CastOptions::declare_rules(Arguments& arguments) {
  arguments.option("--cast", system, "SYSTEM",
                   "as that system does it: cuda, cuda-sat, cuda-nosat, torch, torch-2.13, ml_dtypes, onnx, onnx-nosat");
  arguments.option("--rounding", rounding, "MODE",
                   "nearest_even (default), nearest_away, nearest_to_zero, toward_zero, up, down, to_odd, stochastic");
  arguments.option("--overflow", overflow, "RULE", "to_special (default), saturate, saturate_finite");
  arguments.option("--subnormals", subnormals, "RULE", "keep (default), flush_results, flush_inputs");
}

void CastOptions::declare(Arguments& arguments) {
  declare_rules(arguments);
  arguments.option("--random", random, "N", "the random bits of stochastic rounding, an integer (default 0)");
  arguments.option("--random-bits", random_bits, "N", "how many of them count, 1 to 64 (default 32)");
}

void CastOptions::declare_for_arrays(Arguments& arguments) {
  declare_rules(arguments);
  random_flag_ = "--seed";
  arguments.option("--seed", random, "N",
                   "stochastic rounding: random bits from (seed, index in the tensor) (default 0)");
  arguments.option("--random-bits", random_bits, "N", "how many of them count, 1 to 64 (default 32)");
}

void CastOptions::check() const {
  if (system) check_system(*system);
  const bool stochastic = rounding && blame("--rounding", [&] { return narrow::parse_rounding(*rounding); }) ==
                                          narrow::Rounding::stochastic;
  if (overflow) blame("--overflow", [&] { return narrow::parse_overflow(*overflow); });
  if (subnormals) blame("--subnormals", [&] { return narrow::parse_subnormals(*subnormals); });
  if (!stochastic && (random || random_bits))
    throw narrow::Error(std::string(random ? random_flag_ : "--random-bits") + ": only with --rounding stochastic");
  if (random_bits && parse_integer("--random-bits", *random_bits, 1, "from 1 to 64") > 64)
    throw narrow::Error("--random-bits: " + narrow::quote(*random_bits) + " is too large; accepted: 1 to 64");
  random_value();
}

narrow::Cast CastOptions::cast_to(const narrow::Format& format) const {
  const narrow::Rounding mode = rounding ? narrow::parse_rounding(*rounding) : narrow::Rounding::nearest_even;
  narrow::Cast cast;
  if (system) cast = narrow::named_cast(*system, format, mode);
  else cast.rounding = mode;
  if (overflow) cast.overflow = narrow::parse_overflow(*overflow);
  if (subnormals) cast.subnormals = narrow::parse_subnormals(*subnormals);
  if (random_bits) cast.random_bits = static_cast<int>(parse_integer("--random-bits", *random_bits, 1, "from 1 to 64"));
  return cast;
}

std::uint64_t CastOptions::random_value() const {
  return random ? parse_integer(random_flag_, *random, 0, "from 0 to 2^64 - 1") : 0;
}

std::string CastOptions::describe() const {
  std::string text;
  const auto add = [&](const std::string& word) { text += (text.empty() ? "" : ", ") + word; };
  if (system) add("cast " + *system);
  if (rounding) add(*rounding);
  if (overflow) add(*overflow);
  if (subnormals) add(*subnormals);
  if (random) add(std::string(random_flag_ + 2) + " " + *random);
  if (random_bits) add("random bits " + *random_bits);
  return text;
}

}  // namespace app

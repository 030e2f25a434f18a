#include <doctest/doctest.h>

#include "narrow/format/find_format.hpp"
#include "narrow/text/text.hpp"
#include "support/contains.hpp"

using namespace narrow;

namespace {

std::string format_error(std::string_view name) {
  return test::error_of([&] { require_format(name); });
}

// Every enumerator up to the first value without a name, so that a new one is met here; returns how many there are.
template <class Enum, class Parse>
int check_enumerators(const Parse& parse) {
  int i = 0;
  for (; !name_of(static_cast<Enum>(i)).empty(); ++i)
    CHECK(parse(name_of(static_cast<Enum>(i))) == static_cast<Enum>(i));
  return i;
}

const std::string accepted_formats =
    " accepted: fp64 fp32 tf32 fp16 bf16 e4m3 e5m2 e4m3fnuz e5m2fnuz e4m3b11fnuz e4m3ieee e3m4 e2m3 e3m2 e2m1 e8m0 int8"
    " uint8 int4 uint4 or any eXmY (2 <= X <= 8, 1 <= Y <= 23), eXmYfn, eXmYf, eXmYfnuz, with a bias: eXmYb9fn, or "
    "P3109's binary8p3se";

}  // namespace

TEST_CASE("text: every enumerator is read back from its name with underscores or dashes and in any letter case") {
  CHECK(check_enumerators<Rounding>(parse_rounding) >= 8);
  CHECK(check_enumerators<Overflow>(parse_overflow) >= 3);
  CHECK(check_enumerators<Subnormals>(parse_subnormals) >= 3);
  CHECK(parse_rounding("nearest-to-zero") == Rounding::nearest_to_zero);
  CHECK(parse_rounding("Toward_Zero") == Rounding::toward_zero);
  CHECK(parse_overflow("to-special") == Overflow::to_special);
  CHECK(parse_subnormals("flush-inputs") == Subnormals::flush_inputs);
  CHECK(name_of(Nan::cut_payload) == "cut_payload");
  CHECK(name_of(Nan::canonical) == "canonical");
  CHECK(name_of(ValueClass::subnormal) == "subnormal");
  CHECK(name_of(ValueClass::nan) == "nan");
}

TEST_CASE("text: the usual short names of rounding modes are accepted") {
  for (const char* name : {"rne", "rn", "RNE"}) CHECK(parse_rounding(name) == Rounding::nearest_even);
  CHECK(parse_rounding("rna") == Rounding::nearest_away);
  CHECK(parse_rounding("rz") == Rounding::toward_zero);
  for (const char* name : {"ru", "rp"}) CHECK(parse_rounding(name) == Rounding::up);
  for (const char* name : {"rd", "rm"}) CHECK(parse_rounding(name) == Rounding::down);
  CHECK(parse_rounding("ro") == Rounding::to_odd);
  CHECK(parse_rounding("sr") == Rounding::stochastic);
}

TEST_CASE("text: an unknown enumerator is an error with a guess and the list") {
  const std::string roundings =
      " accepted: nearest_even (rne rn) nearest_away (rna) nearest_to_zero toward_zero (rz) up (ru rp) down (rd rm)"
      " to_odd (ro) stochastic (sr)";
  CHECK(test::error_of([] { parse_rounding("nearest"); }) == "unknown rounding 'nearest';" + roundings);
  CHECK(test::error_of([] { parse_rounding("towrd-zero"); }) ==
        "unknown rounding 'towrd-zero'; did you mean 'toward_zero'?" + roundings);
  CHECK(test::error_of([] { parse_overflow("saturat"); }) ==
        "unknown overflow 'saturat'; did you mean 'saturate'? accepted: to_special saturate saturate_finite");
  CHECK(test::error_of([] { parse_subnormals(""); }) == "unknown subnormals ''; accepted: keep flush_results flush_inputs");
  CHECK(test::error_of([] { parse_subnormals("kepe"); }) ==
        "unknown subnormals 'kepe'; did you mean 'keep'? accepted: keep flush_results flush_inputs");
}

TEST_CASE("text: a known format is found under every name") {
  for (const NamedFormat& row : format_table) CHECK(require_format(row.name) == row.format);
  CHECK(require_format("Half") == "fp16"_fmt);
  CHECK(require_format("e6m9") == ieee(6, 9));
}

TEST_CASE("text: an unknown format is an error with a guess and the list") {
  CHECK(format_error("fp61") == "unknown format 'fp61'; did you mean 'fp16'?" + accepted_formats);
  CHECK(format_error("bfloat61") == "unknown format 'bfloat61'; did you mean 'bfloat16'?" + accepted_formats);
  CHECK(format_error("E4M3FNU") == "unknown format 'E4M3FNU'; did you mean 'e4m3fnuz'?" + accepted_formats);
  CHECK(format_error("posit") == "unknown format 'posit';" + accepted_formats);
  CHECK(format_error("") == "unknown format '';" + accepted_formats);
  CHECK(format_error("x\n") == "unknown format 'x\\x0A';" + accepted_formats);
  CHECK(format_error(std::string(5000, 'e')) == "unknown format '" + std::string(60, 'e') + "...';" + accepted_formats);
}

TEST_CASE("text: a width alone names no format and the error offers both") {
  CHECK(format_error("fp8") == "'fp8' names two formats; accepted: e4m3 (more precision) or e5m2 (more range)");
  CHECK(format_error("FP6") == "'FP6' names two formats; accepted: e2m3 (more precision) or e3m2 (more range)");
}

TEST_CASE("text: the guess is the closest word and swapped letters are closest") {
  CHECK(did_you_mean("fp61", {"fp64", "fp16"}) == "fp16");
  CHECK(did_you_mean("satts", {"stats", "cast"}) == "stats");
  CHECK(did_you_mean("gemn", {"dot", "gemm"}) == "gemm");
  CHECK(did_you_mean("histgram", {"histogram"}) == "histogram");
  CHECK(did_you_mean("xyz", {"fp16", "dot"}).empty());
  CHECK(did_you_mean("a", {"b"}).empty());
  CHECK(did_you_mean("fp16", {}).empty());
  CHECK(hint("gemn", {"dot", "gemm"}) == "did you mean 'gemm'? ");
  CHECK(hint("xyz", {"dot"}).empty());
}

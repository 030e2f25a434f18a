// Which code does a NaN give?
#include <doctest/doctest.h>

#include "support/against_oracle.hpp"

using narrow::Code;
using narrow::Nan;

namespace {

Code from_float(std::uint32_t word, const char* format, Nan nan) {
  return narrow::encode(test::from_bits<float>(word), narrow::find_format(format).value(), {.nan = nan});
}
Code from_double(std::uint64_t word, const char* format, Nan nan) {
  return narrow::encode(test::from_bits<double>(word), narrow::find_format(format).value(), {.nan = nan});
}

constexpr Nan policies[] = {Nan::canonical,   Nan::keep_sign,   Nan::keep_payload, Nan::quiet,
                            Nan::cut_payload, Nan::turned_zero, Nan::zero};

// Payloads: every single bit, its complement, and mixed ones; both signs.
template <class T>
std::vector<T> nans() {
  using C = test::CarrierBits<T>;
  const std::uint64_t inf = oracle::ones(C::width - 1 - C::mantissa_bits) << C::mantissa_bits;
  std::vector<std::uint64_t> payloads = {oracle::ones(C::mantissa_bits)};
  for (int bit = 0; bit < C::mantissa_bits; ++bit) {
    payloads.push_back(1ull << bit);
    payloads.push_back(oracle::ones(C::mantissa_bits) ^ 1ull << bit);
    payloads.push_back(1 + test::mix(static_cast<std::uint64_t>(bit)) % oracle::ones(C::mantissa_bits));
  }
  std::vector<T> list;
  for (const std::uint64_t payload : payloads)
    for (const std::uint64_t sign : {0u, 1u})
      list.push_back(test::from_bits<T>(sign << (C::width - 1) | inf | payload));
  return list;
}

}  // namespace

TEST_CASE("round: every NaN gives the code that its policy names in every format") {
  for (const test::Row& row : test::rows()) {
    std::vector<narrow::Cast> casts;
    for (const narrow::Cast& cast : test::all_casts())
      for (const Nan nan : policies) {
        casts.push_back(cast);
        casts.back().nan = nan;
      }
    const auto floats = nans<float>();
    const auto doubles = nans<double>();
    test::compare_all(row, floats.size(), casts, [&](std::size_t i, const auto& emit) { emit(floats[i]); });
    test::compare_all(row, doubles.size(), casts, [&](std::size_t i, const auto& emit) { emit(doubles[i]); });
  }
}

TEST_CASE("round: the canonical NaN has all bits below the sign set and no sign") {
  CHECK(from_float(0xFFC00000, "fp16", Nan::canonical) == 0x7FFF);
  CHECK(from_float(0x7F800001, "bf16", Nan::canonical) == 0x7FFF);
  CHECK(from_float(0xFFC00000, "e4m3", Nan::canonical) == 0x7F);
  CHECK(from_float(0x7FC00000, "e8m0", Nan::canonical) == 0xFF);
  CHECK(from_float(0xFFC00000, "e4m3fnuz", Nan::canonical) == 0x80);
  CHECK(from_double(0xFFF8000000000000, "fp64", Nan::canonical) == 0x7FFFFFFFFFFFFFFF);
}

TEST_CASE("round: a NaN that keeps its sign keeps nothing else") {
  CHECK(from_float(0xFFC00001, "fp16", Nan::keep_sign) == 0xFFFF);
  CHECK(from_float(0x7FC00001, "fp16", Nan::keep_sign) == 0x7FFF);
  CHECK(from_float(0xFFC00000, "e4m3", Nan::keep_sign) == 0xFF);
  CHECK(from_float(0xFFC00000, "e8m0", Nan::keep_sign) == 0xFF);
  CHECK(from_float(0xFFC00000, "e5m2fnuz", Nan::keep_sign) == 0x80);
}

TEST_CASE("round: a kept payload is the upper bits and quiet") {
  CHECK(from_float(0x7F800001, "fp16", Nan::keep_payload) == 0x7E00);
  CHECK(from_float(0xFF802000, "fp16", Nan::keep_payload) == 0xFE01);
  CHECK(from_float(0x7FFFFFFF, "fp16", Nan::keep_payload) == 0x7FFF);
  CHECK(from_float(0x7F800001, "fp64", Nan::keep_payload) == 0x7FF8000020000000);
  CHECK(from_double(0x7FF0000000000001, "fp32", Nan::keep_payload) == 0x7FC00000);
  CHECK(from_float(0xFF812345, "bf16", Nan::quiet) == 0xFFC0);
}

TEST_CASE("round: a cut payload may leave nothing and become Inf") {
  CHECK(from_float(0x7F800001, "tf32", Nan::cut_payload) == 0x3FC00);
  CHECK(from_float(0x7F802000, "tf32", Nan::cut_payload) == 0x3FC01);
  CHECK(from_float(0xFFC00000, "tf32", Nan::cut_payload) == 0x7FE00);
}

TEST_CASE("round: formats without NaN give the largest positive value and integers give zero") {
  for (const Nan nan : policies) {
    if (nan == Nan::turned_zero || nan == Nan::zero) continue;
    CHECK(from_float(0xFFC00000, "e2m1", nan) == 0x7);
    CHECK(from_float(0xFFC00000, "e2m3", nan) == 0x1F);
    CHECK(from_float(0x7FC00000, "e3m2", nan) == 0x1F);
    CHECK(from_float(0xFFC00000, "int8", nan) == 0);
  }
}

TEST_CASE("round: a NaN that turns to zero has the other sign and only where there is no NaN") {
  CHECK(from_float(0xFFC00000, "e2m1", Nan::turned_zero) == 0x0);
  CHECK(from_float(0x7FC00000, "e2m1", Nan::turned_zero) == 0x8);
  CHECK(from_float(0x7FC00000, "e3m2", Nan::turned_zero) == 0x20);
  CHECK(from_float(0xFFC00001, "e3m4", Nan::turned_zero) == 0xF8);
  CHECK(from_float(0xFFC00000, "e2m1", Nan::zero) == 0x0);
  CHECK(from_float(0xFFC00000, "e4m3", Nan::zero) == 0x7F);
}

TEST_CASE("round: a NaN from a double keeps its payload where a cast says so") {
  const narrow::Cast cast{.double_keeps_nan = true};
  const narrow::Format e5m2 = narrow::find_format("e5m2").value();
  CHECK(narrow::encode(test::from_bits<double>(0xFFF8000000000000), e5m2, cast) == 0xFE);
  CHECK(narrow::encode(test::from_bits<float>(0xFFC00000), e5m2, cast) == 0x7F);
}

// Does decode_array give the value of every code, from every type of codes, whatever lies above the format's bits?
#include <doctest/doctest.h>

#include <span>

#include "array/inputs.hpp"
#include "narrow/array/array.hpp"
#include "narrow/base/error.hpp"

using narrow::Code;
using test::Mismatches;
using test::Row;

namespace {

constexpr int widest = 19;  // all codes are visited up to here
constexpr std::size_t longest_span = 67;

// The code in its low bits; above them nothing, ones, or random bits.
template <class In>
In with_junk(Code code, int width, std::uint64_t i, int junk) {
  const std::uint64_t above = junk == 0 ? 0 : junk == 1 ? ~std::uint64_t{0} : test::mix(i);
  return static_cast<In>(code | (above & ~oracle::ones(width)));
}

template <class In, class T>
void compare(std::span<const In> codes, const Row& row, std::span<T> out, int threads, Mismatches& wrong) {
  narrow::decode_array(codes, row.format, out, threads);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const Code code = codes[i] & oracle::ones(row.format.width());
    const T want = static_cast<T>(narrow::decode(code, row.format));
    if (test::bits(want) != test::bits(out[i]))
      wrong.add([&] {
        return row.name + " code " + test::hex(codes[i]) + " of " + std::to_string(8 * sizeof(In)) + " bits as " +
               std::to_string(8 * sizeof(T)) + ": scalar " + test::hex(test::bits(want)) + ", decode_array " +
               test::hex(test::bits(out[i]));
      });
  }
}

template <class In>
std::vector<In> all_codes(const Row& row, int junk) {
  std::vector<In> codes(std::size_t{1} << row.format.width());
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = with_junk<In>(i, row.format.width(), i, junk);
  return codes;
}

template <class In, class T>
void check_all_codes(const Row& row) {
  if (row.format.width() > static_cast<int>(8 * sizeof(In))) return;
  Mismatches wrong;
  for (int junk = 0; junk < 3; ++junk) {
    const std::vector<In> codes = all_codes<In>(row, junk);
    std::vector<T> out(codes.size());
    compare<In, T>(codes, row, out, 1 + junk, wrong);
  }
  wrong.require_none(row.name);
}

template <class In, class T>
void check_lengths(const Row& row) {
  if (row.format.width() > static_cast<int>(8 * sizeof(In))) return;
  Mismatches wrong;
  for (std::size_t length = 0; length <= longest_span; ++length)
    for (std::size_t offset = 0; offset < 4; ++offset) {
      std::vector<In> codes(length + offset);
      for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<In>(test::mix(length + i));
      std::vector<T> out(length + offset + 1, T{77});
      compare<In, T>(std::span<const In>(codes).subspan(offset), row, std::span(out).subspan(offset, length), 1, wrong);
      for (std::size_t i = 0; i < offset; ++i) CHECK(out[i] == T{77});
      CHECK(out.back() == T{77});
    }
  wrong.require_none(row.name);
}

// Calls check.operator()<In, T>() for every type of codes and both carriers.
template <class Check>
void for_each_type(const Check& check) {
  check.template operator()<std::uint8_t, float>();
  check.template operator()<std::uint16_t, float>();
  check.template operator()<std::uint32_t, float>();
  check.template operator()<std::uint64_t, float>();
  check.template operator()<std::uint8_t, double>();
  check.template operator()<std::uint16_t, double>();
  check.template operator()<std::uint32_t, double>();
  check.template operator()<std::uint64_t, double>();
}

}  // namespace

TEST_CASE("array: every code of every format has the value that decode gives and junk above its bits is ignored") {
  for (const Row& row : test::array_rows())
    if (row.format.width() <= widest) for_each_type([&]<class In, class T>() { check_all_codes<In, T>(row); });
}

TEST_CASE("array: every length up to 67 codes at every alignment has the values that decode gives") {
  for (const Row& row : test::array_rows()) for_each_type([&]<class In, class T>() { check_lengths<In, T>(row); });
}

TEST_CASE("array: random codes of the wide formats have the values that decode gives") {
  for (const Row& row : test::array_rows()) {
    if (row.format.width() <= widest) continue;
    Mismatches wrong;
    std::vector<std::uint64_t> codes(test::scaled(1 << 16));
    std::vector<std::uint32_t> words(codes.size());
    for (std::size_t i = 0; i < codes.size(); ++i)
      codes[i] = test::mix(i), words[i] = static_cast<std::uint32_t>(codes[i]);
    std::vector<float> floats(codes.size());
    std::vector<double> doubles(codes.size());
    compare<std::uint64_t, float>(codes, row, floats, 1, wrong);
    compare<std::uint64_t, double>(codes, row, doubles, 1, wrong);
    if (row.format.width() <= 32) {
      compare<std::uint32_t, float>(words, row, floats, 1, wrong);
      compare<std::uint32_t, double>(words, row, doubles, 1, wrong);
    }
    wrong.require_none(row.name);
  }
}

// As doubles: e8m3fn and e9m10 have values that float does not.
TEST_CASE("array: decoded codes encode to themselves unless they are NaN") {
  for (const Row& row : test::array_rows()) {
    if (row.format.width() > 16) continue;
    const auto codes = all_codes<std::uint16_t>(row, 0);
    std::vector<double> values(codes.size());
    std::vector<std::uint16_t> back(codes.size());
    narrow::decode_array(std::span(codes), row.format, values);
    narrow::encode_array(values, row.format, {}, std::span(back));
    Mismatches wrong;
    for (std::size_t i = 0; i < codes.size(); ++i)
      if (back[i] != codes[i] && !narrow::is_nan(codes[i], row.format))
        wrong.add([&] { return row.name + " code " + test::hex(codes[i]) + " comes back as " + test::hex(back[i]); });
    wrong.require_none(row.name);
  }
}

TEST_CASE("array: decode_array refuses sizes that differ") {
  std::vector<std::uint8_t> codes(5);
  std::vector<float> out(6);
  CHECK_THROWS_AS(narrow::decode_array(codes, test::row_of("e4m3").format, out), narrow::Error);
}

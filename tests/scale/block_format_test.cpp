#include "narrow/scale/block_format.hpp"

#include <doctest/doctest.h>

#include <set>

#include "narrow/scale/quantise.hpp"
#include "support/contains.hpp"

using narrow::BlockFormat;
using narrow::find_block_format;
using narrow::ScaleRule;

namespace {

std::string refusal(std::string_view name) {
  return test::error_of([&] { narrow::require_block_format(name); });
}
}  // namespace

TEST_CASE("scale: every row of the block formats is found by its name and aliases and no word names two") {
  std::set<std::string> words;
  for (const narrow::BlockFormatRow& row : narrow::block_format_table()) {
    CAPTURE(row.name);
    CHECK(find_block_format(row.name) == row.format);
    CHECK(words.insert(std::string(row.name)).second);
    CHECK_FALSE(row.source.empty());
    CHECK(row.format.element.width() <= 8);
    CHECK_FALSE(narrow::find_format(row.name));  // plain formats have other names
    CHECK(narrow::is_block_format_name(row.name));
    for (const std::string_view rule : narrow::rules_for(row.format)) {
      const auto with_rule = find_block_format(std::string(row.name) + ":" + std::string(rule));
      REQUIRE(with_rule);
      CHECK(narrow::row_of(with_rule->rule).name == rule);
    }
  }
  for (const char* name : {"mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp4", "mxint8", "nvfp4"})
    CHECK(words.count(name) == 1);
}

TEST_CASE("scale: the rules stand in the order of their enumerators and have sources") {
  int index = 0;
  for (const narrow::ScaleRuleRow& row : narrow::scale_rule_table) {
    CHECK(static_cast<int>(row.rule) == index++);
    CHECK_FALSE(row.source.empty());
    CHECK_FALSE(row.what.empty());
  }
}

TEST_CASE("scale: the MX formats are those of OCP") {
  const BlockFormat e4m3 = *find_block_format("MXFP8_E4M3");
  CHECK(e4m3.block_cols == 32);
  CHECK(e4m3.bits_per_element() == 8.25);
  CHECK(find_block_format("mxfp4")->bits_per_element() == 4.25);
  CHECK(find_block_format("nvfp4")->bits_per_element() == 4.5);
  CHECK(find_block_format("mxint8")->element.min_quantum_exponent() == -6);
  CHECK(find_block_format("mxfp8") == e4m3);
  CHECK(find_block_format("mxfp8_e4m3:even")->rule == ScaleRule::torchao_even);
}

TEST_CASE("scale: block floating point takes 2 to 8 bits and any block") {
  const auto f = find_block_format("bfp5x24");
  REQUIRE(f);
  CHECK(f->element.width() == 5);
  CHECK(f->block_cols == 24);
  CHECK(f->element.max_exponent() == 0);
  CHECK(find_block_format("bfp8x32") == find_block_format("mxint8"));
  for (const char* bad : {"bfp1x16", "bfp9x16", "bfp8x0", "bfp8x", "bfp8", "bfpx16", "bfp8x016", "bfp8x99999999",
                          "bfp8y16", "bfp8x1e3"}) {
    CAPTURE(bad);
    CHECK_FALSE(find_block_format(bad));
  }
}

TEST_CASE("scale: unknown block formats and rules are refused with what is accepted") {
  CHECK(contains(refusal("mxfp9"), "'mxfp9' is unknown"));
  CHECK(contains(refusal("mxfp8_e4m2"), "did you mean 'mxfp8_e4m3'?"));
  CHECK(contains(refusal("mxfp8_e4m3:te_nvfp4"), "has no rule 'te_nvfp4'"));
  CHECK(contains(refusal("mxfp8_e4m3:torchao_evn"), "did you mean 'torchao_even'?"));
  CHECK(contains(refusal("nvfp4:"), "accepted: te_nvfp4 te_nvfp4_row te_4over6 te_4over6_mse torchao_nvfp4"));
  CHECK(narrow::is_block_format_name("mxfp8_e4m3:nonsense"));
  CHECK_FALSE(narrow::is_block_format_name("e4m3"));
}

TEST_CASE("scale: elements saturate and only DeepGEMM's E2M1 takes ties to zero") {
  for (const narrow::BlockFormatRow& row : narrow::block_format_table())
    CHECK(narrow::element_cast(row.format).overflow == narrow::Overflow::saturate);
  CHECK(narrow::element_cast(*find_block_format("mxfp4:deepgemm")).rounding == narrow::Rounding::nearest_to_zero);
  CHECK(narrow::element_cast(*find_block_format("mxfp8:deepgemm")).rounding == narrow::Rounding::nearest_even);
}

// _quantize_to_fp4_e2m1 of DeepGEMM counts boundaries below |x| and sets the sign only where some are: a NaN is above
// none.
TEST_CASE("scale: DeepGEMM's E2M1 has no negative zero and no NaN") {
  const std::vector<float> x = {6, -0.1f, -0.25f, -0.26f, -0.0f, -5, 5.01f, 0.75f}, nan = {std::nanf(""), -1};
  const auto codes = [](const std::vector<float>& data, const char* name) {
    return narrow::quantise(data, 1, data.size(), *find_block_format(name)).codes;
  };
  CHECK(codes(x, "mxfp4:deepgemm") == std::vector<std::uint8_t>{0x7, 0x0, 0x0, 0x9, 0x0, 0xE, 0x7, 0x1});
  CHECK(codes(x, "mxfp4:ocp_floor") == std::vector<std::uint8_t>{0x7, 0x8, 0x8, 0x9, 0x8, 0xE, 0x7, 0x2});
  CHECK(codes(nan, "mxfp4:deepgemm") == std::vector<std::uint8_t>{0x0, 0x0});  // the scale is 2^127
}

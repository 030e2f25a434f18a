// Which formats are native where, against what the tensor-core models know and against itself.
#include "narrow/format/device_table.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>

#include "narrow/dot/model.hpp"
#include "narrow/format/find_format.hpp"

using namespace narrow;

namespace {

bool lists(std::string_view list, const Format& format) {
  bool found = false;
  for_each_format(list, [&](std::string_view name) {
    const NamedFormat* row = find_row(name);
    REQUIRE_MESSAGE(row != nullptr, name);
    found = found || row->format == format;
  });
  return found;
}

const DeviceRow* find_device(std::string_view name) {
  for (const DeviceRow& row : device_table)
    if (row.name == name) return &row;
  return nullptr;
}

}  // namespace

TEST_CASE("format: every device has a name of its own and a source and formats of the table") {
  std::set<std::string_view> names;
  for (const DeviceRow& row : device_table) {
    CAPTURE(row.name);
    CHECK(names.insert(row.name).second);
    CHECK(!row.parts.empty());
    CHECK(!row.source.empty());
    CHECK(row.year >= 2017);
    CHECK(!row.products.empty());
    for (const std::string_view list : {row.products, row.scales, row.conversions}) lists(list, "fp32"_fmt);
  }
}

TEST_CASE("format: a device multiplies in every format that a model of it takes") {
  std::size_t models = 0;
  for (const DotModel& m : dot_models()) {
    if (m.generation == Generation::software) continue;
    CAPTURE(m.name.view());
    const DeviceRow* row = find_device(generation_name(m.generation));
    REQUIRE(row != nullptr);
    ++models;
    for (const DotType& operand : {m.a, m.b})
      if (operand.name != "u8") CHECK(lists(row->products, operand.format));
    if (m.is_block_scaled()) CHECK(lists(row->scales, m.scale));
  }
  CHECK(models > 100);
}

TEST_CASE("format: conversions by the target that PTX names first") {
  const auto first = [](std::string_view format) {
    for (const DeviceRow& row : device_table)
      if (lists(row.conversions, find_row(format)->format)) return std::string(row.name);
    return std::string();
  };
  CHECK(first("fp16") == "volta");
  CHECK(first("bf16") == "ampere");
  CHECK(first("tf32") == "ampere");
  CHECK(first("e4m3") == "ada");
  CHECK(first("e2m1") == "blackwell");
  CHECK(first("e8m0") == "blackwell");
  CHECK(first("e3m4") == "");
}

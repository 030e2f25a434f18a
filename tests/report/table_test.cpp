#include "narrow/report/table.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <stdexcept>

using namespace narrow;
using namespace narrow::report;

TEST_CASE("report: numbers have as many digits as were asked for") {
  CHECK(significant_text(0.1 + 0.2, 3) == "0.3");
  CHECK(significant_text(1234.5678, 3) == "1235");  // digits before the point are never cut
  CHECK(significant_text(0.00012345, 3) == "0.000123");
  CHECK(significant_text(0.000012345, 3) == "1.23e-5");
  CHECK(significant_text(1e21, 4) == "1e21");
  CHECK(significant_text(999999.6, 3) == "1e6");
  CHECK(significant_text(-0.5, 2) == "-0.5");
  CHECK(significant_text(0, 5) == "0");
  CHECK(significant_text(-0.0, 5) == "0");
  CHECK(significant_text(INFINITY, 3) == "inf");
  CHECK(significant_text(-INFINITY, 3) == "-inf");
  CHECK(significant_text(NAN, 3) == "nan");
  CHECK(fixed_text(39.44, 1) == "39.4");
  CHECK(fixed_text(-0.04, 1) == "0.0");
  CHECK(fixed_text(1e308, 0).size() == 309);
  CHECK(fixed_text(-INFINITY, 2) == "-inf");
}

TEST_CASE("report: powers of two read as powers and counts have commas") {
  CHECK(power_text(0x1p-24) == "2^-24");
  CHECK(power_text(1) == "2^0");
  CHECK(power_text(3) == "3");
  CHECK(power_text(0) == "0");
  CHECK(power_text(-2) == "-2");
  CHECK(power_text(0x1p-1074) == "2^-1074");
  CHECK(count_text(609792) == "609,792");
  CHECK(count_text(-1000) == "-1,000");
  CHECK(count_text(999) == "999");
  CHECK(count_text(INT64_MIN) == "-9,223,372,036,854,775,808");
}

TEST_CASE("report: a share that is not all never reads as all and a tiny one never as nothing") {
  CHECK(percent_text(0.394) == "39.4 %");
  CHECK(percent_text(0.99997) == "99.997 %");
  CHECK(percent_text(1) == "100 %");
  CHECK(percent_text(0) == "0 %");
  CHECK(percent_text(3.2e-7, 2) == "0.32 per million");
  CHECK(percent_text(1e-4) == "0.01 %");
}

TEST_CASE("report: a cell is shown by the style of its column") {
  CHECK(shown_text(power_column("scale"), 65536.0) == "2^16");
  CHECK(plain_text(power_column("scale"), 65536.0) == "65536");
  CHECK(plain_text(power_column("scale"), 0x1p30) == "1073741824");
  CHECK(std::stod(plain_text(power_column("scale"), 0x1p-133)) == 0x1p-133);
  CHECK(shown_text(integer_column("n"), std::int64_t{1234567}) == "1,234,567");
  CHECK(plain_text(integer_column("n"), std::int64_t{1234567}) == "1234567");
  CHECK(shown_text(fixed_column("x", "%", 1), 1234.56) == "1,234.6");
  CHECK(shown_text(real_column("x"), Cell{}) == "-");
  CHECK(plain_text(real_column("x"), Cell{}) == "");
  CHECK(heading(fixed_column("share", "%")) == "share [%]");
  CHECK(heading(text_column("name")) == "name");
}

TEST_CASE("report: a row must fit its columns") {
  Table t{"t", "", {text_column("a"), integer_column("b"), real_column("c")}, {}, "", {}};
  t.add({std::string("x"), std::int64_t{1}, 0.5});
  t.add({Cell{}, Cell{}, std::int64_t{3}});  // an integer may stand for a real
  CHECK(std::get<double>(t.rows[1][2]) == 3);
  CHECK_THROWS_AS(t.add({std::string("x"), std::int64_t{1}}), std::logic_error);
  CHECK_THROWS_AS(t.add({std::string("x"), 0.5, 0.5}), std::logic_error);
  CHECK_THROWS_AS(t.add({1.0, std::int64_t{1}, 0.5}), std::logic_error);
  CHECK_THROWS_AS(t.add({std::string("x"), std::int64_t{1}, std::string("y")}), std::logic_error);
  CHECK(t.rows.size() == 2);
  CHECK_NOTHROW(check(t));
  t.name = "../t";
  CHECK_THROWS_AS(check(t), std::logic_error);
}

// Numbers and names are the same whatever locale a program that uses the library has chosen.
#include <doctest/doctest.h>

#include <clocale>
#include <cstdlib>
#include <filesystem>
#include <locale>

#include "narrow/format/find_format.hpp"
#include "narrow/report/table_writers.hpp"
#include "narrow/scale/scaler.hpp"
#include "narrow/scale/scaler_table.hpp"
#include "narrow/tensor/element_type.hpp"
#include "narrow/tensor/npy.hpp"
#include "narrow/tensor/npy_dict.hpp"
#include "narrow/tensor/safetensors_json.hpp"
#include "narrow/text/text.hpp"
#include "narrow/train/policy/recipe.hpp"
#include "support/make_locale.hpp"

using namespace narrow;
using namespace narrow::report;

namespace {

// Germany writes 1.234,5; in Turkey the capital of i is not I.
std::string all_texts() {
  std::string out;
  const Format fp32 = find_format("FP32").value(), int8 = find_format("INT8").value();
  for (const char* number : {"0.1", "-1234567.5", "1e-30", "-inf", "INF", "NaN", "0x1.8p-3"}) {
    const Code code = parse_value(number, fp32);
    out += to_decimal(code, fp32) + to_shortest(code, fp32) + to_hex_float(code, fp32) + to_hex_code(code, fp32) + "\n";
  }
  out += to_hex_code(parse_value("-12", int8), int8);
  for (const double x : {0.1, 1234567.875, -0.333, 1e300, 65536.0})
    out += narrow::detail::scale_text(x) + " " + fixed_text(x, 3) + " " + significant_text(x, 5) + " " + power_text(x) + "\n";
  out += count_text(1234567) + percent_text(0.12345);
  Table table{"numbers", "Title I i", {text_column("name"), integer_column("count"), real_column("value", "%", 7)},
              {},        "",          {}};
  table.add({std::string("INFINITY i"), std::int64_t{1234567}, -1234.5678});
  table.add({std::string("x"), std::int64_t{-1}, 0.1});
  out += to_csv(table, "x") + to_json(table) + to_markdown(table) + to_text(table);
  const TensorHeader header{"W.I.i", *find_element_type("F32"), {1234567, 2}};
  out += npy_header_text(header, false);
  out += safetensors_header_text(std::span(&header, 1), {});
  out += parse_npy_dict("{'descr': '<f4', 'fortran_order': False, 'shape': (1234567, 2), }", 0).descr;
  train::Recipe recipe = train::parse_recipe(
      R"({"name": "mine", "base": "fp16-amp", "loss_scaler": "torch:init=1000.5:growth=1.5"})", "test");
  return out + train::recipe_json(recipe) + recipe.loss_scaler;
}

struct CommaNumbers : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

}  // namespace

TEST_CASE("report: numbers and names are the same under every locale") {
  const std::string expected = all_texts();
  std::string folder = (std::filesystem::temp_directory_path() / "narrow_locale_XXXXXX").string();
  REQUIRE(mkdtemp(folder.data()) != nullptr);
  setenv("LOCPATH", folder.c_str(), 1);
  for (const std::string name : {"de_DE", "tr_TR"}) {
    if (!test::make_locale(folder, name) || std::setlocale(LC_ALL, (name + ".UTF-8").c_str()) == nullptr) {
      MESSAGE("skipped: no locale " << name << " can be made (Debian: package locales)");
      continue;
    }
    REQUIRE(std::string(std::localeconv()->decimal_point) == ",");
    std::locale::global(std::locale(std::locale::classic(), new CommaNumbers));  // glibc leaks when std::locale opens one
    const std::string found = all_texts();
    std::locale::global(std::locale::classic());
    CHECK(found == expected);
  }
  std::setlocale(LC_ALL, "C");
  unsetenv("LOCPATH");
  std::filesystem::remove_all(folder);
}

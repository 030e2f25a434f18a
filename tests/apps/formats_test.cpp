#include <filesystem>

#include "program.hpp"
#include "tensor/files.hpp"

using test::check_refused;
using test::contains;
using test::Json;
using test::narrow_json;

namespace {

Json find(const Json& rows, const std::string& name) {
  for (const Json& row : rows)
    if (row["name"] == name) return row;
  return {};
}

}  // namespace

TEST_CASE("apps: formats lists every row with its limits") {
  const Json rows = narrow_json({"formats"});
  CHECK(rows.size() == 20);
  for (const Json& row : rows)
    for (const char* key : {"name", "bits", "exponent_bits", "mantissa_bits", "bias", "max", "min_normal",
                            "min_subnormal", "epsilon", "has_inf", "has_nan", "source"})
      CHECK_MESSAGE(row.contains(key), key);

  const Json fp16 = find(rows, "fp16");
  CHECK(fp16["bits"] == 16);
  CHECK(fp16["exponent_bits"] == 5);
  CHECK(fp16["mantissa_bits"] == 10);
  CHECK(fp16["bias"] == 15);
  CHECK(fp16["max"] == 65504.0);
  CHECK(fp16["min_normal"] == 0x1p-14);
  CHECK(fp16["min_subnormal"] == 0x1p-24);
  CHECK(fp16["epsilon"] == 0x1p-10);
  CHECK(fp16["has_inf"] == true);
  CHECK(fp16["has_nan"] == true);

  CHECK(find(rows, "fp64")["max"] == 0x1.fffffffffffffp+1023);
  CHECK(find(rows, "fp64")["min_subnormal"] == 0x1p-1074);
  CHECK(find(rows, "e4m3")["max"] == 448.0);
  CHECK(find(rows, "e4m3")["has_inf"] == false);
  CHECK(find(rows, "e4m3ieee")["max"] == 240.0);
  CHECK(find(rows, "e4m3fnuz")["max"] == 240.0);
  CHECK(find(rows, "e2m1")["has_nan"] == false);
  CHECK(find(rows, "e8m0")["min_subnormal"].is_null());
  CHECK(find(rows, "e8m0")["max"] == 0x1p127);
  CHECK(find(rows, "int8")["min_subnormal"].is_null());
  CHECK(find(rows, "int8")["max"] == 127.0);
  CHECK(find(rows, "int8")["lowest"] == -128.0);
}

TEST_CASE("apps: formats --p3109 lists the 8-bit formats of the draft and the table stays as it is") {
  const Json rows = narrow_json({"formats", "--p3109"});
  REQUIRE(rows.size() == 30);
  for (const Json& row : rows) {
    CHECK(row["bits"] == 8);
    CHECK(row["source"] == "IEEE P3109 draft 4.0");
  }
  CHECK(find(rows, "binary8p3se")["max"] == 49152.0);
  CHECK(find(rows, "binary8p3se")["has_inf"] == true);
  CHECK(find(rows, "binary8p8uf")["has_sign"] == false);
  for (const Json& row : narrow_json({"formats"})) CHECK(row["name"].get<std::string>().find("binary") != 0);
  CHECK(narrow_json({"formats", "--p3109", "fp16"}).size() == 31);
}

TEST_CASE("apps: formats takes names and aliases and any eXmY") {
  const Json rows = narrow_json({"formats", "half", "E5M10", "e5m3fn", "e3m0f"});
  REQUIRE(rows.size() == 4);
  CHECK(rows[0]["name"] == "fp16");
  CHECK(rows[1]["name"] == "e5m10");
  CHECK(rows[1]["max"] == rows[0]["max"]);
  CHECK(rows[2]["has_inf"] == false);
  CHECK(rows[3]["min_subnormal"].is_null());
  CHECK(narrow_json({"formats", "fp16,bf16"}).size() == 2);
  CHECK(narrow_json({"formats", "all"}).size() == 20);
}

TEST_CASE("apps: formats --devices says where a format is native") {
  const Json rows = narrow_json({"formats", "--devices"});
  CHECK(rows.size() == 21);
  for (const Json& row : rows) {
    CAPTURE(row["device"].get<std::string>());
    for (const char* key : {"device", "parts", "year", "products", "scales", "conversions", "source"})
      CHECK_MESSAGE(row.contains(key), key);
    if (row["device"] == "hopper")
      CHECK(row["products"] == Json({"fp64", "tf32", "fp16", "bf16", "e4m3", "e5m2", "int8"}));
    if (row["device"] == "tpu-v4") CHECK(row["conversions"].is_null());
  }
  const Json some = narrow_json({"formats", "half", "e3m4", "--devices"});
  CHECK(some[0]["products"] == Json({"fp16"}));
  const std::string text = test::narrow({"formats", "--devices"}).out;
  CHECK(contains(text, "P matrix products"));
  CHECK(!contains(text, " \n"));
  CHECK(!contains(text, "e3m4"));  // no device has it
  const std::string markdown = test::narrow({"formats", "e4m3,e3m4", "--devices", "--markdown"}).out;
  CHECK(contains(markdown, "| device | parts | year | e4m3 | e3m4 | source |"));
  CHECK(contains(markdown, "| ada | L40S, RTX 40 | 2022 | PC | - |"));
  check_refused({"formats", "--devices", "--card", "-o", "x.html"}, {"--devices", "--card"});
}

TEST_CASE("apps: the text table has one line a format and no spaces at line ends") {
  const test::Ran ran = test::narrow({"formats"});
  CHECK(ran.status == 0);
  CHECK(std::count(ran.out.begin(), ran.out.end(), '\n') == 21);
  CHECK(!contains(ran.out, " \n"));
  CHECK(contains(ran.out, "OCP OFP8 1.0, 2023"));
  CHECK(contains(test::narrow({"formats", "e4m3", "--markdown"}).out, "| e4m3 | 8 | 4 | 3 | 7 | 448 | 0.015625 |"));
}

TEST_CASE("apps: the reference card is one page that needs nothing else") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("narrow_card" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const std::string file = (folder / "card.html").string();
  const test::Ran ran = test::narrow({"formats", "--card", "-o", file});
  CHECK(ran.status == 0);
  CHECK(ran.out == "");
  const std::string page = test::read_file(file);
  CHECK(page.rfind("<!DOCTYPE html>", 0) == 0);
  CHECK(contains(page, "</html>"));
  CHECK(!contains(page, "http"));
  CHECK(!contains(page, "<script"));
  for (const std::string part : {"<h2>e4m3</h2>", "<h2>int8</h2>", "0x7BFF", "prefers-color-scheme: dark",
                                 "@media print", "0 0.5 1 1.5 2 3 4 6"})
    CHECK_MESSAGE(contains(page, part), part);
  const auto files = std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
  CHECK(files == 1);  // no temporary file is left
  std::filesystem::remove_all(folder);
}

TEST_CASE("apps: formats refuses what it cannot do") {
  check_refused({"formats", "fp8"}, {"fp8", "e4m3", "e5m2"});
  check_refused({"formats", "fp17"}, {"'fp17'", "did you mean"});
  check_refused({"formats", ""}, {"empty"});
  check_refused({"formats", "e99m99"}, {"e99m99"});
  check_refused({"formats", "--card"}, {"--card", "-o"});
  check_refused({"formats", "-o", "x.html"}, {"-o", "--card"});
  check_refused({"formats", "--card", "--json"}, {"--json", "--card"});
  check_refused({"formats", "--card", "-o", "/no/such/folder/card.html"}, {"-o", "/no/such/folder/card.html"});
  check_refused({"formats", "--card", "-o", ""}, {"-o"});
}

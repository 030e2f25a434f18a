#include "narrow/tensor/find_data.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <optional>

#include "tensor/files.hpp"

namespace {

// NARROW_DATA for one test; none where there is no value.
class Variable {
 public:
  explicit Variable(const std::optional<std::string>& value) {
    if (const char* before = std::getenv("NARROW_DATA"); before != nullptr) before_ = before;
    set(value);
  }
  ~Variable() { set(before_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  static void set(const std::optional<std::string>& value) {
    if (value) setenv("NARROW_DATA", value->c_str(), 1);
    else unsetenv("NARROW_DATA");
  }
  std::optional<std::string> before_;
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("report: without NARROW_DATA the recordings of the sources are found") {
  const Variable none({});
  for (const char* name : {"golden/products.tsv", "torch/logs.json", "golden/h200-bench.txt"})
    CHECK(narrow::require_data(name) == std::string(NARROW_DATA "/") + name);
}

TEST_CASE("report: the folder that NARROW_DATA names is the only one and an empty name asks for made numbers") {
  const test::Folder folder;
  const Variable chosen(folder.path());
  folder.write("a.tsv", "x");
  CHECK(narrow::find_data("a.tsv") == folder / "a.tsv");
  const std::string text = test::error_of([] { (void)narrow::find_data("golden/products.tsv"); });
  CHECK(test::is_one_line(text));
  CHECK(text == "data/golden/products.tsv was not found in " + folder.path() +
                    "; the environment variable NARROW_DATA can name the folder data");
  {
    const Variable empty("");
    CHECK_FALSE(narrow::find_data("golden/products.tsv"));
    CHECK(has(test::error_of([] { (void)narrow::require_data("golden/products.tsv"); }), "NARROW_DATA"));
  }
  const Variable wrong(folder / "nowhere");
  CHECK(has(test::error_of([] { (void)narrow::find_data("golden/products.tsv"); }), "which is no folder"));
}

TEST_CASE("report: a file that is nowhere is refused with every folder that was searched") {
  const Variable none({});
  const std::string text = test::error_of([] { (void)narrow::find_data("golden/nothing.tsv"); });
  CHECK(test::is_one_line(text));
  CHECK(has(text, "data/golden/nothing.tsv was not found in "));
  for (const std::string& folder : narrow::data_folders()) CHECK(has(text, folder));
  CHECK(narrow::data_folders().size() == 3);
  CHECK(has(text, "share/narrow/data"));  // beside the program
  CHECK(has(text, "NARROW_DATA"));
}

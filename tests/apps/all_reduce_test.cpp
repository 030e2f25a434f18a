// narrow all-reduce: what it prints, writes and refuses.
#include <cmath>
#include <cstring>

#include "apps/tensor_files.hpp"
#include "program.hpp"
#include "tensor/files.hpp"

using test::check_refused;
using test::contains;
using test::Json;
using test::narrow_json;

namespace {

std::string npy_of(const std::vector<float>& values) {
  return test::npy("{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(values.size()) + ",), }",
                   test::raw(values));
}

}  // namespace

TEST_CASE("apps: all-reduce adds one file a rank, in the order that was asked for") {
  const test::Folder folder;
  // 256 + 1 is a tie in bf16 and goes down; 1 + 1 first does not.
  const std::string a = folder.write("a.npy", npy_of({256, 1, 3e38f})),
                    b = folder.write("b.npy", npy_of({1, 2, 3e38f})), c = folder.write("c.npy", npy_of({1, 4, -3e38f})),
                    out = folder / "out.npy";
  const auto first = [&](const std::string& algorithm) {
    const Json answer = narrow_json({"all-reduce", a, b, c, "--sum", "--algorithm", algorithm, "-o", out});
    const std::string file = test::read_file(out);
    std::vector<float> values(3);
    std::memcpy(values.data(), file.data() + file.size() - 12, 12);
    CHECK(values[1] == 7);
    const Json& row = answer["algorithms"].at(0);
    CHECK(row["algorithm"] == algorithm);
    CHECK(row["elements"] == 3);
    CHECK(row["mse"].is_null() == (row["overflow"] != 0));
    CHECK(row["not_nearest"].get<int>() == (values[0] != 258) + (std::isinf(values[2]) ? 1 : 0));
    return values;
  };
  CHECK(first("linear")[0] == 256);     // (256 + 1) + 1
  CHECK(first("tree")[0] == 256);       // the same
  CHECK(first("fp32-once")[0] == 258);  // rounded once
  CHECK(first("ring")[0] == 258);       // piece 0 starts at rank 1: (1 + 1) + 256
  CHECK(std::isinf(first("linear")[2]));
}

TEST_CASE("apps: all-reduce compares all algorithms with the exact sum") {
  const Json answer = narrow_json({"all-reduce", "--algorithm", "all", "--ranks", "7", "--elements", "1000"});
  CHECK(answer["ranks"] == 7);
  CHECK(answer["algorithms"].size() == 5);
  double once = 0, least = 1e9;
  for (const Json& row : answer["algorithms"]) {
    CHECK(row["overflow"] == 0);
    CHECK(row["not_nearest"] > 0);
    if (row["algorithm"] == "fp32-once") once = row["mse"];
    else least = std::min(least, row["mse"].get<double>());
  }
  CHECK(once < least);
  CHECK(narrow_json(
            {"all-reduce", "--format", "fp32", "--ranks", "2", "--elements", "100"})["algorithms"][0]["max_ulp"] == 0);
  const auto mse = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"all-reduce", "--algorithm", "fp32-once", "--format", "e5m2", "--elements", "500"});
    return narrow_json(more)["algorithms"][0]["mse"].get<double>();
  };
  CHECK(mse({"--error-feedback", "--steps", "32"}) < mse({"--error-feedback"}));
  CHECK(mse({"--error-feedback", "--steps", "1"}) == mse({"--steps", "3"}));
}

TEST_CASE("apps: all-reduce answers for one rank, no elements, NaN and Inf") {
  const test::Folder folder;
  const std::string x = folder.write("x.npy", npy_of({1, std::nanf(""), HUGE_VALF, 2}));
  const Json special = narrow_json({"all-reduce", x, x, "--algorithm", "all"});
  CHECK(special["special"] == 2);
  for (const Json& row : special["algorithms"])
    CHECK((row["elements"] == 2 && row["mse"] == 0 && row["sqnr_db"] == "inf"));
  CHECK(contains(test::narrow({"all-reduce", x, x}).out, "left out: 2 (50%) elements whose exact mean is Inf or NaN"));
  CHECK(contains(test::narrow({"all-reduce", x}).out, "One rank sends nothing"));
  const Json none = narrow_json({"all-reduce", "--elements", "0", "--format", "mxfp8_e5m2", "--algorithm", "all"});
  for (const Json& row : none["algorithms"]) CHECK((row["mse"].is_null() && row["sqnr_db"].is_null()));
}

TEST_CASE("apps: all-reduce refuses what cannot be added") {
  const test::Folder folder;
  const std::string x = folder.write("x.npy", npy_of({1, 2})), y = folder.write("y.npy", npy_of({1, 2, 3}));
  check_refused({"all-reduce", x, y}, {"y.npy", "[3]", "[2]", "one shape"});
  check_refused({"all-reduce", x, x, "--ranks", "2"}, {"--ranks", "each file is a rank"});
  check_refused({"all-reduce", "--algorithm", "mpi"}, {"--algorithm", "not fixed by its standard", "ring"});
  check_refused({"all-reduce", "--algorithm", "star"}, {"--algorithm", "star", "recursive-doubling"});
  check_refused({"all-reduce", "--algorithm", "all", "-o", "r.npy"}, {"--output", "name one"});
  check_refused({"all-reduce", "--format", "e8m0"}, {"--format", "a sign and a zero"});
  check_refused({"all-reduce", "--format", "nonsense"}, {"--format", "nonsense"});
  check_refused({"all-reduce", "--ranks", "0"}, {"--ranks", "0"});
  check_refused({"all-reduce", "--ranks", "65536", "--elements", "100000"}, {"--elements", "2^28"});
  check_refused({"all-reduce", x, x, "-o", folder / "r.txt"}, {"r.txt"});
  check_refused({"train", "--ranks", "4", "--order", "mpi"}, {"--order", "not fixed"});
}

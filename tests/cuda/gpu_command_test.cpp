#include "apps/program.hpp"

using test::contains;
using test::narrow;

namespace {

// One line on standard error, nothing on standard output.
void check_refused(const std::vector<std::string>& words, const std::string& part) {
  const test::Ran ran = narrow(words);
  CAPTURE(ran.err);
  CHECK(ran.status == 2);
  CHECK(ran.out == "");
  CHECK(contains(ran.err, part));
  CHECK(std::count(ran.err.begin(), ran.err.end(), '\n') == 1);
}

}  // namespace

TEST_CASE("gpu: a job that is none and jobs without their arguments are refused in one line") {
  check_refused({"gpu"}, "check, record, bench, plan");
  check_refused({"gpu", "chekc"}, "did you mean 'check'");
  check_refused({"gpu", "bench", "fast"}, "unexpected argument 'fast'");
}

TEST_CASE("gpu: without CUDA or without a device the program says so") {
  CHECK(contains(narrow({"gpu", "check", "--list"}).out, "wgmma.m64n256k32.f32.e4m3.e5m2.rs"));
  check_refused({"gpu", "plan", "16", "16"}, "three sizes");
  check_refused({"gpu", "plan", "16", "x", "16"}, "'x' is no size");
  check_refused({"gpu", "plan", "16", "16", "16", "--type", "fp4"}, "unknown product type");
  if (!NARROW_HAS_CUDA) return check_refused({"gpu", "check"}, "built without CUDA");
  const test::Ran ran = narrow({"gpu", "plan", "16", "16", "16"});
  if (ran.status == 2) check_refused({"gpu", "check"}, "no CUDA device");
  check_refused({"gpu", "check", "--scale", "2"}, "--scale");
  check_refused({"gpu", "check", "--section", "7"}, "--section");
  check_refused({"gpu", "record"}, "-o FOLDER is missing");
}

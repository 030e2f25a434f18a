#include "apps/program.hpp"

using test::contains;

namespace {

// One line on standard error, nothing on standard output.
void check_refused(const std::vector<std::string>& words, const std::string& part) {
  const test::Ran ran = test::narrow(words);
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
  check_refused({"gpu", "bench", "--share"}, "--share goes with check");
  check_refused({"gpu", "replay", "/"}, "cannot read '/'");
  check_refused({"gpu", "replay", "/dev/zero"}, "it is a device");
}

TEST_CASE("gpu: a plan from the table names what it was recorded with and warns of another cuBLAS") {
  const std::vector<std::string> plan{"gpu", "plan", "128", "128", "4096", "--cublas"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), plan.begin(), plan.end());
    return more;
  };
  const test::Ran same = test::narrow(with({"CUDA 13.0"}));
  CHECK(same.status == 0);
  CHECK(contains(same.out, "recorded with NVIDIA H200, cuBLAS of CUDA 13.0"));
  CHECK(contains(same.out, "hopper.wgmma.f32.f16.f16, plan split:1408"));
  CHECK(!contains(same.out, "warning"));
  CHECK(contains(test::narrow(with({"12.9.1"})).out, "warning: the table was recorded with another cuBLAS"));
  const test::Json json = test::narrow_json(with({"12.9.1"}));
  CHECK(json["recorded_with"]["cublas"] == "CUDA 13.0");
  CHECK(json["recorded_with"]["torch"].is_null());
  CHECK(json["cublas"] == "12.9.1");
  CHECK(contains(json["warning"], "another"));
  check_refused(with({"new"}), "'new' is no version");
  check_refused({"gpu", "plan", "3", "3", "3", "--cublas", "13.1.0"}, "no product f16 of this shape was recorded");
  check_refused({"gpu", "check", "--cublas", "13.1.0"}, "--cublas goes with plan");
}

TEST_CASE("gpu: a recorded product through torch has its plan for each library") {
  std::vector<std::string> ask{"gpu", "plan", "120", "88", "9024", "--cublas", "13.1.0", "--torch", "linear+bias"};
  const test::Ran ran = test::narrow(ask);
  CHECK(ran.status == 0);
  CHECK(contains(ran.out, "cuBLAS 13.1.0, torch 2.11.0"));
  CHECK(contains(ran.out, "through cublas: hopper.wgmma.f32.f16.f16, plan split:1344"));
  ask.back() = "linear+bias@cublaslt";
  CHECK(test::narrow_json(ask)[0]["library"] == "cublaslt");
  ask.back() = "linear";
  check_refused(ask, "no linear of f16 of this shape was recorded");
  for (const auto& [call, why] : {std::pair{"lnear", "unknown call 'lnear'"},
                                  {"bmm:x", "'bmm:x' is no call"},
                                  {"bmm:0", "'bmm:0' is no call"},
                                  {"matmul:3", "a batch goes with bmm"},
                                  {"matmul@x", "unknown library 'x'"},
                                  {"matmul@cublas@x", "more than one library"}}) {
    ask.back() = call;
    check_refused(ask, why);
  }
  check_refused({"gpu", "plan", "8", "8", "8", "--torch", "matmul", "--type", "fp4"}, "unknown type 'fp4'");
  check_refused({"gpu", "check", "--torch", "matmul"}, "--torch goes with plan");
  check_refused({"gpu", "plan", "8", "8", "8", "--check", "x"}, "--check takes its products from the table");
  check_refused({"gpu", "plan", "--check", "/nowhere"}, "/nowhere");
}

TEST_CASE("gpu: without CUDA or without a device the program says so") {
  CHECK(contains(test::narrow({"gpu", "check", "--list"}).out, "wgmma.m64n256k32.f32.e4m3.e5m2.rs"));
  check_refused({"gpu", "plan", "16", "16"}, "three sizes");
  check_refused({"gpu", "plan", "16", "x", "16"}, "'x' is no size");
  check_refused({"gpu", "plan", "16", "16", "16", "--type", "fp4"}, "unknown product type");
  if (!NARROW_HAS_CUDA) return check_refused({"gpu", "check"}, "built without CUDA");
  const test::Ran ran = test::narrow({"gpu", "plan", "16", "16", "16"});
  if (ran.status == 2) check_refused({"gpu", "check"}, "no CUDA device");
  check_refused({"gpu", "check", "--scale", "2"}, "--scale");
  check_refused({"gpu", "check", "--section", "7"}, "--section");
  check_refused({"gpu", "record"}, "-o FOLDER is missing");
}

// What narrow compare says and how it ends.
#include "tensor_files.hpp"

using namespace test;

TEST_CASE("apps: compare gives the promised keys for two tensors") {
  const Folder folder;
  const std::string x = folder.write(
      "x.safetensors", safetensors_of({{"w", "F32", "[2,3]", raw(std::vector<float>{1, 2, 0.0f, 4, 5, 6})}}));
  const std::string y =
      folder.write("y.safetensors",
                   safetensors_of({{"v", "F32", "[2,3]", raw(std::vector<float>{1, 2 + 0x1p-21f, -0.0f, 4, 5, NAN})}}));
  const Json out = failing_json({"compare", x, y});
  CHECK(out["total"] == 6);
  CHECK(out["equal_count"] == 3);
  CHECK(out["max_ulp"] == 2);
  CHECK(out["nan_mismatch"] == 1);
  CHECK(out["zero_sign_mismatch"] == 1);
  CHECK(out["nan_payload"] == 0);
  REQUIRE(out["first"].size() == 3);
  CHECK(out["first"][0]["index"] == Json{0, 1});
  CHECK(out["first"][0]["flat"] == 1);
  CHECK(out["first"][0]["x_code"] == "0x40000000");
  CHECK(out["first"][0]["y_code"] == "0x40000002");
  CHECK(out["first"][0]["x"] == 2.0);
  CHECK(out["first"][0]["ulp"] == 2);
  CHECK(out["worst"][0]["index"] == Json{1, 2});
  CHECK(out["worst"][0]["y"] == "nan");
  CHECK(out["worst"][0]["ulp"].is_null());
  CHECK(out["ulp"] == Json::parse(R"([{"from":0,"to":0,"count":1},{"from":2,"to":2,"count":1}])"));
  const Ran text = run({"compare", x, y});
  CHECK(text.status == 1);
  for (const char* word :
       {"differs", "3 of 6 values equal", "max 2 ulp", "sign of zero", "NaN against a number", "[1, 2]"})
    CHECK_MESSAGE(contains(text.out, word), word);
}

TEST_CASE("apps: compare allows what --max-ulp says") {
  const Folder folder;
  const std::string x = folder.write("x.safetensors", floats_file("w", {1, 0.0f, 3}));
  const std::string y = folder.write("y.safetensors", floats_file("w", {1 + 0x1p-21f, -0.0f, 3}));  // 4 ulp
  CHECK(run({"compare", x, x}).status == 0);
  CHECK(run({"compare", x, y}).status == 1);
  CHECK(run({"compare", x, y, "--max-ulp", "3"}).status == 1);
  CHECK(run({"compare", x, y, "--max-ulp", "4"}).status == 0);
  CHECK(narrow_json({"compare", x, y, "--max-ulp", "4"})["within"] == true);
  check_refused({"compare", x, y, "--max-ulp", "some"}, {"--max-ulp"});
  check_refused({"compare", x}, {"X and Y"});
}

TEST_CASE("apps: compare goes by name through files of many tensors") {
  const Folder folder;
  const std::string one(4, 'x'), other(4, 'y');
  const std::string x =
      folder.write("x.safetensors",
                   safetensors_of({{"a", "U8", "[4]", one}, {"b", "U8", "[4]", one}, {"only_x", "U8", "[4]", one}}));
  const std::string y =
      folder.write("y.safetensors", safetensors_of({{"b", "U8", "[4]", other}, {"a", "U8", "[4]", one}}));
  const Json out = failing_json({"compare", x, y});
  REQUIRE(out.size() == 3);
  CHECK(out[0]["tensor"] == "a");
  CHECK(out[0]["equal_bits"] == true);
  CHECK(out[1]["equal_count"] == 0);
  CHECK(out[1]["max_ulp"] == 1);
  CHECK(out[1]["first"][0]["x"] == 'x');
  CHECK(out[2]["missing_in"] == y);
  CHECK(run({"compare", x, y, "--tensors", "a"}).status == 0);
  CHECK(run({"compare", x, y, "--tensors", "^a$|only"}).status == 1);  // a missing name is a difference
  CHECK(run({"compare", x + ":a", y + ":b"}).status == 1);
  CHECK(run({"compare", x + ":b", x + ":a"}).status == 0);  // one tensor each: whatever their names
  CHECK(contains(run({"compare", x, y}).out, "not in"));
}

TEST_CASE("apps: compare refuses what has no distance and takes integers as codes") {
  const Folder folder;
  const std::string f32 = folder.write("x.safetensors", floats_file("w", {1, 2}));
  const std::string f16 =
      folder.write("y.safetensors", safetensors_of({{"w", "F16", "[2]", std::string("\x00\x3C\x00\x40", 4)}}));
  const std::string wide = folder.write("z.safetensors", safetensors_of({{"w", "F32", "[2,1]", std::string(8, '\0')}}));
  const std::string u2 = folder.write("c.npy", npy_of("<u2", "(2,)", std::string("\x01\x3C\x00\x40", 4)));
  check_refused({"compare", f32, f16}, {"F32 and F16"});
  check_refused({"compare", f32, wide}, {"[2]", "[2, 1]"});
  check_refused({"compare", u2, f16}, {"U16 and F16", "format"});
  const Json out = failing_json({"compare", u2, f16, "--x-format", "fp16"});
  CHECK(out["max_ulp"] == 1);
  CHECK(out["first"][0]["x"] == 1.0009765625);
  const Json same = failing_json({"compare", u2, f16, "--format", "fp16"});
  CHECK(same == out);
  check_refused({"compare", u2, f16, "--format", "nothing"}, {"--format", "nothing"});
  check_refused({"compare", u2, f16, "--x-format", "fp32"}, {"--format"});
}

TEST_CASE("apps: compare has the same output for any number of threads") {
  const Folder folder;
  std::vector<float> a(300000, 1.5f), b = a;
  for (std::size_t i = 0; i < b.size(); i += 7) b[i] += static_cast<float>(i % 1000) * 0x1p-22f;
  const std::string x = folder.write("x.safetensors", floats_file("w", a)),
                    y = folder.write("y.safetensors", floats_file("w", b));
  const Ran one = run({"compare", x, y, "--json"}, with_environment("OMP_NUM_THREADS", "1"));
  CHECK(one.status == 1);
  CHECK(run({"compare", x, y, "--json"}, with_environment("OMP_NUM_THREADS", "4")).out == one.out);
}

// A sanitizer takes terabytes of addresses, cuBLASLt more than are left here.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !NARROW_HAS_CUDA
TEST_CASE("apps: where threads cannot be made, compare and stats give their answers with fewer") {
  const Folder folder;
  const std::string x = folder.write("x.safetensors", floats_file("w", std::vector<float>(40 * 65536, 1.5f)));
  // 40 stacks of 8 MB do not fit 300 MB of addresses.
  const auto with_little = [&](const std::string& words) {
    return test::run_program({"/bin/sh", "-c", "ulimit -v 300000; exec " NARROW_PROGRAM " " + words},
                             with_environment("OMP_NUM_THREADS", "40"));
  };
  const Ran compared = with_little("compare " + x + " " + x);
  CHECK(compared.err == "");
  CHECK(compared.status == 0);
  const Ran counted = with_little("stats " + x + " --fail-if 'overflow > 1%'");
  CHECK(counted.err == "");
  CHECK(counted.status == 0);
}
#endif

TEST_CASE("apps: compare takes two floating types in one format or within a tolerance") {
  const Folder folder;
  const std::string f32 = folder.write("x.safetensors", floats_file("w", {1, 1.00390625f, 3, 100}));
  const std::string bf16 = folder.write(  // 1, 1, 3.015625, 100
      "y.safetensors",
      safetensors_of({{"w", "BF16", "[4]", raw(std::vector<std::uint16_t>{0x3F80, 0x3F80, 0x4041, 0x42C8})}}));
  check_refused({"compare", f32, bf16}, {"F32 and BF16", "--format", "--rtol"});
  const Json in_bf16 = failing_json({"compare", f32, bf16, "--format", "bf16"});
  CHECK(in_bf16["compared_in"] == "bf16");
  CHECK(in_bf16["dtype"] == "F32");
  CHECK(in_bf16["y_dtype"] == "BF16");
  CHECK(in_bf16["equal_count"] == 3);  // 1.00390625 is a tie that rounds to 1
  CHECK(in_bf16["max_ulp"] == 1);
  CHECK(in_bf16["first"][0]["x_code"] == "0x4040");
  CHECK(in_bf16["outside"].is_null());
  CHECK(run({"compare", f32, bf16, "--format", "bf16", "--max-ulp", "1"}).status == 0);
  CHECK(contains(run({"compare", f32, bf16, "--format", "bf16"}).out, "F32 against BF16 in bf16"));
  const Json by_value = narrow_json({"compare", f32, bf16, "--rtol", "0.01"});
  CHECK(by_value["within"] == true);
  CHECK(by_value["outside"] == 0);
  CHECK(by_value["max_ulp"].is_null());
  CHECK(by_value["compared_in"].is_null());
  CHECK(by_value["max_abs_error"] == 0.015625);
  CHECK(by_value["max_rel_error"] == 0.015625 / 3);
  CHECK(by_value["first"][0]["x"] == 1.00390625);
  CHECK(by_value["first"][0]["ulp"].is_null());
  CHECK(failing_json({"compare", f32, bf16, "--rtol", "0.001"})["outside"] == 2);
  CHECK(failing_json({"compare", f32, bf16, "--atol", "0.004"})["outside"] == 1);
  const Ran text = run({"compare", f32, bf16, "--atol", "0.004", "--rtol", "0.01"});
  CHECK(text.status == 0);
  CHECK(contains(text.out, "within rtol 0.01 and atol 0.004"));
  CHECK(contains(text.out, "0 outside"));
  check_refused({"compare", f32, bf16, "--rtol", "-1"}, {"--rtol"});
  check_refused({"compare", f32, bf16, "--atol", "inf"}, {"--atol"});
  check_refused({"compare", f32, bf16, "--atol", "1", "--max-ulp", "1"}, {"--format"});
  CHECK(run({"compare", f32, f32, "--format", "e4m3"}).status == 0);
}

TEST_CASE("apps: compare takes the NaN of its own rounding for no difference") {
  const Folder folder;
  const std::string x = folder.write("x.npy", npy_of("<f4", "(2,)", raw(std::vector<float>{1, NAN})));
  const std::string y = folder.write("y.safetensors", safetensors_of({{"y", "BF16", "[2]", raw(std::vector<std::uint16_t>{0x3F80, 0x7FC0})}}));
  CHECK(run({"compare", x, y, "--format", "bf16"}).status == 0);
}

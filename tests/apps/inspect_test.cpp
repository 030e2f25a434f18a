// What the program says about good and broken tensor files.
#include "tensor_files.hpp"

using namespace test;

TEST_CASE("apps: inspect lists names types shapes sizes and metadata") {
  const Folder folder;
  const std::string path = folder.write("a.safetensors", safetensors_of({{"w", "F32", "[2,3]", std::string(24, '\0')},
                                                                         {"ids", "I64", "[]", std::string(8, '\0')}},
                                                                        R"({"step":"300"})"));
  const Json out = narrow_json({"inspect", path});
  CHECK(out["file"] == path);
  CHECK(out["kind"] == "safetensors");
  REQUIRE(out["tensors"].size() == 2);
  CHECK(out["tensors"][0] == Json{{"name", "w"}, {"dtype", "F32"}, {"shape", {2, 3}}, {"bytes", 24}});
  CHECK(out["tensors"][1]["shape"] == Json::array());
  CHECK(out["metadata"] == Json{{"step", "300"}});
  const Ran text = run({"inspect", path});
  CHECK(text.status == 0);
  CHECK(contains(text.out, "2 tensors, 7 elements, 32 bytes"));
  CHECK(contains(text.out, "[2, 3]"));
  CHECK(contains(text.out, "step: 300"));
  CHECK(narrow_json({"inspect", path + ":ids"})["tensors"].size() == 1);
  CHECK(narrow_json({"inspect", path, "--tensors", "^w$"})["tensors"].size() == 1);
  check_refused({"inspect", path + ":nothing"}, {"nothing", "w"});
  check_refused({"inspect", path, "--tensors", "nothing"}, {"--tensors", "nothing"});
  check_refused({"inspect", path, "--tensors", "("}, {"--tensors", "regular expression"});
}

TEST_CASE("apps: inspect tells the order of .npy files") {
  const Folder folder;
  const std::string path = folder.write("f.npy", npy_of(">f4", "(2, 3)", std::string(24, '\0'), true));
  const Json out = narrow_json({"inspect", path});
  CHECK(out["kind"] == "npy");
  CHECK(out["tensors"][0]["column_major"] == true);
  CHECK(out["tensors"][0]["big_endian"] == true);
  CHECK(contains(run({"inspect", path}).out, "Fortran, big endian"));
}

TEST_CASE("apps: names from a file cannot steer the terminal") {
  const Folder folder;
  const std::string path = folder.write("a.safetensors", safetensors_of({{R"(\u001b[2J)", "U8", "[1]", "x"}}));
  const Ran ran = run({"inspect", path});
  CHECK(ran.status == 0);
  CHECK(!contains(ran.out, "\x1b"));
  CHECK(contains(ran.out, "\\x1B[2J"));
}

TEST_CASE("apps: inspect and stats read standard input") {
  const Folder folder;
  const std::string path = folder.write("a.safetensors", floats_file("w", {1, 2, 3}));
  for (const char* how : {"cat %f | %n inspect - --json", "%n inspect - --json < %f"}) {
    std::string command = how;
    command.replace(command.find("%n"), 2, NARROW_PROGRAM);
    command.replace(command.find("%f"), 2, path);
    const Ran ran = run_program({"/bin/sh", "-c", command});
    CHECK(ran.status == 0);
    CHECK(Json::parse(ran.out)["tensors"][0]["name"] == "w");
  }
  const Ran ran = run_program({"/bin/sh", "-c", "cat '" + path + "' | " NARROW_PROGRAM " stats - --json"});
  CHECK(ran.status == 0);
  CHECK(Json::parse(ran.out)[0]["count"] == 3);
}

TEST_CASE("apps: a broken file is refused in one line by every command") {
  const Folder folder;
  const std::string good = floats_file("w", {1, 2, 3, 4});
  const std::string dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n";
  const std::vector<std::pair<std::string, std::string>> broken = {
      {"empty.safetensors", ""},
      {"short.safetensors", "abc"},
      {"text.safetensors", "this is text and no tensor file at all, whatever its name says\n"},
      {"long_header.safetensors", little_endian(~0ull, 8) + "{}"},
      {"cut.safetensors", good.substr(0, good.size() - 3)},
      {"more.safetensors", good + "x"},
      {"overlap.safetensors",
       safetensors(
           R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
           "123456")},
      {"hole.safetensors", safetensors(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})", "1234")},
      {"wrap.safetensors",
       safetensors(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})")},
      {"negative.safetensors", safetensors(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "1234")},
      {"type.safetensors", safetensors(R"({"a":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}})", "1234")},
      {"twice.safetensors",
       safetensors(
           R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
           "1")},
      {"magic.npy", "\x93NUMPX\x01"},
      {"cut.npy", npy(dict, "1234567")},
      {"object.npy", npy_of("|O", "(1,)", "12345678")},
      {"fields.npy", npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }\n", "1234")},
      {"pickle.pt", std::string("PK\x03\x04", 4) + std::string(60, '\0')},
  };
  for (const auto& [name, content] : broken) {
    CAPTURE(name);
    const std::string path = folder.write(name, content);
    check_refused({"inspect", path}, {name});
    check_refused({"stats", path}, {name});
    check_refused({"histogram", path}, {name});
    check_refused({"cast", path, folder / "out.safetensors", "--to", "fp16"}, {name});
    check_refused({"compare", path, path}, {name});
  }
  CHECK(!std::filesystem::exists(folder / "out.safetensors"));
  for (const char* command : {"inspect", "stats", "histogram"}) {
    check_refused({command, folder / "none.safetensors"}, {"none.safetensors"});
    check_refused({command}, {"no file", "example"});
  }
  std::filesystem::create_directory(folder / "nothing");
  check_refused({"inspect", folder / "nothing"}, {"folder"});
}

TEST_CASE("apps: inspect reads the given file") {
  if (!has_given_file()) return;
  const Json out = narrow_json({"inspect", given_file});
  CHECK(out["tensors"].size() == 33);
  std::uint64_t elements = 0;
  for (const Json& tensor : out["tensors"]) elements += tensor["bytes"].get<std::uint64_t>() / 4;
  CHECK(elements == 675328);
}

// What the program says about good and broken tensor files.

#include "tensor/archive.hpp"
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

TEST_CASE("apps: one unreadable member of an archive leaves the others") {
  const Folder folder;
  const Member good = stored("w.npy", npy_of("<f4", "(2,)", raw(std::vector<float>{1, 1e6f})));
  Member damaged = stored("bad.npy", npy_of("<f4", "(2,)", "12345678")), locked = damaged;
  damaged.data.back() ^= 1;
  locked.name = "locked.npy", locked.flags = 1;
  const std::vector<std::pair<Member, std::string>> broken = {
      {stored("bad.npy", npy_of("|O", "(1,)", "12345678")), "'|O'"},
      {stored("bad.npy", npy_of("<U3", "(1,)", std::string(12, 'x'))), "'<U3'"},
      {stored("bad.npy", "no array"), "no .npy file"},
      {stored("readme.txt", "hello"), "no .npy"},
      {damaged, "checksum"},
      {locked, "encrypted"}};
  for (const auto& [member, why] : broken) {
    CAPTURE(why);
    const std::string name = member.name.substr(0, member.name.find(".npy"));
    const std::string path = folder.write("a.npz", archive({good, member}));
    const Json info = failing_json({"inspect", path});
    REQUIRE(info["tensors"].size() == 1);
    CHECK(info["tensors"][0]["name"] == "w");
    REQUIRE(info["unreadable"].size() == 1);
    CHECK(info["unreadable"][0]["name"] == name);
    CHECK(contains(info["unreadable"][0]["reason"], why));
    CHECK(contains(run({"inspect", path}).out, why));
    CHECK(narrow_json({"inspect", path + ":w"})["tensors"].size() == 1);
    const std::vector<std::vector<std::string>> commands = {
        {"stats", path}, {"histogram", path}, {"cast", path, folder / "o.safetensors", "--to", "fp16"}};
    for (const std::vector<std::string>& command : commands) {
      const Ran ran = run(command);
      CHECK(ran.status == 0);
      CHECK(contains(ran.err, "left out of " + path + ": " + name + ": "));
      CHECK(contains(ran.err, why));
    }
    CHECK(header_of(read_file(folder / "o.safetensors")).size() == 1);
    // No gate passes and nothing is equal that nobody could read.
    CHECK(run({"stats", path, "--fail-if", "nan > 0"}).status == 1);
    CHECK(run({"stats", path, "--fail-if", "nan > 0", "--tensors", "^w$"}).status == 0);
    const Ran compared = run({"compare", path, path});
    CHECK(compared.status == 1);
    CHECK(contains(compared.out, "cannot be read in"));
    CHECK(run({"compare", path, path, "--tensors", "^w$"}).status == 0);
    check_refused({"stats", path + ":" + name}, {why});
    check_refused({"stats", folder.write("b.npz", archive({member}))}, {why});
  }
}

TEST_CASE("apps: arrays of ml_dtypes are read with a format and named without one") {
  const Folder folder;
  const std::string bf16 =
      folder.write("b.npy", npy_of("<V2", "(3,)", raw(std::vector<std::uint16_t>{0x3F80, 0x4000, 0x7FC0})));
  const Json row = narrow_json({"stats", bf16, "--format", "bf16", "--formats", "fp16"})[0];
  CHECK(row["amax"] == 2.0);
  CHECK(row["nan"] == 1);
  for (const char* descr : {"|V1", "<V1", "<f1", "|f1"}) {
    const std::string fp8 = folder.write("f.npy", npy_of(descr, "(2,)", "\x38\x40"));
    CHECK(narrow_json({"stats", fp8, "--format", "e4m3", "--formats", "fp16"})[0]["amax"] == 2.0);
    check_refused({"stats", fp8}, {"ml_dtypes", descr[1] == 'f' ? "--format e5m2" : "--format e4m3"});
  }
  check_refused({"stats", bf16}, {"V2", "ml_dtypes", "--format bf16"});
  check_refused({"histogram", bf16}, {"--format bf16"});
  check_refused({"cast", bf16, folder / "o.npy", "--to", "fp32"}, {"--format bf16"});
  check_refused({"compare", bf16, bf16}, {"V2", "format"});
  check_refused({"stats", bf16, "--format", "e4m3"}, {"V2"});
  CHECK(narrow_json({"inspect", bf16})["tensors"][0]["dtype"] == "V2");
  CHECK(run({"compare", bf16, bf16, "--format", "bf16"}).status == 0);
  const std::string both = folder.write(
      "a.npz", archive({stored("h.npy", read_file(bf16)), stored("w.npy", npy_of("<f4", "(1,)", "1234"))}));
  CHECK(contains(run({"stats", both}).err, "h: type V2"));
  CHECK(narrow_json({"stats", both, "--format", "bf16"}).size() == 8);
}

TEST_CASE("apps: inspect reads a file of PyTorch") {
  const Json out = narrow_json({"inspect", given_file});
  CHECK(out["tensors"].size() == 24);
  std::uint64_t bytes = 0;
  for (const Json& tensor : out["tensors"]) bytes += tensor["bytes"].get<std::uint64_t>();
  CHECK(bytes == 2753536);
  CHECK(out["metadata"]["step"] == "300");
}

// Files of `narrow gpu check --share`: every contributed one comes out of the emulator; a wrong bit is found.
#include "narrow/golden/share.hpp"

#include "cuda/golden_folder.hpp"
#include "narrow/base/error.hpp"
#include "narrow/dot/model.hpp"
#include "narrow/golden/golden.hpp"
#include "support/scale.hpp"
#include "support/contains.hpp"

namespace {

// What a GPU of that sm would write if it were the emulator.
narrow::ShareFile made(int sm, std::size_t instructions, std::size_t tiles) {
  narrow::ShareFile file{"A GPU (2nd)", "580.1", "13.0", "13.1.0", "0.1.0", "2026-01-01", sm, 7, {}, {}};
  file.conversions.push_back({"cvt cvt.rn.f16.f32", "inputs", 65536, 0, 0x0123456789ABCDEF});
  for (const narrow::Instruction& i : narrow::all_instructions()) {
    const narrow::DotModel* model = narrow::find_dot_model(i.model(sm));
    if (!i.runs_on(sm) || model == nullptr || file.instructions.size() == instructions) continue;
    narrow::SharedInstruction s{i, 1000, 0, {}, {}};
    for (std::size_t n = 0; n < narrow::shared_dots; ++n) {
      const narrow::SharedPlace p = narrow::shared_place(i, n);
      const narrow::TileDot in = narrow::tile_dot(i, file.seed, p.tile, p.row, p.column);
      s.dots.push_back({in, narrow::emulated_code(*model, in)});
    }
    for (std::size_t t = 0; t < tiles; ++t) {
      std::vector<narrow::Code> results;
      for (int o = 0; o < narrow::tile_rows * i.columns(); ++o)
        results.push_back(
            narrow::emulated_code(*model, narrow::tile_dot(i, file.seed, t, o / i.columns(), o % i.columns())));
      s.hashes.push_back(narrow::hash_tile(results));
    }
    file.instructions.push_back(s);
  }
  return file;
}

}  // namespace

TEST_CASE("share: every contributed file comes out of the emulator") {
  std::size_t files = 0;
  const std::string golden = test::read_text(NARROW_DATA "/golden/conversions.tsv");
  for (const auto& entry : std::filesystem::directory_iterator(NARROW_DATA "/contributed")) {
    if (entry.path().extension() != ".txt") continue;
    const std::string text = test::read_text(entry.path()), name = entry.path().filename().string();
    CAPTURE(name);
    const narrow::ShareFile file = narrow::read_share(text, name);
    CHECK(name == file.file_name());
    CHECK(text.size() < 500'000);
    const auto replay = narrow::replay_share(file, static_cast<std::size_t>(std::clamp(2 * test::scale(), 1.0, 16.0)));
    for (const std::string& line : replay.wrong) FAIL_CHECK(line);
    MESSAGE(name << ": " << replay.dots << " dot products, " << replay.tiles << " tiles, " << replay.without_model
                 << " instructions without a model");
    // A conversion over all its inputs has the hash that the H200 gave.
    for (const narrow::SharedConversion& c : file.conversions) {
      char row[256];
      std::snprintf(row, sizeof row, "\t%llu\t%016llX\n", static_cast<unsigned long long>(c.count),
                    static_cast<unsigned long long>(c.hash));
      const std::string start = "\n" + c.name + "\t" + c.unit + "\t" + std::to_string(c.count) + "\t";
      if (golden.find(start) != std::string::npos)
        CHECK_MESSAGE(golden.find("\n" + c.name + "\t" + c.unit + row) != std::string::npos, c.name);
    }
    ++files;
  }
  if (files == 0) MESSAGE("data/contributed holds no file yet");
}

TEST_CASE("share: a file reads back as what was written and replays without a fault on every generation") {
  for (const int sm : {80, 86, 89, 90, 100, 120}) {
    CAPTURE(sm);
    const narrow::ShareFile file = made(sm, 12, sm == 90 ? 2 : 0);
    REQUIRE(file.instructions.size() == 12);
    const std::string text = narrow::write_share(file);
    const narrow::ShareFile again = narrow::read_share(text, "x");
    CHECK(narrow::write_share(again) == text);
    const narrow::ShareReplay replay = narrow::replay_share(again, 2);
    CHECK(replay.wrong == std::vector<std::string>{});
    CHECK(replay.dots == 48);
    CHECK(replay.tiles == (sm == 90 ? 24 : 0));
  }
  CHECK(made(120, 0, 0).file_name() == "narrow-share-a-gpu-2nd-sm120.txt");
}

TEST_CASE("share: one wrong bit of an input or a result or a hash is found") {
  const std::string text = narrow::write_share(made(90, 2, 1));
  std::size_t found = 0, tried = 0;
  for (const std::string word : {"\ntiles ", "\ndot "})
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
      const std::size_t end = text.find('\n', at + 1);
      std::string broken = text;
      char& digit = broken[end - 1];  // the last digit of a hash or of a result
      digit = digit == '0' ? '1' : static_cast<char>(digit == 'A' ? '9' : digit - 1);
      const narrow::ShareReplay replay = narrow::replay_share(narrow::read_share(broken, "x"), 1);
      found += replay.wrong.size() == 1 ? 1 : 0, ++tried;
    }
  CHECK(tried == 2 * (1 + narrow::shared_dots));
  CHECK(found == tried);
  narrow::ShareFile counted = made(90, 1, 0);
  counted.instructions[0].mismatches = 3;
  CHECK(narrow::replay_share(counted, 0).wrong.size() == 1);
}

TEST_CASE("share: a broken file is refused by line") {
  const std::string text = narrow::write_share(made(90, 1, 1));
  const auto refused = [&](const std::string& what, const std::string& by, const std::string& says) {
    std::string broken = text;
    broken.replace(broken.find(what), what.size(), by);
    CHECK_THROWS_WITH_AS(narrow::read_share(broken, "x"), doctest::Contains(says.c_str()), narrow::Error);
  };
  refused("# narrow-share 1", "# narrow-share 2", "line 1");
  refused("\n# cublas 13.1.0", "", "'# cublas ...' belongs here");
  refused("\n# sm 90", "\n# sm 70", "no generation");
  refused("\ndot ", "\ndot 0", "codes of");
  refused("\ntiles ", "\ntiles x", "is no hash");
  refused("\ninstruction ", "\ninstruction x", "unknown instruction");
  refused("\nconvert ", "\nconverts ", "belongs here");
  refused(text.substr(text.find("\nconvert")), "\n", "");
  refused("# gpu ", "# gpu \x1B[31m", "cannot be printed");
  refused("\ntiles ", "\ntiles \x1B[31m", "cannot be printed");
  refused("\nconvert ", "\nconvert \x07", "cannot be printed");
  refused("\ninstruction ", "\ninstruction " + std::string(300, 'x'), "...'; ");  // not all of it in the message
  refused("\nend ", "\nend 9", "the file has 'end");
  refused(text.substr(text.find("\nend ")), "\n", "a part of a file");
  const std::string instruction =
      text.substr(text.find("\ninstruction "), text.find("\nend ") - text.find("\ninstruction "));
  refused(instruction, instruction + instruction, "came before");
  for (std::size_t cut = 0; cut < text.size() - 1; cut += 97) {
    const std::string part = text.substr(0, cut);
    CHECK(test::error_of([&] { (void)narrow::read_share(part, "x"); }).starts_with("x: "));
  }
}

TEST_CASE("share: what a GPU does not have is not asked of it") {
  const auto count = [](int sm) {
    std::size_t n = 0;
    for (const narrow::Instruction& i : narrow::all_instructions()) n += i.runs_on(sm) ? 1 : 0;
    return n;
  };
  CHECK(count(75) == 0);
  CHECK(count(80) == count(86));
  CHECK(count(80) < count(89));
  CHECK(count(90) == narrow::all_instructions().size());
  CHECK(count(100) == count(120));
  for (const narrow::Instruction& i : narrow::all_instructions()) {
    CHECK(i.runs_on(90));
    CHECK(i.runs_on(100) == (i.unit == narrow::TileUnit::mma));
    CHECK(i.minimum_sm() >= 80);
  }
  CHECK(narrow::find_instruction("mma.m16n8k32.f32.e4m3.e4m3").minimum_sm() == 89);
  CHECK(narrow::find_instruction("mma.m16n8k32.s32.s8.s8").minimum_sm() == 80);
  CHECK(narrow::find_instruction("mma.m16n8k16.f64.f64.f64").minimum_sm() == 90);
}

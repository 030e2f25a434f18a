#include "narrow/golden/share.hpp"

#include <algorithm>
#include <set>

#include "narrow/dot/dot.hpp"
#include "narrow/golden/golden.hpp"
#include "narrow/golden/golden_lines.hpp"
#include "narrow/text/split.hpp"

namespace narrow {

using detail::hex;
using detail::LineReader;

namespace {

constexpr const char* how_to_read =
    "# narrow-share 1\n"
    "# What a GPU computed, and whether the emulator of narrow gives the same bits. Made by: narrow gpu check --share\n"
    "# convert NAME | UNIT COUNT MISMATCHES HASH: a conversion or operation over its first COUNT inputs; the hash is "
    "that\n"
    "#   of data/golden/conversions.tsv.\n"
    "# instruction NAME COMPARED MISMATCHES: so many dot products held against the model of this GPU's generation\n"
    "#   (COMPARED 0: there is none). Inputs are made from (seed, instruction, tile, place) by tile_inputs.hpp.\n"
    "# tiles HASH ...: what the instruction gave for tiles 0, 1, ...; the hash is that of data/golden.\n"
    "# dot A B C D: one dot product in full: codes of a, of b, the addend, the result, in hexadecimal.\n"
    "# end CONVERSIONS INSTRUCTIONS TILES DOTS: how many of each the file has, so that a part of it is no file.\n"
    "# No name of a machine, a user or a path is in this file. Replay: narrow gpu replay FILE (needs no GPU).\n";

int digits_of(const Format& f) { return (f.width() + 3) / 4; }

std::string codes(const std::vector<Code>& list, const Format& f) {
  std::string text;
  for (const Code code : list) text += hex(code, digits_of(f));
  return text;
}

std::vector<Code> read_codes(LineReader& lines, std::string_view text, const Format& f, std::size_t count) {
  const auto digits = static_cast<std::size_t>(digits_of(f));
  if (text.size() != count * digits)
    lines.fail(std::to_string(count) + " codes of " + std::to_string(digits) + " digits belong here");
  std::vector<Code> list;
  for (std::size_t i = 0; i < count; ++i) {
    list.push_back(lines.number(text.substr(i * digits, digits), 16, "code"));
    if (list.back() >> (f.width() - 1) >> 1 != 0) lines.fail("a code has more bits than its format");
  }
  return list;
}

SharedDot read_dot(LineReader& lines, const std::vector<std::string_view>& words, const Instruction& i) {
  if (words.size() != 5) lines.fail("a dot has four groups of codes");
  const TileFormats f = i.formats();
  const auto k = static_cast<std::size_t>(i.products());
  return {{read_codes(lines, words[1], f.a, k), read_codes(lines, words[2], f.b, k),
           read_codes(lines, words[3], f.c, 1)[0]},
          read_codes(lines, words[4], f.c, 1)[0]};
}

// "convert cvt e4m3x2 both halves | inputs 65536 0 0123456789ABCDEF"
SharedConversion read_conversion(LineReader& lines, std::string_view line) {
  const std::size_t bar = line.find(" | ");
  const auto words = parts_of(bar == std::string_view::npos ? "" : line.substr(bar + 3), " ");
  if (words.size() != 4 || bar < 9) lines.fail("a conversion is NAME | UNIT COUNT MISMATCHES HASH");
  return {std::string(line.substr(8, bar - 8)), std::string(words[0]), lines.number(words[1], 10, "count"),
          lines.number(words[2], 10, "number of mismatches"), lines.number(words[3], 16, "hash")};
}

// The last line.
std::string end_line(const ShareFile& file) {
  std::size_t tiles = 0, dots = 0;
  for (const SharedInstruction& s : file.instructions) tiles += s.hashes.size(), dots += s.dots.size();
  return "end " + std::to_string(file.conversions.size()) + " " + std::to_string(file.instructions.size()) + " " +
         std::to_string(tiles) + " " + std::to_string(dots);
}

}  // namespace

Code emulated_code(const DotModel& model, const TileDot& in) {
  const Code code = dot(model, in.a, in.b, in.c);
  const Format& f = model.accumulator.format;
  return f.width() == 64 && is_nan(code, f) ? f.nan_code() : code;
}

std::string ShareFile::file_name() const {
  std::string text = "narrow-share-";
  for (const char c : gpu) {
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) text += c;
    else if (c >= 'A' && c <= 'Z') text += static_cast<char>(c - 'A' + 'a');
    else if (text.back() != '-') text += '-';
  }
  return text + (text.back() == '-' ? "sm" : "-sm") + std::to_string(sm) + ".txt";
}

// Families 1, 5, 9, 13 in the first four tiles that have them; places spread over the tile.
SharedPlace shared_place(const Instruction& i, std::size_t n) {
  const std::uint64_t r = mix_bits(i.number() + n);
  return {(4 * n + 1) % shared_tiles, static_cast<int>(r % tile_rows),
          static_cast<int>((r >> 8) % static_cast<std::uint64_t>(i.columns()))};
}

std::string write_share(const ShareFile& file) {
  std::string text = how_to_read;
  const auto line = [&](const char* key, const std::string& value) {
    text += std::string("# ") + key + " " + value + "\n";
  };
  line("gpu", file.gpu), line("sm", std::to_string(file.sm)), line("driver", file.driver),
      line("toolkit", file.toolkit);
  line("cublas", file.cublas), line("narrow", file.version), line("date", file.date),
      line("seed", std::to_string(file.seed));
  for (const SharedConversion& c : file.conversions)
    text += "convert " + c.name + " | " + c.unit + " " + std::to_string(c.count) + " " + std::to_string(c.mismatches) +
            " " + hex(c.hash, 16) + "\n";
  for (const SharedInstruction& s : file.instructions) {
    text += "instruction " + s.instruction.name() + " " + std::to_string(s.compared) + " " +
            std::to_string(s.mismatches) + "\ntiles";
    for (const std::uint64_t hash : s.hashes) text += " " + hex(hash, 16);
    const TileFormats f = s.instruction.formats();
    for (const SharedDot& d : s.dots)
      text += "\ndot " + codes(d.in.a, f.a) + " " + codes(d.in.b, f.b) + " " + codes({d.in.c}, f.c) + " " +
              codes({d.d}, f.c);
    text += "\n";
  }
  return text + end_line(file) + "\n";
}

ShareFile read_share(const std::string& text, const std::string& name) {
  const std::size_t help = std::string_view(how_to_read).size();
  if (!text.starts_with("# narrow-share 1\n")) throw Error(name + ": line 1: '# narrow-share 1' belongs here");
  if (!text.starts_with(how_to_read))
    throw Error(name + ": the lines that say how to read it are not those of version 1");
  int help_lines = 0;
  for (const char* c = how_to_read; *c != '\0'; ++c) help_lines += *c == '\n' ? 1 : 0;
  LineReader lines(std::string_view(text).substr(help), name, help_lines);
  ShareFile file;
  const auto value = [&](const char* key) { return lines.value(key); };
  file.gpu = value("gpu"),
  file.sm = static_cast<int>(std::min<std::uint64_t>(lines.number(lines.value("sm"), 10, "sm"), 999));
  if (sm_generation(file.sm).empty()) lines.fail("no generation of tensor cores is known for this sm");
  file.driver = value("driver"), file.toolkit = value("toolkit"), file.cublas = value("cublas");
  file.version = value("narrow"), file.date = value("date");
  file.seed = lines.number(lines.value("seed"), 10, "seed");
  bool ended = false;
  std::set<std::string> names;
  while (!lines.at_end()) {
    const std::string_view line = lines.next();
    const auto words = parts_of(line, " ");
    if (ended) lines.fail("nothing follows the end");
    if (words[0] == "end") {
      if (line != end_line(file)) lines.fail("the file has '" + end_line(file) + "'");
      ended = true;
    } else if (words[0] == "convert") {
      file.conversions.push_back(read_conversion(lines, line));
    } else if (words[0] == "instruction" && words.size() == 4) {
      file.instructions.push_back({lines.parse(find_instruction, words[1]),
                                   lines.number(words[2], 10, "count"),
                                   lines.number(words[3], 10, "number of mismatches"),
                                   {},
                                   {}});
      const SharedInstruction& s = file.instructions.back();
      if (!names.insert(s.instruction.name()).second) lines.fail("an instruction that came before");
      if (s.mismatches > s.compared) lines.fail("more mismatches than results");
    } else if (words[0] == "tiles" && !file.instructions.empty()) {
      for (std::size_t t = 1; t < words.size(); ++t)
        file.instructions.back().hashes.push_back(lines.number(words[t], 16, "hash"));
    } else if (words[0] == "dot" && !file.instructions.empty()) {
      file.instructions.back().dots.push_back(read_dot(lines, words, file.instructions.back().instruction));
    } else {
      lines.fail("convert, instruction, tiles, dot or end belongs here");
    }
  }
  if (!ended) lines.fail("the end is missing: a part of a file");
  if (file.conversions.empty() && file.instructions.empty()) lines.fail("the file holds no result");
  return file;
}

ShareReplay replay_share(const ShareFile& file, std::size_t tiles) {
  ShareReplay replay;
  for (const SharedConversion& c : file.conversions)
    if (c.mismatches != 0)
      replay.wrong.push_back(c.name + ": the GPU differed " + std::to_string(c.mismatches) + " times");
  for (const SharedInstruction& s : file.instructions) {
    const Instruction& i = s.instruction;
    const DotModel* model = find_dot_model(i.model(file.sm));
    replay.recorded_tiles += s.hashes.size();
    if (model == nullptr) {
      ++replay.without_model;
      continue;
    }
    if (s.mismatches != 0)
      replay.wrong.push_back(i.name() + ": the GPU differed " + std::to_string(s.mismatches) + " times");
    for (std::size_t n = 0; n < s.dots.size(); ++n, ++replay.dots) {
      const Code code = emulated_code(*model, s.dots[n].in);
      if (code != s.dots[n].d)
        replay.wrong.push_back(i.name() + " dot " + std::to_string(n) + ": recorded " +
                               codes({s.dots[n].d}, i.formats().c) + ", " + i.model(file.sm) + " gives " +
                               codes({code}, i.formats().c));
    }
    const std::size_t wanted = std::min(s.hashes.size(), i.columns() > 64 ? (tiles + 3) / 4 : tiles);
    for (std::size_t t = 0; t < wanted; ++t, ++replay.tiles) {
      std::vector<Code> results;
      for (int row = 0; row < tile_rows; ++row)
        for (int column = 0; column < i.columns(); ++column)
          results.push_back(emulated_code(*model, tile_dot(i, file.seed, t, row, column)));
      if (hash_tile(results) != s.hashes[t])
        replay.wrong.push_back(i.name() + " tile " + std::to_string(t) + ": its hash is not that of the model");
    }
  }
  return replay;
}

}  // namespace narrow

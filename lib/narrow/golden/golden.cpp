#include "narrow/golden/golden.hpp"

#include "narrow/golden/golden_lines.hpp"

namespace narrow {

using detail::hex;
using detail::LineReader;

namespace {

constexpr std::size_t codes_a_line = 64;

int code_digits(const Instruction& i) { return 2 * element_bytes(i.accumulator); }

}  // namespace

std::uint64_t hash_tile(const std::vector<Code>& results) {
  std::uint64_t hash = 0;
  for (std::size_t o = 0; o < results.size(); ++o) hash += mix_bits(mix_bits(results[o]) + o);
  return hash;
}

std::string write_golden_tiles(const GoldenTiles& golden) {
  const GoldenOrigin& o = golden.origin;
  std::string text;
  const auto line = [&](const char* key, const std::string& value) {
    text += std::string("# ") + key + " " + value + "\n";
  };
  line("gpu", o.gpu), line("driver", o.driver), line("toolkit", o.toolkit), line("date", o.date),
      line("command", o.command);
  line("instruction", golden.instruction.name()), line("seed", std::to_string(golden.seed));
  line("tiles", std::to_string(golden.tiles.hashes.size())), line("full", std::to_string(golden.tiles.full.size()));
  for (std::size_t t = 0; t < golden.tiles.hashes.size(); ++t)
    text += hex(golden.tiles.hashes[t], 16) + (t % 7 == 6 || t + 1 == golden.tiles.hashes.size() ? "\n" : " ");
  const int digits = code_digits(golden.instruction);
  for (std::size_t i = 0; i < golden.tiles.full.size(); ++i)
    text += hex(golden.tiles.full[i], digits) + (i % codes_a_line == codes_a_line - 1 ? "\n" : "");
  return text;
}

GoldenTiles read_golden_tiles(const std::string& text, const std::string& file) {
  LineReader lines(text, file);
  GoldenTiles golden;
  golden.origin = {lines.value("gpu"), lines.value("driver"), lines.value("toolkit"), lines.value("date"),
                   lines.value("command")};
  golden.instruction = lines.parse(find_instruction, lines.value("instruction"));
  golden.seed = lines.number(lines.value("seed"), 10, "seed");
  const std::uint64_t tiles = lines.number(lines.value("tiles"), 10, "number of tiles");
  const std::uint64_t full = lines.number(lines.value("full"), 10, "number of results");
  // Before anything is allocated: so many hashes and codes must be in the file.
  if (tiles > text.size() || full > text.size() || full % codes_a_line != 0)
    lines.fail("not the tiles or results that the file holds");
  while (golden.tiles.hashes.size() < tiles) {
    std::string_view line = lines.next();
    while (!line.empty()) {
      const std::size_t end = line.find(' ');
      golden.tiles.hashes.push_back(lines.number(line.substr(0, end), 16, "hash"));
      line.remove_prefix(end == std::string_view::npos ? line.size() : end + 1);
    }
  }
  if (golden.tiles.hashes.size() != tiles) lines.fail("more hashes than tiles");
  const auto digits = static_cast<std::size_t>(code_digits(golden.instruction));
  while (golden.tiles.full.size() < full) {
    const std::string_view line = lines.next();
    if (line.size() != codes_a_line * digits)
      lines.fail("a line has 64 codes of " + std::to_string(digits) + " digits");
    for (std::size_t c = 0; c < codes_a_line; ++c)
      golden.tiles.full.push_back(lines.number(line.substr(c * digits, digits), 16, "code"));
  }
  if (!lines.at_end()) lines.fail("text after the last result");
  return golden;
}

}  // namespace narrow

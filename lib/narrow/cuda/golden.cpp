#include "narrow/cuda/golden.hpp"

#include <charconv>
#include <string_view>

#include "narrow/base/error.hpp"

namespace narrow {

namespace {

constexpr std::size_t codes_a_line = 64;

// Lines of "# key value", then hashes, then results as hexadecimal codes.
class LineReader {
 public:
  LineReader(std::string_view text, std::string file) : rest_(text), file_(std::move(file)) {}

  bool at_end() const { return rest_.empty(); }
  std::string_view next() {
    if (rest_.empty()) fail("the file ends too early");
    const std::size_t end = rest_.find('\n');
    const std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
    ++number_;
    return line;
  }
  // "# gpu NVIDIA H200" gives the rest of the line after the key.
  std::string value(std::string_view key) {
    const std::string_view line = next();
    const std::string start = "# " + std::string(key) + " ";
    if (line.substr(0, start.size()) != start || line.size() == start.size()) fail("'" + start + "...' belongs here");
    return std::string(line.substr(start.size()));
  }
  std::uint64_t number(std::string_view word, int base, const char* what) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value, base);
    if (error != std::errc() || end != word.data() + word.size() || word.empty())
      fail(std::string("'") + std::string(word.substr(0, 24)) + "' is no " + what);
    return value;
  }
  [[noreturn]] void fail(const std::string& why) const {
    throw Error(file_ + ": line " + std::to_string(number_) + ": " + why);
  }

 private:
  std::string_view rest_;
  std::string file_;
  int number_ = 0;
};

std::string hex(std::uint64_t value, int digits) {
  std::string text(static_cast<std::size_t>(digits), '0');
  for (std::size_t i = text.size(); i-- > 0; value >>= 4) text[i] = "0123456789ABCDEF"[value & 15];
  return text;
}

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
  golden.instruction = find_instruction(lines.value("instruction"));
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

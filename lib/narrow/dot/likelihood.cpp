#include "narrow/dot/likelihood.hpp"

#include <string>

#include "narrow/base/error.hpp"
#include "narrow/text/quote.hpp"

namespace narrow {

namespace {

// Words that begin the name of a GPU. NVIDIA's compute capabilities: developer.nvidia.com/cuda-gpus.
struct GpuRow {
  Generation generation;
  std::string_view words;
};
constexpr GpuRow gpu_table[] = {
    {Generation::volta, "v100 sm_70 titanv"},
    {Generation::turing, "t4 rtx20 rtx60 rtx80 gtx16 sm_75"},
    {Generation::ampere, "a100 a800 a30 a40 a10 a16 a2 rtx30 rtxa sm_80 sm_86 orin"},
    {Generation::ada, "l4 l40 l40s l20 rtx40 ada sm_89"},
    {Generation::hopper, "h100 h200 h800 h20 gh200 sm_90"},
    {Generation::blackwell, "b100 b200 b300 gb200 gb300 sm_100 sm_103"},
    {Generation::rtx_blackwell, "rtx50 rtxpro sm_120 gb10"},
    {Generation::cdna1, "mi100 gfx908"},
    {Generation::cdna2, "mi210 mi250 mi200 gfx90a"},
    {Generation::cdna3, "mi300 mi325 gfx942 gfx940"},
};

// Letters and digits in lower case: "NVIDIA RTX 4090" and "rtx-4090" are one word.
std::string plain_word(std::string_view name) {
  std::string word;
  for (const char c : name) {
    if (c >= 'A' && c <= 'Z') word += static_cast<char>(c - 'A' + 'a');
    else if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) word += c;
  }
  for (const std::string_view maker : {"nvidia", "tesla", "quadro", "geforce", "amd", "instinct"})
    if (word.starts_with(maker)) word.erase(0, maker.size());
  return word;
}

}  // namespace

Generation gpu_generation(std::string_view name) {
  const std::string word = plain_word(name);
  for (int g = 0; g < static_cast<int>(Generation::software); ++g)
    if (plain_word(generation_name(static_cast<Generation>(g))) == word) return static_cast<Generation>(g);
  std::optional<Generation> found;
  std::size_t longest = 0;
  std::string accepted;
  for (const GpuRow& row : gpu_table) {
    accepted += (accepted.empty() ? "" : ", ") + std::string(generation_name(row.generation));
    for (std::string_view rest = row.words; !rest.empty();) {
      const std::size_t end = std::min(rest.find(' '), rest.size());
      const std::string known = plain_word(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
      if (known.size() <= longest || !word.starts_with(known)) continue;
      const std::string_view after = std::string_view(word).substr(known.size());
      // "a100" is no a10; "rtx4090" is an rtx40, "h100nvl" an h100.
      if (!after.empty() && after[0] >= '0' && after[0] <= '9' && !known.starts_with("rtx") && !known.starts_with("gtx")) continue;
      found = row.generation, longest = known.size();
    }
  }
  if (found) return *found;
  // "NVIDIA H100 80GB HBM3": without the last word.
  if (const std::size_t space = name.find_last_of(" -_"); space != std::string_view::npos && space > 0) {
    try {
      return gpu_generation(name.substr(0, space));
    } catch (const Error&) {  // the whole name is what was asked
    }
  }
  throw Error("GPU " + quote(name) + " is unknown; accepted: " + accepted + ", or a GPU such as h200, a100, rtx 4090, mi300x, sm_90");
}

}  // namespace narrow

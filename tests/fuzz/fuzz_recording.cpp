// Any text as a recording of an instruction, and as a contributed file (its first lines, which are always the same, are
// put before it). What is accepted writes and reads again as the same; its dot products can be computed again.
#include "fuzz/read_all.hpp"
#include "narrow/golden/golden.hpp"
#include "narrow/golden/share.hpp"

namespace {

template <class Read, class Write>
void check(const std::string& text, const Read& read, const Write& write) {
  decltype(read(text, "")) file;
  try {
    file = read(text, "a.txt");
  } catch (const narrow::Error& error) {
    return fuzz::check_message(error.what());
  }
  const std::string written = write(file);
  fuzz::require(write(read(written, "again")) == written);
  if constexpr (std::is_same_v<decltype(file), narrow::ShareFile>) narrow::replay_share(file, 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string all = narrow::write_share({}), help = all.substr(0, all.find("# gpu "));
  const std::string text(reinterpret_cast<const char*>(data), size);
  check(text, narrow::read_golden_tiles, narrow::write_golden_tiles);
  check(help + text, narrow::read_share, narrow::write_share);
  return 0;
}

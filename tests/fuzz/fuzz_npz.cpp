// Any bytes as .npz. Input that does not begin with 'P' is one member of a good archive: 'S' and its bytes, or 'D',
// four bytes of declared size, and a deflated stream.
#include "fuzz/read_all.hpp"
#include "narrow/tensor/npz.hpp"
#include "tensor/archive.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string file(reinterpret_cast<const char*>(data), size);
  if (file.starts_with('S')) {
    file = test::archive({test::stored("a.npy", file.substr(1))});
  } else if (file.starts_with('D') && size >= 5) {
    const std::uint64_t declared = data[1] | data[2] << 8 | data[3] << 16;
    file =
        test::archive({{.name = "a.npy", .data = file.substr(5), .method = 8, .size = declared, .flags = data[4] & 8}});
  }
  fuzz::run([&] { return narrow::read_npz(test::in_memory(file)); });
  return 0;
}

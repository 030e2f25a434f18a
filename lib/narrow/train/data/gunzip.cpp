#include "narrow/train/data/gunzip.hpp"

#include <zlib.h>

#include <limits>
#include <new>

#include "narrow/base/error.hpp"

namespace narrow::train {

namespace {

struct Inflater {
  z_stream stream{};
  Inflater() {
    if (inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK) throw std::bad_alloc();  // 16: with gzip's header and checksum
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream); }
};

}  // namespace

// The output grows with what has really come out: a header that lies costs nothing.
std::vector<std::byte> gunzip(std::span<const std::byte> compressed, std::size_t limit, const std::string& name) {
  const auto fail = [&](const std::string& what) { throw Error(name + ": " + what); };
  if (compressed.size() > std::numeric_limits<uInt>::max()) fail("larger than a gzip stream may be here (4 GiB)");
  Inflater inflater;
  z_stream& stream = inflater.stream;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(compressed.data()));
  stream.avail_in = static_cast<uInt>(compressed.size());
  std::vector<std::byte> out;
  constexpr std::size_t piece = std::size_t{1} << 18;
  for (int status = Z_OK; status != Z_STREAM_END;) {
    const std::size_t had = out.size();
    out.resize(had + piece);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + had);
    stream.avail_out = static_cast<uInt>(piece);
    status = inflate(&stream, Z_NO_FLUSH);
    out.resize(had + piece - stream.avail_out);
    if (status == Z_MEM_ERROR) throw std::bad_alloc();
    if (status == Z_DATA_ERROR) fail("no gzip stream, or a damaged one");
    if (status != Z_STREAM_END && stream.avail_out != 0) fail("the gzip stream is cut off");
    if (out.size() > limit) fail("holds more than the " + std::to_string(limit) + " bytes expected");
  }
  return out;
}

}  // namespace narrow::train

// As much of zlib as the readers of .npz and .gz use, because Debian has none for wasm: RFC 1951, and the header and
// end of RFC 1952. Input that stops in the middle of something is kept, and that something is begun again with more.
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <vector>

#include "narrow/tensor/crc32.hpp"

namespace {

struct Short {};    // more input is needed
struct Damaged {};  // no deflated data

// Canonical codes: how many there are of each length, and the symbols in their order.
struct Code {
  std::array<std::uint16_t, 16> count{};
  std::array<std::uint16_t, 288> symbol{};

  // Codes that leave words without a meaning are damage, but for a single one of one bit (not `of_lengths`) and none.
  void make(const std::uint8_t* lengths, int symbols, bool of_lengths = false) {
    count.fill(0);
    for (int i = 0; i < symbols; ++i) ++count[lengths[i]];
    count[0] = 0;
    int left = 1, longest = 0;
    for (int length = 1; length < 16; ++length) {
      if ((left = 2 * left - count[static_cast<std::size_t>(length)]) < 0) throw Damaged();
      if (count[static_cast<std::size_t>(length)] != 0) longest = length;
    }
    if (left > 0 && longest > 0 && (of_lengths || longest > 1)) throw Damaged();
    std::array<std::uint16_t, 17> at{};
    for (std::size_t length = 1; length < 16; ++length)
      at[length + 1] = static_cast<std::uint16_t>(at[length] + count[length]);
    for (int i = 0; i < symbols; ++i)
      if (lengths[i] != 0) symbol[at[lengths[i]]++] = static_cast<std::uint16_t>(i);
  }
};

constexpr std::array<std::uint16_t, 29> length_base = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                                       31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
constexpr std::array<std::uint8_t, 29> length_bits = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                                      2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
constexpr std::size_t window = 32768;

}  // namespace

// A new stream is a copy of nothing; inflateCopy copies all of it.
struct internal_state {
  bool gzip = false;
  enum class At { start, block, stored, codes, end, done } at = At::start;
  bool last = false;
  std::vector<std::uint8_t> input;
  std::size_t next = 0;  // byte in input
  std::uint32_t held = 0;
  int bits = 0;
  Code lengths, distances;
  std::size_t stored = 0;              // bytes of a stored block that are left
  std::size_t copy = 0, distance = 0;  // of a match that is not yet written
  std::array<std::uint8_t, window> past{};
  std::uint64_t written = 0;
  std::uint32_t crc = 0;  // of what gzip packed

  std::uint32_t take(int count) {
    while (bits < count) {
      if (next == input.size()) throw Short();
      held |= static_cast<std::uint32_t>(input[next++]) << bits;
      bits += 8;
    }
    const std::uint32_t value = held & ((1u << count) - 1);
    held >>= count, bits -= count;
    return value;
  }
  int symbol_of(const Code& code) {
    int value = 0, first = 0, index = 0;
    for (std::size_t length = 1; length < 16; ++length) {
      value |= static_cast<int>(take(1));
      const int count = code.count[length];
      if (value - count < first) return code.symbol[static_cast<std::size_t>(index + value - first)];
      index += count, first = (first + count) << 1, value <<= 1;
    }
    throw Damaged();
  }
  void read_codes() {
    std::array<std::uint8_t, 320> length{};
    const int literals = static_cast<int>(take(5)) + 257, distances_count = static_cast<int>(take(5)) + 1;
    const int given = static_cast<int>(take(4)) + 4;
    if (literals > 286 || distances_count > 30) throw Damaged();
    constexpr std::array<std::uint8_t, 19> order = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    for (int i = 0; i < given; ++i) length[order[static_cast<std::size_t>(i)]] = static_cast<std::uint8_t>(take(3));
    Code code;
    code.make(length.data(), 19, true);
    length.fill(0);
    for (int i = 0; i < literals + distances_count;) {
      const int symbol = symbol_of(code);
      if (symbol < 16) {
        length[static_cast<std::size_t>(i++)] = static_cast<std::uint8_t>(symbol);
        continue;
      }
      if (symbol == 16 && i == 0) throw Damaged();
      const std::uint8_t value = symbol == 16 ? length[static_cast<std::size_t>(i - 1)] : 0;
      int times = symbol == 16   ? 3 + static_cast<int>(take(2))
                  : symbol == 17 ? 3 + static_cast<int>(take(3))
                                 : 11 + static_cast<int>(take(7));
      if (i + times > literals + distances_count) throw Damaged();
      while (times-- > 0) length[static_cast<std::size_t>(i++)] = value;
    }
    if (length[256] == 0) throw Damaged();
    lengths.make(length.data(), literals);
    distances.make(length.data() + literals, distances_count);
  }
  void fixed_codes() {
    std::array<std::uint8_t, 288> length{};
    for (std::size_t i = 0; i < 288; ++i) length[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
    lengths.make(length.data(), 288);
    std::array<std::uint8_t, 32> five{};
    five.fill(5);
    distances.make(five.data(), 32);
  }
  void begin_block() {
    last = take(1) != 0;
    const std::uint32_t type = take(2);
    if (type == 3) throw Damaged();
    if (type == 0) {
      held >>= bits % 8, bits -= bits % 8;
      const std::uint32_t size = take(16), inverse = take(16);
      if ((size ^ inverse) != 0xFFFF) throw Damaged();
      stored = size, at = At::stored;
      return;
    }
    if (type == 1) fixed_codes();
    else read_codes();
    at = At::codes;
  }
  void end_block() { at = last ? At::end : At::block; }
  void put(z_stream& out, std::uint8_t byte) {
    *out.next_out++ = byte;
    --out.avail_out, ++out.total_out;
    past[written++ % window] = byte;
  }
  void one_symbol(z_stream& out) {
    const int symbol = symbol_of(lengths);
    if (symbol < 256) return put(out, static_cast<std::uint8_t>(symbol));
    if (symbol == 256) return end_block();
    if (symbol > 285) throw Damaged();
    const auto k = static_cast<std::size_t>(symbol - 257);
    const std::size_t length = length_base[k] + take(length_bits[k]);
    const int code = symbol_of(distances);
    if (code > 29) throw Damaged();
    const int extra = code < 2 ? 0 : code / 2 - 1;
    const std::size_t base =
        code < 2 ? static_cast<std::size_t>(code) + 1 : ((2u + (static_cast<unsigned>(code) & 1)) << extra) + 1;
    distance = base + take(extra);
    if (distance > window || distance > written) throw Damaged();
    copy = length;
  }
  void gzip_start() {
    if (take(8) != 0x1F || take(8) != 0x8B || take(8) != 8) throw Damaged();
    const std::uint32_t flags = take(8);
    if ((flags & 0xE0) != 0) throw Damaged();  // reserved
    for (int i = 0; i < 6; ++i) take(8);
    if ((flags & 4) != 0)
      for (std::uint32_t rest = take(16); rest > 0; --rest) take(8);
    for (const std::uint32_t text : {8u, 16u})
      if ((flags & text) != 0)
        while (take(8) != 0) {
        }
    if ((flags & 2) != 0) take(16);
  }
  // One thing; what it has read counts only when it had all of it.
  void step(z_stream& out) {
    switch (at) {
      case At::start:
        if (gzip) gzip_start();
        at = At::block;
        return;
      case At::block: return begin_block();
      case At::stored:
        if (stored == 0) return end_block();
        put(out, static_cast<std::uint8_t>(take(8)));
        --stored;
        return;
      case At::codes: return one_symbol(out);
      case At::end:
        held >>= bits % 8, bits -= bits % 8;
        if (gzip) {
          std::uint32_t word[2] = {};
          for (int i = 0; i < 4; ++i) word[i / 2] |= take(16) << i % 2 * 16;
          if (word[0] != crc || word[1] != static_cast<std::uint32_t>(written)) throw Damaged();
        }
        at = At::done;
        return;
      case At::done: return;
    }
  }
};

extern "C" {

int inflateInit2_(z_streamp stream, int bits, const char*, int) {
  auto* state = new (std::nothrow) internal_state;
  if (state == nullptr) return Z_MEM_ERROR;
  state->gzip = bits > 15;
  stream->state = state;
  stream->total_in = stream->total_out = 0;
  return Z_OK;
}

int inflateEnd(z_streamp stream) {
  delete stream->state;
  stream->state = nullptr;
  return Z_OK;
}

int inflateReset(z_streamp stream) {
  const bool gzip = stream->state->gzip;
  *stream->state = internal_state();
  stream->state->gzip = gzip;
  stream->total_in = stream->total_out = 0;
  return Z_OK;
}

int inflateCopy(z_streamp to, z_streamp from) {
  *to = *from;
  to->state = new (std::nothrow) internal_state(*from->state);
  return to->state == nullptr ? Z_MEM_ERROR : Z_OK;
}

int inflate(z_streamp stream, int) {
  internal_state& state = *stream->state;
  if (state.at == internal_state::At::done) return Z_STREAM_END;
  state.input.erase(state.input.begin(), state.input.begin() + static_cast<std::ptrdiff_t>(state.next));
  state.next = 0;
  // Not more than this call can use: what is left over is copied again.
  const uInt left = stream->avail_out, fed = std::min(stream->avail_in, stream->avail_out + 1024);
  state.input.insert(state.input.end(), stream->next_in, stream->next_in + fed);
  const Bytef* fresh = stream->next_out;  // what the checksum has not seen yet
  const auto checked = [&] {
    const auto size = static_cast<std::size_t>(stream->next_out - fresh);
    if (state.gzip) state.crc = narrow::crc32_of(state.crc, std::as_bytes(std::span(fresh, size)));
    fresh = stream->next_out;
  };
  stream->next_in += fed, stream->total_in += fed, stream->avail_in -= fed;
  try {
    for (;;) {
      while (state.copy > 0 && stream->avail_out > 0) {
        state.put(*stream, state.past[(state.written - state.distance) % window]);
        --state.copy;
      }
      // The end of a block needs no room.
      if (state.copy > 0 || (stream->avail_out == 0 && state.at != internal_state::At::end)) break;
      if (state.at == internal_state::At::end) checked();
      const std::size_t next = state.next;
      const std::uint32_t held = state.held;
      const int bits = state.bits;
      try {
        state.step(*stream);
      } catch (const Short&) {
        state.next = next, state.held = held, state.bits = bits;
        checked();
        return stream->avail_out == left && fed == 0 ? Z_BUF_ERROR : Z_OK;  // what was fed stays here
      }
      if (state.at == internal_state::At::done) {
        const std::size_t rest = state.input.size() - state.next + static_cast<std::size_t>(state.bits / 8);
        stream->next_in -= rest, stream->total_in -= rest, stream->avail_in += static_cast<uInt>(rest);
        return Z_STREAM_END;
      }
    }
  } catch (const Damaged&) {
    stream->total_in -= state.input.size() - state.next;  // where it was noticed
    return Z_DATA_ERROR;
  }
  checked();
  // There was no more room: what is not yet used is given back, for those who count the input by total_in.
  const std::size_t rest = std::min<std::size_t>(state.input.size() - state.next, fed);
  stream->next_in -= rest, stream->total_in -= rest, stream->avail_in += static_cast<uInt>(rest);
  state.input.resize(state.input.size() - rest);
  return Z_OK;
}

}  // extern "C"

#include "narrow/cluster/wire.hpp"

#include <doctest/doctest.h>

#include "cluster/orders.hpp"
#include "narrow/format/format_table.hpp"

using namespace narrow::cluster;

namespace {

void check_message(const Wire& wire) {
  for (const std::size_t size : {0, 1, 5, 33, 257}) {
    const std::vector<float> values = test::make_ranks(1, size, true)[0];
    std::vector<float> sent = values, rounded = values, got(size, -1);
    const std::vector<std::byte> message = pack(sent, wire, 0);
    round_values(rounded, wire, 0);
    CHECK(message.size() == packed_bytes(size, wire));
    unpack(message, wire, got);
    CHECK(test::same_bits(sent, got));
    CHECK(test::same_bits(sent, rounded));
    CHECK(test::same_bits(sent, test::rounding_of(wire)(values)));
    CHECK_THROWS_AS(unpack(std::vector<std::byte>(message.size() + 1), wire, got), narrow::Error);
  }
}

}  // namespace

TEST_CASE("cluster: a message holds the values of its format, of every row of the tables") {
  std::size_t tried = 0;
  for (const narrow::NamedFormat& row : narrow::format_table) {
    const narrow::Format& f = row.format;
    if (!f.has_sign || !f.has_zero || f.mantissa_bits > 23 || f.exponent_bits > 8) continue;
    CAPTURE(std::string(row.name));
    check_message({f});
    if (f != narrow::operator""_fmt("fp32", 4))
      check_message({f, {.overflow = narrow::Overflow::saturate, .nan = narrow::Nan::quiet}});
    ++tried;
  }
  CHECK(tried > 10);
  for (const narrow::BlockFormatRow& row : narrow::block_format_table()) {
    CAPTURE(std::string(row.name));
    check_message(require_wire(row.name));
  }
}

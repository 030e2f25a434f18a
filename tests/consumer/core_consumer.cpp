// Links narrow::core only: everything here is in headers and known at compile time.
#include <narrow/arith/number.hpp>
#include <narrow/round/named_cast.hpp>
#include <narrow/round/round_to.hpp>

using namespace narrow;

static_assert(encode(0.1, "fp16"_fmt) == 0x2E66);
static_assert(round_to<"e4m3"_fmt, Cast{.overflow = Overflow::saturate}>(1000.0f) == 448.0f);
static_assert(decode(0x7E, "e4m3"_fmt) == 448);

int main() { return encode(465.0, "e4m3"_fmt, named_cast("torch", "e4m3"_fmt)) == 0x7F ? 0 : 1; }

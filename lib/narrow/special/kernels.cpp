#include "narrow/special/kernels.hpp"

#include <array>

#include "narrow/simd/target.hpp"
#include "narrow/special/coefficients.hpp"

namespace narrow::detail {

#define NARROW_DECLARE(target)                 \
  namespace target {                           \
  extern const SpecialKernels special_kernels; \
  }
NARROW_TARGETS(NARROW_DECLARE)
#undef NARROW_DECLARE

const SpecialKernels& special_kernels() {
#define NARROW_ROW(target) &target::special_kernels,
  static constexpr const SpecialKernels* rows[] = {NARROW_TARGETS(NARROW_ROW)};
#undef NARROW_ROW
  return *rows[simd::current_target()];
}

namespace {

template <std::size_t N>
constexpr std::array<std::uint64_t, N> packed(const Coefficients (&rows)[N]) {
  std::array<std::uint64_t, N> out{};
  for (std::size_t i = 0; i < N; ++i)
    out[i] = rows[i].c0 | std::uint64_t{rows[i].c1} << 32 | std::uint64_t{rows[i].c2} << 52;
  return out;
}
constexpr auto ex2_words = packed(ex2_rows), lg2_words = packed(lg2_rows);
constexpr auto rcp_words = packed(rcp_rows), rsqrt_words = packed(rsqrt_rows), sqrt_words = packed(sqrt_rows);

}  // namespace

const SpecialTables& special_tables() {
  static constexpr SpecialTables tables{ex2_words.data(), lg2_words.data(), rcp_words.data(), rsqrt_words.data(),
                                        sqrt_words.data()};
  return tables;
}

}  // namespace narrow::detail

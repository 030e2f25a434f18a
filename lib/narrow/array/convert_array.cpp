#include "narrow/array/array.hpp"

#include <vector>

#include "narrow/array/parts.hpp"
#include "narrow/base/parallel.hpp"
#include "narrow/base/random.hpp"
#include "narrow/round/convert.hpp"

namespace narrow {

// A source of at most 16 bits has at most 65536 answers: worth a table when there are more elements than that.
template <class In, class Out>
void convert_array(std::span<const In> in, const Format& from, std::span<Out> out, const Format& to, const Cast& cast,
                   std::uint64_t seed, int threads) {
  detail::check_spans(in.size(), out.size(), from);
  detail::check_spans(in.size(), out.size(), to);
  detail::check_overlap(in, out);
  detail::check_cast(cast);
  detail::check_code_type(from, sizeof(In));
  detail::check_code_type(to, sizeof(Out));
  const Code mask = from.code_mask();
  const bool stochastic = cast.rounding == Rounding::stochastic;
  std::vector<Out> table;
  if (!stochastic && from.width() <= 16 && in.size() > mask) {
    table.resize(static_cast<std::size_t>(mask) + 1);
    for (Code code = 0; code <= mask; ++code) table[code] = static_cast<Out>(convert(code, from, to, cast));
  }
  parallel_parts(in.size(), detail::part_size, threads, [&](std::size_t begin, std::size_t end) {
    if (!table.empty()) {
      for (std::size_t i = begin; i < end; ++i) out[i] = table[in[i] & mask];
      return;
    }
    for (std::size_t i = begin; i < end; ++i)
      out[i] = static_cast<Out>(convert(in[i] & mask, from, to, cast, stochastic ? random_bits(seed, i) : 0));
  });
}

template void convert_array(std::span<const std::uint8_t>, const Format&, std::span<std::uint8_t>, const Format&, const Cast&,
                            std::uint64_t, int);
template void convert_array(std::span<const std::uint8_t>, const Format&, std::span<std::uint16_t>, const Format&, const Cast&,
                            std::uint64_t, int);
template void convert_array(std::span<const std::uint8_t>, const Format&, std::span<std::uint32_t>, const Format&, const Cast&,
                            std::uint64_t, int);
template void convert_array(std::span<const std::uint8_t>, const Format&, std::span<std::uint64_t>, const Format&, const Cast&,
                            std::uint64_t, int);
template void convert_array(std::span<const std::uint16_t>, const Format&, std::span<std::uint8_t>, const Format&, const Cast&,
                            std::uint64_t, int);
template void convert_array(std::span<const std::uint16_t>, const Format&, std::span<std::uint16_t>, const Format&, const Cast&,
                            std::uint64_t, int);
template void convert_array(std::span<const std::uint16_t>, const Format&, std::span<std::uint32_t>, const Format&, const Cast&,
                            std::uint64_t, int);
template void convert_array(std::span<const std::uint16_t>, const Format&, std::span<std::uint64_t>, const Format&, const Cast&,
                            std::uint64_t, int);
template void convert_array(std::span<const std::uint32_t>, const Format&, std::span<std::uint8_t>, const Format&, const Cast&,
                            std::uint64_t, int);
template void convert_array(std::span<const std::uint32_t>, const Format&, std::span<std::uint16_t>, const Format&, const Cast&,
                            std::uint64_t, int);
template void convert_array(std::span<const std::uint32_t>, const Format&, std::span<std::uint32_t>, const Format&, const Cast&,
                            std::uint64_t, int);
template void convert_array(std::span<const std::uint32_t>, const Format&, std::span<std::uint64_t>, const Format&, const Cast&,
                            std::uint64_t, int);
template void convert_array(std::span<const std::uint64_t>, const Format&, std::span<std::uint8_t>, const Format&, const Cast&,
                            std::uint64_t, int);
template void convert_array(std::span<const std::uint64_t>, const Format&, std::span<std::uint16_t>, const Format&, const Cast&,
                            std::uint64_t, int);
template void convert_array(std::span<const std::uint64_t>, const Format&, std::span<std::uint32_t>, const Format&, const Cast&,
                            std::uint64_t, int);
template void convert_array(std::span<const std::uint64_t>, const Format&, std::span<std::uint64_t>, const Format&, const Cast&,
                            std::uint64_t, int);

}  // namespace narrow

// From the words of a matrix to the codes that the multiplier sees.
#pragma once

#include <vector>

#include "narrow/dot/gemm.hpp"
#include "narrow/dot/plan.hpp"
#include "narrow/round/convert.hpp"
#include "narrow/round/named_cast.hpp"
#include "narrow/round/round_to.hpp"

namespace narrow::detail {

// TF32 travels as the FP32 word; every other code as it is.
struct OperandCodes {
  CodeMatrix matrix;
  Format format;
  bool is_word = false;
  Operands prepare = Operands::cut;
  bool widens = false;  // FP8 to fp16 codes, as mma.sync does: `format` is then fp16
  Format narrow_format = {};
  Cast cast = {};

  OperandCodes(const CodeMatrix& m, const Format& f, Operands operands, bool widen = false)
      : matrix(m), format(widen ? "fp16"_fmt : f), prepare(operands), widens(widen), narrow_format(f) {
    is_word = f == "tf32"_fmt;
    if (is_word && operands != Operands::cut)
      cast = named_cast("cuda", f, operands == Operands::nearest_even ? Rounding::nearest_even : Rounding::nearest_away);
  }
  Code prepared(Code raw) const {
    if (widens) return convert(raw & narrow_format.code_mask(), narrow_format, format);
    if (!is_word) return raw & format.code_mask();
    if (prepare == Operands::cut) return static_cast<std::uint32_t>(raw) >> 13;
    return encode(std::bit_cast<float>(static_cast<std::uint32_t>(raw)), format, cast);
  }
  Code operator()(std::size_t i, std::size_t j) const { return prepared(matrix(i, j)); }
};

// Calls work with a typed pointer to the codes, so that loops know their width.
template <class Work>
void with_codes(const CodeMatrix& m, const Work& work) {
  switch (m.code_bytes) {
    case 1: return work(static_cast<const std::uint8_t*>(m.data));
    case 2: return work(static_cast<const std::uint16_t*>(m.data));
    case 4: return work(static_cast<const std::uint32_t*>(m.data));
    default: return work(static_cast<const std::uint64_t*>(m.data));
  }
}

}  // namespace narrow::detail

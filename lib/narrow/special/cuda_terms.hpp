// The polynomials of CUDA's logf, tanhf and erff: words of their FP32 coefficients, the highest power first. Types, so
// that scalars, lanes and kernels of a GPU read the same ones.
#pragma once

#include <stdint.h>

namespace narrow::detail {

template <uint32_t... words>
struct Terms {};

// Of f in logf.
using LogTerms =
    Terms<0xBE055027, 0x3E1039F6, 0xBDF8CDCC, 0x3E0F2955, 0xBE2AD8B9, 0x3E4CED0B, 0xBE7FFF22, 0x3EAAAA78, 0xBF000000>;
// Of x^2 in tanhf, where |x| < 0.6.
using TanhTerms = Terms<0x3C80F082, 0xBD563CAE, 0x3E085941, 0xBEAAA9ED>;
// Of x^2 in erff, where |x| < 1.003, and of |x| beyond.
using NearErfTerms = Terms<0x38B1E96A, 0xBA574D20, 0x3BAAD5EA, 0xBCDC1BE7, 0x3DE718AF, 0xBEC093AC, 0x3E0375D3>;
using FarErfTerms = Terms<0x38EB4C3A, 0xBAAE005B, 0x3C09919F, 0xBD24D99A, 0x3E235519, 0x3F69B4F9, 0x3F210A14>;

}  // namespace narrow::detail

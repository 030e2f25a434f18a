// What passes leave of a piece, member by member, for piece_log.hpp.
#pragma once

#include "narrow/scale/block_format.hpp"
#include "narrow/tensor/compare_tensors.hpp"
#include "narrow/tensor/tensor_statistics.hpp"

namespace narrow {

template <class Archive>
void members(Archive& archive, Statistics& s) {
  archive(s.input, s.formats, s.scale);
}
template <class Archive>
void members(Archive& archive, BinadeCounts& c) {
  archive(c.min_exponent, c.binades, c.zero, c.subnormal, c.inf, c.nan);
}
template <class Archive>
void members(Archive& archive, BinadeFates& f) {
  archive(f.min_exponent, f.binades);
}
template <class Archive>
void members(Archive& archive, ScaleSpread& s) {
  archive(s.blocks, s.zeros, s.non_finite, s.by_log2);
}
template <class Archive>
void members(Archive& archive, BlockFormatStatistics& s) {
  archive(s.input, s.elements, s.scales, s.fates);
}
template <class Archive>
void members(Archive& archive, Comparison& c) {
  archive(c.format, c.has_ulp, c.total, c.equal, c.nan_mismatch, c.nan_payload, c.zero_sign_mismatch, c.max_ulp,
          c.by_ulp, c.first, c.worst, c.outside, c.max_abs, c.max_rel);
}

}  // namespace narrow

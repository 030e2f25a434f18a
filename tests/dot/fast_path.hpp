// gemm()'s fast path against dot(): as many dot products as asked for, of every family, for one arithmetic.
#pragma once

#include "dot/matrices.hpp"
#include "dot/quick.hpp"
#include "narrow/base/parallel.hpp"
#include "support/mismatches.hpp"

namespace test {

inline Code by_dot(const DotModel& m, const Problem& p, std::size_t i, std::size_t j) {
  const Code c = p.c[i * p.cols + j];
  if (m.is_block_scaled()) return narrow::dot_scaled(m, p.row(i), p.col(j), p.row_scales(m, i), p.col_scales(m, j), c);
  return narrow::dot(m, p.row(i), p.col(j), c);
}

inline std::string words(const DotModel& m, const Problem& p, std::size_t i, std::size_t j) {
  std::string text = "output " + std::to_string(i) + "," + std::to_string(j) + ", a";
  for (const Code a : p.row(i)) text += " " + hex(a);
  text += " b";
  for (const Code b : p.col(j)) text += " " + hex(b);
  return text + " c " + hex(p.c[i * p.cols + j]) + ", " + std::string(m.name.view());
}

// All outputs against quick(), where it has an answer; one in 32, and where it has none, against dot().
template <class Quick>
void compare_outputs(const DotModel& m, const Problem& p, const Matrix& d, const Quick& quick, Mismatches& wrong) {
  for (std::size_t i = 0; i < p.rows; ++i)
    for (std::size_t j = 0; j < p.cols; ++j) {
      const Code got = d.get(i, j);
      const std::optional<Code> want = quick(i, j);
      if (want && *want != got)
        wrong.add([&] { return words(m, p, i, j) + ": gemm " + hex(got) + ", expected " + hex(*want); });
      if (want && (i * 7 + j) % 32 != 0) continue;
      const Code scalar = by_dot(m, p, i, j);
      if (scalar != got) wrong.add([&] { return words(m, p, i, j) + ": gemm " + hex(got) + ", dot " + hex(scalar); });
    }
}

// One product of matrices, all outputs compared. Returns how many.
inline std::uint64_t compare_fast_path(const DotModel& m, Family family, std::size_t rows, std::size_t cols,
                                       std::size_t k, std::uint64_t seed, Mismatches& wrong) {
  const Problem p = make_problem(m, family, rows, cols, k, seed);
  const Matrix d = product(m, {}, Matrices(m, p), true, {.threads = 1});
  using narrow::DotRule;
  const Format& acc = m.accumulator.format;
  const bool native = m.rule == DotRule::fma_chain || m.rule == DotRule::multiply_add || m.rule == DotRule::pairwise ||
                      m.rule == DotRule::kahan;
  if (m.rule == DotRule::fused || m.rule == DotRule::fused_pair_then_add)
    compare_outputs(m, p, d, QuickFused(m, p), wrong);
  else if (native && acc == narrow::find_format("fp32").value() && m.a.format.mantissa_bits <= 23)
    compare_outputs(m, p, d, QuickNative<float>(m, p), wrong);
  else if (native && acc == narrow::find_format("fp64").value())
    compare_outputs(m, p, d, QuickNative<double>(m, p), wrong);
  else
    compare_outputs(
        m, p, d, [&](std::size_t i, std::size_t j) { return std::optional(by_dot(m, p, i, j)); }, wrong);
  return rows * cols;
}

// The lengths of K: one step, two and a bit, and what fills part of a step.
inline std::size_t fast_path_length(const DotModel& m, std::uint64_t n) {
  const auto step = static_cast<std::size_t>(std::max(m.products_per_step, 2));
  switch (n % 12) {
    case 0: return 2 * step + 1;
    case 4: return static_cast<std::size_t>(std::max(m.instruction_k, 3));
    case 8: return step;
    default: return 1 + n % std::min<std::size_t>(step, 6);
  }
}

// Whether gemm() has a way of its own for this rule; for the others it calls dot(), and there is nothing to compare.
inline bool has_fast_path(const DotModel& m) {
  using narrow::DotRule;
  switch (m.rule) {
    case DotRule::block_fused:
    case DotRule::block_groups:
    case DotRule::integer_saturating:
    case DotRule::exact:
    case DotRule::flushed_pairs:
    case DotRule::two_stage:
    case DotRule::two_stage_halves: return false;
    case DotRule::fma_chain:
    case DotRule::pairwise:
    case DotRule::kahan: return m.accumulator.format.mantissa_bits >= 23;
    default: return true;
  }
}

// At least `count` dot products over all families.
inline std::uint64_t sweep_fast_path(const DotModel& m, std::uint64_t count, std::uint64_t seed, Mismatches& wrong) {
  std::uint64_t done = 0;
  for (std::uint64_t n = 0; done < count; ++n) {
    const Family family = families[n % std::size(families)];
    // Outputs that do not fill the lanes, too.
    const std::size_t rows = n % 5 == 0 ? 61 : 128, cols = n % 7 == 0 ? 83 : 128;
    done += compare_fast_path(m, family, rows, cols, fast_path_length(m, n + n / std::size(families)), seed + n, wrong);
  }
  return done;
}

}  // namespace test

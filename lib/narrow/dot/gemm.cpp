#include "narrow/dot/gemm.hpp"

#include "narrow/base/error.hpp"
#include "narrow/dot/chain_by_dot.hpp"
#include "narrow/dot/engines.hpp"
#include "narrow/dot/epilogue.hpp"
#include "narrow/dot/gemm_checks.hpp"

namespace narrow {

namespace {

using detail::lane_columns;
using detail::Product;

// D in the width of its codes.
struct Sink {
  void* data;
  int code_bytes;
  std::size_t pitch;
  Layout layout;

  void store(std::size_t i, std::size_t j, Code code) const {
    const std::size_t at = layout == Layout::row_major ? i * pitch + j : j * pitch + i;
    switch (code_bytes) {
      case 1: static_cast<std::uint8_t*>(data)[at] = static_cast<std::uint8_t>(code); break;
      case 2: static_cast<std::uint16_t*>(data)[at] = static_cast<std::uint16_t>(code); break;
      case 4: static_cast<std::uint32_t*>(data)[at] = static_cast<std::uint32_t>(code); break;
      default: static_cast<std::uint64_t*>(data)[at] = code; break;
    }
  }
};

// A part of the output whose sums are cut alike: all of it, but for stream-K.
struct Block {
  Schedule schedule;
  std::size_t row, rows, col, cols;
};

// One output through dot(), chain after chain.
class OneByOne {
 public:
  OneByOne(const Product& p, const Block& block)
      : p_(p), block_(block), a_(p.a, p.model.a.format, p.plan.operands), b_(p.b, p.model.b.format, p.plan.operands) {}

  Code operator()(std::size_t i, std::size_t j) const {
    const Format& accumulator = p_.model.accumulator.format;
    if (p_.model.is_integer()) return joined<std::int32_t>(i, j);
    const bool fits_float = accumulator.mantissa_bits <= 23 && accumulator.exponent_bits <= 8;
    return fits_float ? joined<float>(i, j) : joined<double>(i, j);
  }

 private:
  template <class Sum>
  Code joined(std::size_t i, std::size_t j) const {
    const Schedule& schedule = block_.schedule;
    const Format& accumulator = p_.model.accumulator.format;
    const Code start = p_.c_starts() ? convert(p_.c(i, j), p_.c_format, accumulator) : accumulator.zero_code();
    std::vector<Sum> parts;
    const auto k_at = [&](std::size_t at) { return schedule.order[at]; };
    for (const Segment& chain : schedule.segments) {
      const Code code = detail::chain_by_dot(p_, a_, b_, i, j, k_at, chain.begin, chain.end,
                                             parts.empty() ? start : accumulator.zero_code());
      if (p_.is_plain()) return code;
      parts.push_back(detail::to_sum(code, accumulator, Sum{}));
    }
    return detail::finish(p_, detail::join_parts(p_, schedule, parts.data(), 1, i, j), i, j);
  }

  const Product& p_;
  const Block& block_;
  detail::OperandCodes a_, b_;
};

void run_one_by_one(const Product& p, const Block& block, const Sink& d) {
  const OneByOne output(p, block);
  parallel_parts(block.rows * block.cols, 64, p.options.threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t at = begin; at < end; ++at) {
      const std::size_t i = block.row + at / block.cols, j = block.col + at % block.cols;
      d.store(i, j, output(i, j));
    }
  });
}

// Rows in fours, columns in sixteens, each through the engine; what it is not sure of through dot().
template <class Engine>
void run_engine(const Product& p, const Block& block, const Sink& d, const Engine& engine) {
  using Sum = typename Engine::Sum;
  constexpr std::size_t unit_rows = 32;
  const OneByOne exact(p, block);
  const std::size_t panels = (block.cols + lane_columns - 1) / lane_columns;
  const std::size_t row_units = (block.rows + unit_rows - 1) / unit_rows;
  const bool is_word = p.is_plain() && sizeof(Sum) == 4 && p.output.width() == 32;  // the sum's word is the code
  const auto word_of = [](Sum sum) -> Code {
    if constexpr (sizeof(Sum) == 4) return std::bit_cast<std::uint32_t>(sum);
    else return 0;
  };
  parallel_parts(panels * row_units, 1, p.options.threads, [&](std::size_t unit, std::size_t) {
    constexpr std::size_t tile = Engine::max_rows * lane_columns;
    std::vector<Sum> sums(block.schedule.segments.size() * tile), start(tile);
    std::uint8_t unsure[tile];
    const std::size_t panel = unit / row_units, first = unit % row_units * unit_rows;
    const std::size_t last = std::min(block.rows, first + unit_rows);
    const std::size_t col = block.col + panel * lane_columns, cols = std::min(lane_columns, block.col + block.cols - col);
    for (std::size_t r = first; r < last; r += Engine::max_rows) {
      const std::size_t rows = std::min(Engine::max_rows, last - r);
      if (p.c_starts())
        for (std::size_t i = 0; i < rows; ++i)
          for (std::size_t j = 0; j < cols; ++j)
            start[i * lane_columns + j] = detail::to_sum(
                convert(p.c(block.row + r + i, col + j), p.c_format, p.model.accumulator.format), p.model.accumulator.format, Sum{});
      engine(r, rows, panel, {sums.data(), unsure, p.c_starts() ? start.data() : nullptr});
      for (std::size_t i = 0; i < rows; ++i)
        for (std::size_t j = 0; j < cols; ++j) {
          const std::size_t at = i * lane_columns + j, row = block.row + r + i;
          if (unsure[at] != 0) d.store(row, col + j, exact(row, col + j));
          else if (is_word) d.store(row, col + j, word_of(sums[at]));
          else d.store(row, col + j, detail::finish(p, detail::join_parts(p, block.schedule, sums.data() + at, rows * lane_columns, row, col + j), row, col + j));
        }
    }
  });
}

// In the lanes the products of one fused step stand side by side: k mod 4 in {0, 1} first, then {2, 3}.
Schedule lane_schedule(const Schedule& schedule, const DotModel& m) {
  Schedule lanes = schedule;
  if (m.rule != DotRule::fused_pair_then_add) return lanes;
  const auto length = static_cast<std::size_t>(m.instruction_k);
  for (std::size_t first = 0; first < lanes.order.size(); first += length) {
    std::size_t to = first;
    for (const std::size_t half : {std::size_t{0}, std::size_t{2}})
      for (std::size_t k = 0; k < length; ++k)
        if ((k & 2) == half) lanes.order[to++] = schedule.order[first + k];
  }
  return lanes;
}

int lowest_of(const std::vector<std::int16_t>& lines) {
  int lowest = INT16_MAX;
  for (const std::int16_t e : lines) lowest = std::min<int>(lowest, e);
  return lowest;
}
int highest_of(const std::vector<std::int16_t>& lines) {
  int highest = INT16_MIN;
  for (const std::int16_t e : lines) highest = std::max<int>(highest, e);
  return highest;
}

template <class Exponent>
detail::Packed<double, Exponent> widened(const detail::Packed<float, Exponent>& p) {
  return {p.positions, p.width, std::vector<double>(p.values.begin(), p.values.end()), p.exponents, p.special, p.min_exponent, p.max_exponent};
}

template <class Real, class Exponent>
struct PackedPair {
  detail::Packed<Real, Exponent> a, b;
  PackedPair(const Product& p, const Block& block, const Schedule& order)
      : a(detail::pack<Real, Exponent>({p.a, p.model.a.format, p.plan.operands, widens(p)}, false, block.row, block.rows, order, p.options.threads)),
        b(detail::pack<Real, Exponent>({p.b, p.model.b.format, p.plan.operands, widens(p)}, true, block.col, block.cols, order, p.options.threads)) {}
  static bool widens(const Product& p) { return p.model.rule == DotRule::fused_pair_then_add; }
  int lowest() const { return lowest_of(a.min_exponent) + lowest_of(b.min_exponent); }
  int highest() const { return highest_of(a.max_exponent) + highest_of(b.max_exponent); }
};

template <class Exponent>
void run_fused(const Product& p, const Block& block, const Sink& d) {
  const Schedule order = lane_schedule(block.schedule, p.model);
  PackedPair<float, Exponent> x(p, block, order);
  clear_special(x.a), clear_special(x.b);
  const detail::LaneConstants constants = detail::lane_constants(p.model);
  // Floats carry every product and its quanta when no exponent of a product is below -100 or above 124.
  if (x.lowest() >= -100 && x.highest() <= 124)
    return run_engine(p, block, d, detail::FusedEngine<float, Exponent>{p.model, constants, x.a, x.b, order});
  const auto a = widened(x.a), b = widened(x.b);
  run_engine(p, block, d, detail::FusedEngine<double, Exponent>{p.model, constants, a, b, order});
}

using detail::holds_products;

template <class Real>
void run_native(const Product& p, const Block& block, const Sink& d) {
  const PackedPair<Real, std::int16_t> x(p, block, block.schedule);
  const auto run = [&]<DotRule Rule>() { run_engine(p, block, d, detail::NativeEngine<Real, Rule>{x.a, x.b, block.schedule}); };
  // Where a float holds every product, an FMA is the addition of it: faster by far on machines without the instruction.
  if (p.model.rule == DotRule::fma_chain && std::is_same_v<Real, float> && holds_products(p.model, x.lowest(), x.highest()))
    return run.template operator()<DotRule::multiply_add>();
  switch (p.model.rule) {
    case DotRule::fma_chain: return run.template operator()<DotRule::fma_chain>();
    case DotRule::multiply_add: return run.template operator()<DotRule::multiply_add>();
    case DotRule::pairwise: return run.template operator()<DotRule::pairwise>();
    default: return run.template operator()<DotRule::kahan>();
  }
}

void run_rounded(const Product& p, const Block& block, const Sink& d) {
  const PackedPair<float, std::int16_t> x(p, block, block.schedule);
  if (!holds_products(p.model, x.lowest(), x.highest())) return run_one_by_one(p, block, d);
  const detail::RoundedLanes lanes(p.model.accumulator.format, detail::dot_kernels().has_half);
  run_engine(p, block, d, detail::RoundedEngine{x.a, x.b, block.schedule, lanes});
}

void run_block(const Product& p, const Block& block, const Sink& d) {
  if (p.options.one_by_one || block.schedule.order.empty()) return run_one_by_one(p, block, d);
  switch (detail::engine_of(p.model)) {
    case detail::EngineKind::fused_bytes: return run_fused<std::int8_t>(p, block, d);
    case detail::EngineKind::fused_words: return run_fused<std::int16_t>(p, block, d);
    case detail::EngineKind::integer: {
      const PackedPair<std::int32_t, std::int16_t> x(p, block, block.schedule);
      return run_engine(p, block, d, detail::IntegerEngine{x.a, x.b, block.schedule});
    }
    case detail::EngineKind::native_float: return run_native<float>(p, block, d);
    case detail::EngineKind::native_double: return run_native<double>(p, block, d);
    case detail::EngineKind::rounded: return run_rounded(p, block, d);
    case detail::EngineKind::none: break;
  }
  run_one_by_one(p, block, d);
}

void run(const DotModel& model, const Plan& plan, const CodeMatrix& a, const CodeMatrix& b, const CodeMatrix& c,
         const CodeMatrix& d, void* data, const GemmOptions& options) {
  const Format& accumulator = model.accumulator.format;
  const Product p{model, plan, a, b, c, options, options.output.value_or(accumulator), options.c_format.value_or(accumulator),
                  a.rows, b.cols, a.cols};
  detail::check_product(p, d);
  const DefaultFloats guard;
  const Sink sink{data, d.code_bytes, d.pitch, d.layout};
  const bool tiled = plan.order == SumOrder::stream_k;
  const std::size_t tile_rows = tiled ? static_cast<std::size_t>(plan.tile_rows) : std::max<std::size_t>(p.rows, 1);
  const std::size_t tile_cols = tiled ? static_cast<std::size_t>(plan.tile_cols) : std::max<std::size_t>(p.cols, 1);
  for (std::size_t row = 0; row < p.rows; row += tile_rows)
    for (std::size_t col = 0; col < p.cols; col += tile_cols)
      run_block(p, {make_schedule(plan, model, p.k, p.rows, p.cols, row, col), row, std::min(tile_rows, p.rows - row), col,
                    std::min(tile_cols, p.cols - col)}, sink);
}

}  // namespace

void gemm(const DotModel& m, const Plan& plan, const CodeMatrix& a, const CodeMatrix& b, const CodeMatrix& c,
          MatrixView<std::uint64_t> d, const GemmOptions& o) {
  run(m, plan, a, b, c, code_matrix(d), d.data, o);
}
void gemm(const DotModel& m, const Plan& plan, const CodeMatrix& a, const CodeMatrix& b, const CodeMatrix& c,
          MatrixView<std::uint32_t> d, const GemmOptions& o) {
  run(m, plan, a, b, c, code_matrix(d), d.data, o);
}
void gemm(const DotModel& m, const Plan& plan, const CodeMatrix& a, const CodeMatrix& b, const CodeMatrix& c,
          MatrixView<std::uint16_t> d, const GemmOptions& o) {
  run(m, plan, a, b, c, code_matrix(d), d.data, o);
}
void gemm(const DotModel& m, const Plan& plan, const CodeMatrix& a, const CodeMatrix& b, const CodeMatrix& c,
          MatrixView<std::uint8_t> d, const GemmOptions& o) {
  run(m, plan, a, b, c, code_matrix(d), d.data, o);
}

}  // namespace narrow

#include "narrow/tensor/compare_tensors.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "narrow/array/array.hpp"
#include "narrow/array/parts.hpp"
#include "narrow/base/error.hpp"
#include "narrow/base/parallel.hpp"
#include "narrow/format/decode.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/tensor/chunks.hpp"
#include "narrow/tensor/file_text.hpp"
#include "narrow/tensor/piece_members.hpp"
#include "narrow/tensor/tensor.hpp"
#include "narrow/text/quote.hpp"

namespace narrow {
namespace {

// An unsigned integer of the width of U that grows with the value, by one from each value to the next; and what is NaN.
//   sign and magnitude   middle + magnitude, or middle - magnitude: both zeros are the middle
//   two's complement     the top bit flipped
//   unsigned             the code itself
template <class U>
struct Order {
  static constexpr U middle = static_cast<U>(U{1} << (8 * sizeof(U) - 1));
  U sign = 0, magnitude = static_cast<U>(~U{0}), flip = 0;
  // NaN exactly when ((code & nan_mask) ^ nan_flip) > nan_last.
  U nan_mask = 0, nan_flip = 0, nan_last = 0;

  explicit Order(const ElementType& type) {
    if (type.kind == ElementKind::signed_integer) flip = middle;
    if (!type.has_format()) return;
    const Format& f = type.format;
    if (f.twos_complement) flip = static_cast<U>(f.sign_mask());
    else sign = static_cast<U>(f.sign_mask());
    magnitude = static_cast<U>(f.twos_complement ? f.code_mask() : f.magnitude_mask());
    switch (f.specials) {
      case Specials::inf_and_nan: nan_mask = magnitude, nan_last = static_cast<U>(f.infinity_code()); break;
      case Specials::nan_only: nan_mask = magnitude, nan_last = static_cast<U>(magnitude - 1); break;
      case Specials::nan_is_negative_zero:  // only the code of NaN becomes all ones
      case Specials::extended:
        nan_mask = static_cast<U>(f.code_mask());
        nan_flip = static_cast<U>(~f.nan_code() & nan_mask);
        nan_last = static_cast<U>(nan_mask - 1);
        break;
      case Specials::none: break;
    }
  }

  // Without branches, for lanes: a negative code is all ones in `turn`, and (m ^ ones) - ones is -m.
  U key(U code) const noexcept {
    const U m = static_cast<U>((code & magnitude) ^ flip);
    const U turn = static_cast<U>(0 - static_cast<U>((code & sign) != 0));
    return static_cast<U>((sign != 0 ? middle : U{0}) + static_cast<U>((m ^ turn) - turn));
  }
  bool nan(U code) const noexcept { return static_cast<U>((code & nan_mask) ^ nan_flip) > nan_last; }
  U distance(U x, U y) const noexcept {
    const U a = key(x), b = key(y);
    return static_cast<U>(std::max(a, b) - std::min(a, b));
  }
};

// Worse first; of equal ones the earlier.
bool worse(const Difference& a, const Difference& b) {
  const auto rank = [](const Difference& d) { return d.ulp ? *d.ulp : ~std::uint64_t{0}; };
  if (a.ulp.has_value() != b.ulp.has_value()) return !a.ulp;
  return rank(a) != rank(b) ? rank(a) > rank(b) : a.index < b.index;
}

void keep_worst(std::vector<Difference>& list, const Difference& d, std::size_t listed) {
  if (list.size() == listed && (listed == 0 || !worse(d, list.back()))) return;
  list.insert(std::upper_bound(list.begin(), list.end(), d, worse), d);
  if (list.size() > listed) list.pop_back();
}

// What follows `out`.
void merge(Comparison& out, const Comparison& next, std::size_t listed) {
  out.total += next.total, out.equal += next.equal;
  out.nan_mismatch += next.nan_mismatch, out.nan_payload += next.nan_payload;
  out.zero_sign_mismatch += next.zero_sign_mismatch;
  out.max_ulp = std::max(out.max_ulp, next.max_ulp);
  out.outside += next.outside;
  out.max_abs = std::max(out.max_abs, next.max_abs), out.max_rel = std::max(out.max_rel, next.max_rel);
  for (std::size_t k = 0; k < ulp_bins; ++k) out.by_ulp[k] += next.by_ulp[k];
  for (const Difference& d : next.first)
    if (out.first.size() < listed) out.first.push_back(d);
  for (const Difference& d : next.worst) keep_worst(out.worst, d, listed);
}

// Blocks that are equal byte for byte need no second look: 2^12 values, small enough that a few differences leave most
// blocks of a file on this fast path.
constexpr std::size_t block_values = std::size_t{1} << 12;

struct Pair {
  Window x, y;
  std::uint64_t first;  // of the windows in the whole
  ElementType type;     // what both are compared as
  const CompareOptions& options;

  bool same_bytes_are_equal() const {
    return x.tensor.big_endian == y.tensor.big_endian && x.tensor.type.bits == y.tensor.type.bits &&
           !is_rounded(x.tensor) && !is_rounded(y.tensor);
  }
  bool is_rounded(const Tensor& t) const { return t.type.has_format() && t.type.format != type.format; }
};

template <class U>
void read_as(const Pair& p, const Window& window, std::size_t first, std::span<U> out) {
  if (!p.is_rounded(window.tensor)) return read_codes(window.tensor, window.first + first, out);
  std::vector<double> values(out.size());
  read_values(window.tensor, window.first + first, std::span(values));
  encode_array(values, p.type.format, {}, out, 0, 1);
}

// Within a block, steps of 2^7 values whose codes are all equal are passed over. It is also as many as 8 bits can
// count.
constexpr std::size_t step_values = 128;

template <class U>
struct Block {
  std::array<U, block_values> x, y, ulp;  // ulp is 0 where one is NaN
  std::size_t count;
  std::uint64_t index;                                   // of its first value
  std::array<bool, block_values / step_values> differs;  // by step

  // Calls body(begin, end) for the steps that differ.
  template <class Body>
  void for_each_step(const Body& body) const {
    for (std::size_t begin = 0; begin < count; begin += step_values)
      if (differs[begin / step_values]) body(begin, std::min(count, begin + step_values));
  }
};

struct BlockCounts {
  std::size_t equal = 0, one_nan = 0, two_nan = 0;
};

// Distances and counts in a loop that the compiler turns into lanes: everything in it has the width of U, and the
// counts are taken off after each step.
template <class U>
BlockCounts measure_block(Block<U>& b, const Order<U>& order, U& most) {
  BlockCounts counts;
  const Order<U> o = order;
  U top = 0;
  for (std::size_t begin = 0; begin < b.count; begin += step_values) {
    const std::size_t end = std::min(b.count, begin + step_values);
    b.differs[begin / step_values] =
        std::memcmp(b.x.data() + begin, b.y.data() + begin, (end - begin) * sizeof(U)) != 0;
    if (!b.differs[begin / step_values]) {
      counts.equal += end - begin;
      continue;
    }
    U equal = 0, one = 0, two = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const U x = b.x[i], y = b.y[i];
      const U x_nan = o.nan(x) ? 1 : 0, y_nan = o.nan(y) ? 1 : 0, same = x == y ? 1 : 0;
      const U either = x_nan | y_nan;
      const U d = static_cast<U>(o.distance(x, y) & static_cast<U>(either - 1));  // 0 with a NaN
      b.ulp[i] = d;
      top = std::max(top, d);
      equal = static_cast<U>(equal + same);
      one = static_cast<U>(one + (x_nan ^ y_nan));
      two = static_cast<U>(two + (x_nan & y_nan & (same ^ 1)));
    }
    counts.equal += equal, counts.one_nan += one, counts.two_nan += two;
  }
  most = top;
  return counts;
}

// Counts by distance: over all pairs in four tables, so that equal neighbours do not wait for each other's store; or
// over the few that differ.
template <class U>
void count_distances(Comparison& out, const Block<U>& b, const BlockCounts& counts) {
  const std::uint64_t without_distance = counts.one_nan + counts.two_nan, differ = b.count - counts.equal;
  std::uint64_t zeros = 0;
  if (differ < b.count / 8) {
    b.for_each_step([&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i)
        if (b.ulp[i] != 0) ++out.by_ulp[ulp_bin(b.ulp[i])], ++zeros;
    });
    zeros = differ - without_distance - zeros;
  } else {
    std::array<std::array<std::uint16_t, ulp_bins>, 4> bins{};  // 2^12 values fit 16 bits
    std::uint64_t passed_over = b.count;
    b.for_each_step([&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) ++bins[i % 4][ulp_bin(b.ulp[i])];
      passed_over -= end - begin;
    });
    for (std::size_t k = 1; k < ulp_bins; ++k)
      out.by_ulp[k] += std::uint64_t{bins[0][k]} + bins[1][k] + bins[2][k] + bins[3][k];
    // Equal codes and pairs with NaN stand here with distance 0 as well.
    zeros = std::uint64_t{bins[0][0]} + bins[1][0] + bins[2][0] + bins[3][0] + passed_over - counts.equal -
            without_distance;
  }
  out.by_ulp[0] += zeros, out.zero_sign_mismatch += zeros;
}

template <class U>
void list_block(Comparison& out, const Block<U>& b, const Order<U>& order, std::size_t listed, bool any_nan, U most) {
  // A later pair enters a full list only when it is worse than the last of it.
  const auto enters = [&](U ulp) {
    return out.worst.size() < listed || (listed != 0 && out.worst.back().ulp && ulp > *out.worst.back().ulp);
  };
  if (out.first.size() == listed && !any_nan && !enters(most)) return;
  b.for_each_step([&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      if (b.x[i] == b.y[i]) continue;
      const bool one_nan = any_nan && order.nan(b.x[i]) != order.nan(b.y[i]);
      if (out.first.size() == listed && !one_nan && !enters(b.ulp[i])) continue;
      Difference d{b.index + i, b.x[i], b.y[i], b.ulp[i]};
      if (one_nan) d.ulp.reset();
      if (out.first.size() < listed) out.first.push_back(d);
      keep_worst(out.worst, d, listed);
    }
  });
}

// Which pairs of a block are close, by value.
template <class U>
void check_values(Comparison& out, const Pair& p, const Block<U>& b, std::size_t at) {
  std::vector<double> x(b.count), y(b.count);
  if (p.type.has_format()) {
    decode_array(std::span<const U>(b.x.data(), b.count), p.type.format, std::span(x), 1);
    decode_array(std::span<const U>(b.y.data(), b.count), p.type.format, std::span(y), 1);
  } else {
    read_values(p.x.tensor, p.x.first + at, std::span(x));
    read_values(p.y.tensor, p.y.first + at, std::span(y));
  }
  const double atol = p.options.atol.value_or(0), rtol = p.options.rtol.value_or(0);
  b.for_each_step([&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
      if (std::isnan(x[i]) || std::isnan(y[i])) {
        ++out.outside;
        continue;
      }
      const double error = std::abs(y[i] - x[i]);
      out.max_abs = std::max(out.max_abs, error);
      if (std::isfinite(x[i])) out.max_rel = std::max(out.max_rel, error / std::abs(x[i]));
      const bool close = std::isfinite(error) && error <= atol + rtol * std::abs(x[i]);
      if (!close && !(p.options.max_ulp && b.ulp[i] <= *p.options.max_ulp)) ++out.outside;
    }
  });
}

template <class U>
Comparison compare_part(const Pair& p, std::size_t begin, std::size_t end) {
  Comparison out;
  out.total = end - begin;
  const Order<U> order(p.type);
  const bool raw = p.same_bytes_are_equal();
  const std::span<const std::byte> x = p.x.bytes(), y = p.y.bytes();
  Block<U> block;
  for (std::size_t i = begin; i < end; i += block_values) {
    block.count = std::min(block_values, end - i);
    block.index = p.first + i;
    const std::uint64_t at = bytes_of_values(p.x.tensor, i), bytes = bytes_of_values(p.x.tensor, block.count);
    if (raw && std::memcmp(x.data() + at, y.data() + at, bytes) == 0) {
      out.equal += block.count;
      continue;
    }
    read_as(p, p.x, i, std::span<U>(block.x.data(), block.count));
    read_as(p, p.y, i, std::span<U>(block.y.data(), block.count));
    if (p.is_rounded(p.x.tensor) || p.is_rounded(p.y.tensor))  // the NaN of a rounding is not the data's
      for (std::size_t k = 0; k < block.count; ++k)
        if (order.nan(block.x[k]) && order.nan(block.y[k])) block.y[k] = block.x[k];
    U most = 0;
    const BlockCounts counts = measure_block(block, order, most);
    out.equal += counts.equal, out.nan_mismatch += counts.one_nan, out.nan_payload += counts.two_nan;
    out.max_ulp = std::max<std::uint64_t>(out.max_ulp, most);
    if (counts.equal == block.count) continue;  // the same codes in other bytes
    count_distances(out, block, counts);
    list_block(out, block, order, p.options.listed, counts.one_nan != 0, most);
    if (p.options.has_tolerance()) check_values(out, p, block, i);
  }
  return out;
}

using ComparePart = Comparison (*)(const Pair&, std::size_t, std::size_t);

ComparePart choose_part(int bits) {
  if (bits <= 8) return compare_part<std::uint8_t>;
  if (bits <= 16) return compare_part<std::uint16_t>;
  return bits <= 32 ? compare_part<std::uint32_t> : compare_part<std::uint64_t>;
}

// What both are compared as; for two floating types and a tolerance alone FP64, which holds the values of all.
ElementType common_type(const Tensor& x, const Tensor& y, const CompareOptions& options, bool& has_ulp) {
  const std::string names = "tensors " + quote(x.name) + " and " + quote(y.name);
  if (x.shape != y.shape)
    throw Error(names + " have the shapes " + shape_text(x.shape) + " and " + shape_text(y.shape) +
                ": they must be equal");
  const std::string types = names + " hold " + std::string(x.type.name) + " and " + std::string(y.type.name) + ": ";
  if (x.type.kind == ElementKind::opaque || y.type.kind == ElementKind::opaque)
    throw Error(types + "V1 and V2 do not say what their numbers are; name the format of the codes");
  const auto as = [&](const Format& f) {
    ElementType type = x.type;
    const ElementType* named = element_type_of(f);
    type.name = named != nullptr ? named->name : type.name;
    type.bits = f.width() * type.values(), type.format = f;
    return type;
  };
  const bool both_float = x.type.has_format() && x.type.kind == y.type.kind;
  if (both_float && options.in) return as(*options.in);
  const bool same =
      both_float ? x.type.format == y.type.format : x.type.kind == y.type.kind && x.type.bits == y.type.bits;
  if (same) return x.type;
  has_ulp = false;
  if (both_float && options.has_tolerance() && !options.max_ulp) return as("fp64"_fmt);
  throw Error(types + (both_float
                           ? "bits of two types have no distance; round both to one format (--format), or compare "
                             "their values (--rtol, --atol)"
                           : "distances need one type; cast one of them first, or name the format of integer codes"));
}

}  // namespace

Comparison compare_tensors(const Tensor& x, const Tensor& y, const CompareOptions& options, const BytesDone& done,
                           PieceLog* log) {
  Comparison total;
  const ElementType type = common_type(x, y, options, total.has_ulp);
  if (type.has_format()) total.format = type.format;
  // Two tensors in the order of Fortran could be compared as they lie, but their indices would not be those of C.
  const Tensor cx = row_major(x), cy = row_major(y);
  const ComparePart part_of = choose_part(type.bits / type.values());
  fold_chunks(
      cx, done, log,
      [&](std::uint64_t first, std::size_t count) {
        const Pair pair{load_window(cx, first, count), load_window(cy, first, count), first, type, options};
        std::vector<Comparison> parts((count + detail::part_size - 1) / detail::part_size);
        parallel_parts(count, detail::part_size, options.threads, [&](std::size_t begin, std::size_t end) {
          parts[begin / detail::part_size] = part_of(pair, begin, end);
        });
        Comparison chunk;
        for (const Comparison& part : parts) merge(chunk, part, options.listed);
        if (done) done(bytes_of_values(cy, count));
        return chunk;
      },
      [&](const Comparison& chunk) { merge(total, chunk, options.listed); });
  return total;
}

}  // namespace narrow

#include "narrow/tensor/watched_counts.hpp"

#include <algorithm>
#include <map>

#include "narrow/array/thresholds.hpp"

namespace narrow {
namespace {

Fate fate_of(std::uint32_t word, const detail::Thresholds& t) {
  return word >= t.overflow_from ? Fate::beyond
         : word < t.zero_below   ? Fate::zero
         : word < t.normal_from  ? Fate::subnormal
                                 : Fate::normal;
}

// A binade whose values have more than one fate, from the first to the last.
struct Cut {
  Fate first = Fate::beyond, last = Fate::zero;
  std::uint64_t count = 0;
};

// A threshold lies in one binade, so that whatever of a fate is in no whole binade is in the cut ones, and of the two
// at the ends of the subnormals the lower is filled first: what does not become zero there is subnormal.
bool divide(const Cut& cut, Fates& rest, Fates& into) {
  std::uint64_t left = cut.count;
  for (const Fate fate : {Fate::zero, Fate::beyond, Fate::subnormal, Fate::normal}) {
    if (fate < cut.first || fate > cut.last || left == 0) continue;
    const bool takes_all = fate == Fate::normal || (fate == Fate::subnormal && cut.last == Fate::subnormal);
    const std::uint64_t part = takes_all ? left : rest[fate];
    if (part > left || (fate != Fate::normal && part > rest[fate])) return false;
    into[fate] += part, left -= part;
    if (fate != Fate::normal) rest[fate] -= part;
  }
  return left == 0;
}

}  // namespace

std::optional<ExponentHistogram> times_power_of_two(const ExponentHistogram& h, int k) {
  if (k > 0 && h.subnormal.total() > 0) return {};
  ExponentHistogram out;
  out.zero = h.zero, out.subnormal = h.subnormal, out.inf = h.inf, out.nan = h.nan;
  for (int e = ExponentHistogram::min_exponent; e <= ExponentHistogram::max_exponent; ++e) {
    SignCounts& to = e + k < ExponentHistogram::min_exponent   ? out.subnormal
                     : e + k > ExponentHistogram::max_exponent ? out.inf
                                                               : out.binade(e + k);
    to.negative += h.binade(e).negative, to.positive += h.binade(e).positive;
  }
  return out;
}

std::optional<BinadeFates> fates_of(const ExponentHistogram& h, const FormatCast& to, const WatchedCounts* counted) {
  BinadeFates fates{ExponentHistogram::min_exponent, std::vector<Fates>(h.binades.size() + 1)};
  std::map<std::size_t, Cut> cuts;  // by place
  for (const bool negative : {false, true}) {
    const auto of_sign = [&](const SignCounts& c) { return negative ? c.negative : c.positive; };
    const detail::Thresholds t = detail::find_thresholds(to, negative, 0);
    for (std::size_t place = 0; place < fates.binades.size(); ++place) {
      const std::uint64_t n = of_sign(place == 0 ? h.subnormal : h.binades[place - 1]);
      if (n == 0) continue;
      if (negative && !to.format.has_sign) return {};
      const auto word = static_cast<std::uint32_t>(place) << 23;
      const Fate first = fate_of(std::max(word, 1u), t), last = fate_of(word + 0x7FFFFF, t);
      if (first == last) {
        fates.binades[place][first] += n;
        continue;
      }
      Cut& cut = cuts[place];
      cut = {std::min(cut.first, first), std::max(cut.last, last), cut.count + n};
    }
  }
  if (counted == nullptr) return cuts.empty() ? std::optional(fates) : std::nullopt;
  const Fates whole = fates.all();
  Fates rest;
  for (const auto& [fate, count] : {std::pair{Fate::zero, counted->underflow},
                                    {Fate::subnormal, counted->subnormal},
                                    {Fate::beyond, counted->overflow}}) {
    if (count < whole[fate]) return {};
    rest[fate] = count - whole[fate];
  }
  for (const auto& [place, cut] : cuts)
    if (!divide(cut, rest, fates.binades[place])) return {};
  return rest.total() == 0 ? std::optional(fates) : std::nullopt;
}

}  // namespace narrow

#include "narrow/cluster/reduce.hpp"

#include "narrow/base/parallel.hpp"
#include "narrow/cluster/steps.hpp"

namespace narrow::cluster {

namespace {

constexpr std::size_t part_size = 1 << 10;

// One part of the array through the whole algorithm: every element has its own order of ranks, and no part needs
// another. The loop over hops is outside, so that one pass rounds what many pieces do in a hop.
class Part {
 public:
  Part(std::size_t ranks, std::size_t size, std::size_t begin, std::size_t end, const ReadRanks& read,
       const ReduceRequest& request, std::span<Feedback> feedback)
      : ranks_(ranks),
        begin_(begin),
        length_(end - begin),
        threads_(request.wire.blocks && pieces_of(request.algorithm, ranks) == 1 ? request.threads : 1),
        read_(read),
        request_(request),
        feedback_(feedback) {
    const std::size_t pieces = pieces_of(request.algorithm, ranks);
    // piece * size / pieces <= begin: the first piece that reaches beyond begin; later ones may be empty.
    for (std::size_t c = size == 0 ? pieces : begin * pieces / size; c < pieces && c * size / pieces < end; ++c) {
      const std::size_t from = std::max(begin, c * size / pieces), to = std::min(end, (c + 1) * size / pieces);
      if (from < to) spans_.push_back({c, from - begin, to - from});
    }
  }

  std::vector<float> sum() {
    switch (request_.algorithm) {
      case Algorithm::ring: return fold(1, true);
      case Algorithm::fp32_once: return fold(0, false);
      case Algorithm::linear: return fold(0, true);
      default: {
        const std::size_t places = request_.algorithm == Algorithm::tree ? ranks_ : Places(ranks_).count;
        return pairs(0, std::bit_ceil(places), places);
      }
    }
  }

 private:
  struct Span {
    std::size_t piece, first, length;  // first: within the part
  };

  // Element by element and the same for all: any stretch is as good as the pieces.
  template <class Work>
  void for_each_stretch(bool by_rank, const Work& work) {
    const bool is_random = request_.wire.cast.rounding == Rounding::stochastic;
    if (!request_.wire.blocks && !(by_rank && is_random)) return work(Span{0, 0, length_});
    for (const Span& s : spans_) work(s);
  }

  void round_sum(std::vector<float>& values, std::uint64_t sum) {
    for_each_stretch(false, [&](const Span& s) {
      round_values(std::span(values).subspan(s.first, s.length), request_.wire,
                   sum_stream(request_, sum, begin_ + s.first), threads_);
    });
  }

  // What the rank of each piece brings: for the ring another one for each.
  std::vector<float> bring(std::size_t first_rank) {
    std::vector<float> values(length_), before;
    const std::span<float> all(values);
    const auto rank = [&](const Span& s) {  // below twice the number of ranks
      return s.piece + first_rank < ranks_ ? s.piece + first_rank : s.piece + first_rank - ranks_;
    };
    stretches_.clear();
    for (const Span& s : spans_) stretches_.push_back({rank(s), begin_ + s.first, s.length});
    read_(stretches_, all);
    divide(all, ranks_, request_);
    const auto lost = [&](const Span& s) { return std::span(feedback_[rank(s)]).subspan(begin_ + s.first, s.length); };
    if (!feedback_.empty()) {
      for (const Span& s : spans_) add(all.subspan(s.first, s.length), lost(s));
      before = values;
    }
    for_each_stretch(true, [&](const Span& s) {
      round_values(all.subspan(s.first, s.length), request_.wire, own_stream(request_, rank(s), begin_ + s.first),
                   threads_);
    });
    if (!feedback_.empty())
      for (const Span& s : spans_)
        keep_lost(lost(s), std::span(before).subspan(s.first, s.length), all.subspan(s.first, s.length));
    return values;
  }

  // Left to right from rank piece + offset on; the sum of k ranks draws from stream k.
  std::vector<float> fold(std::size_t offset, bool rounds) {
    std::vector<float> values = bring(offset);
    for (std::size_t hop = 1; hop < ranks_; ++hop) {
      add(values, bring(offset + hop));
      if (rounds || hop + 1 == ranks_) round_sum(values, hop + 1);
    }
    return values;
  }

  std::vector<float> place(std::size_t p) {
    const Places places(ranks_);
    if (request_.algorithm == Algorithm::tree) return bring(p);
    if (p >= places.folded) return bring(places.holder(p));
    std::vector<float> values = bring(2 * p);
    add(values, bring(2 * p + 1));
    round_sum(values, p);
    return values;
  }

  std::vector<float> pairs(std::size_t first, std::size_t width, std::size_t places) {
    if (width == 1) return place(first);
    const std::size_t half = width / 2;
    std::vector<float> values = pairs(first, half, places);
    if (first + half >= places) return values;
    add(values, pairs(first + half, half, places));
    round_sum(values, ranks_ * half + first);
    return values;
  }

  const std::size_t ranks_, begin_, length_;
  const int threads_;  // blocks of one piece are one part: the threads are free for it
  const ReadRanks& read_;
  const ReduceRequest& request_;
  const std::span<Feedback> feedback_;
  std::vector<Span> spans_;
  std::vector<Stretch> stretches_;
};

}  // namespace

void check_order(Algorithm algorithm) {
  if (!row_of(algorithm).is_fixed)
    throw Error("the order of " + std::string(name_of(algorithm)) +
                " is not fixed by its standard, so that one process cannot know it; ring, tree, recursive-doubling, "
                "fp32-once and linear can be computed");
}

std::vector<float> emulate(std::size_t ranks, std::size_t size, const ReadRanks& read, const ReduceRequest& request,
                           std::span<Feedback> feedback) {
  check(request.wire);
  if (ranks == 0) throw Error("a sum over 0 ranks; at least 1");
  bool fits = feedback.empty() || feedback.size() == ranks;
  for (const Feedback& lost : feedback) fits = fits && lost.size() == size;
  if (!fits) throw Error("error feedback of another number or length than the arrays");
  std::vector<float> sum(size);
  if (ranks == 1) {
    const Stretch all{0, 0, size};
    read({&all, 1}, sum);
    return sum;
  }
  check_order(request.algorithm);
  const auto work = [&](std::size_t begin, std::size_t end) {
    const std::vector<float> part = Part(ranks, size, begin, end, read, request, feedback).sum();
    std::copy(part.begin(), part.end(), sum.begin() + static_cast<std::ptrdiff_t>(begin));
  };
  // A block must not be cut: then the parts are the pieces.
  const std::size_t pieces = pieces_of(request.algorithm, ranks);
  if (request.wire.blocks)
    parallel_parts(pieces, 1, request.threads, [&](std::size_t piece, std::size_t) {
      if (piece * size / pieces < (piece + 1) * size / pieces) work(piece * size / pieces, (piece + 1) * size / pieces);
    });
  else parallel_parts(size, part_size, request.threads, work);
  return sum;
}

std::vector<float> all_reduce(std::span<const std::vector<float>> ranks, const ReduceRequest& request,
                              std::span<Feedback> feedback) {
  const std::size_t size = ranks.empty() ? 0 : ranks[0].size();
  for (const std::vector<float>& r : ranks)
    if (r.size() != size)
      throw Error("arrays of " + std::to_string(size) + " and " + std::to_string(r.size()) +
                  " elements; ranks add arrays of one length");
  return emulate(ranks.size(), size, read_rows([&](std::size_t rank) { return ranks[rank].data(); }), request,
                 feedback);
}

}  // namespace narrow::cluster

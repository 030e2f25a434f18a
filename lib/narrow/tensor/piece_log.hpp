// A pass over a tensor as a fold over its pieces: each leaves something small, which is merged in the order of the
// pieces. Where a log is given, pieces may have been computed by another process: the log holds what they left, as
// bytes, and the merge is the same, and so are its bits.
#pragma once

#include <vector>

#include "narrow/base/archive.hpp"

namespace narrow {

// What the passes of one task left, pass after pass. The task is run again with what is known by then, until its last
// pass has all pieces.
class PieceLog {
 public:
  using Pass = std::vector<Bytes>;  // of each piece
  struct Missing {                  // thrown by a pass whose pieces are neither known nor to be computed here
    std::size_t pieces;
  };

  PieceLog() = default;
  explicit PieceLog(std::vector<Pass> known) : known_(std::move(known)) {}
  // Of the first pass that is not known the pieces [begin, end) are computed, and it is the last; or all of all passes.
  void compute(std::size_t begin, std::size_t end) { begin_ = begin, end_ = end; }
  void compute_all() { all_ = true; }

  Pass take_made() { return std::move(made_); }
  std::vector<Pass> take_known() { return std::move(known_); }

  // For fold_pieces.
  void begin_pass(std::size_t pieces) {
    pieces_ = pieces;
    made_.clear();
  }
  const Bytes* find(std::size_t piece) const { return pass_ < known_.size() ? &known_[pass_][piece] : nullptr; }
  bool computes(std::size_t piece) const { return all_ || (piece >= begin_ && piece < end_); }
  void keep(Bytes bytes) { made_.push_back(std::move(bytes)); }
  void end_pass() {
    if (pass_ == known_.size()) {
      if (!all_ && pieces_ != 0) throw Missing{pieces_};
      known_.push_back(std::move(made_));
    }
    ++pass_;
  }

 private:
  std::vector<Pass> known_;
  Pass made_;
  std::size_t pass_ = 0, pieces_ = 0, begin_ = 0, end_ = 0;
  bool all_ = false;
};

// merge(compute(piece)) for pieces 0, 1, .. of one pass.
template <class Compute, class Merge>
void fold_pieces(PieceLog* log, std::size_t pieces, const Compute& compute, const Merge& merge) {
  if (log == nullptr) {
    for (std::size_t k = 0; k < pieces; ++k) merge(compute(k));
    return;
  }
  using Left = std::decay_t<decltype(compute(std::size_t{0}))>;
  log->begin_pass(pieces);
  for (std::size_t k = 0; k < pieces; ++k) {
    if (const Bytes* known = log->find(k)) {
      merge(from_bytes<Left>(*known));
    } else if (log->computes(k)) {
      Left left = compute(k);
      log->keep(to_bytes(left));
      merge(std::move(left));
    }
  }
  log->end_pass();
}

// For passes that leave nothing.
struct Nothing {};

}  // namespace narrow

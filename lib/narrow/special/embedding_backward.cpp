// embedding_dense_backward with deterministic algorithms: which rows of the gradient are added to a word in one group.
#include <algorithm>
#include <numeric>
#include <vector>

#include "narrow/special/operation_kernels.hpp"
#include "narrow/special/operation_parts.hpp"

namespace narrow::detail {

namespace {

constexpr std::size_t most_unsorted_words = 3072;  // more are sorted

// Whether row `at` of a word's rows, which are in order, ends a group that is added by itself: after sorting ten of
// them, otherwise those among 32 rows of the gradient.
bool ends_group(bool sorted, std::span<const std::size_t> rows, std::size_t at) {
  constexpr std::size_t rows_of_group = 10, rows_of_chunk = 32;
  if (at + 1 == rows.size()) return true;
  return sorted ? (at + 1) % rows_of_group == 0 : rows[at] / rows_of_chunk != rows[at + 1] / rows_of_chunk;
}

// Without sorting, the table in memory takes one group after the other, in the type.
void add_word(const OperationRequest& request, bool sorted, std::span<const std::size_t> rows, OperationCodes codes) {
  const auto stored = [&](float x) { return sorted ? x : round_to(x, request.type); };
  for (std::size_t c = 0; c < request.cols; ++c) {
    float all = 0, group = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      group += request.g[rows[i] * request.cols + c];
      if (!ends_group(sorted, rows, i)) continue;
      all = stored(all + stored(group));
      group = 0;
    }
    codes[c] = store_code(all, request.type);
  }
}

}  // namespace

std::string embedding_backward_kernel(const OperationRequest& request) {
  if (!is_operation_type(request.type)) return {};
  return request.rows <= most_unsorted_words ? "embedding_backward_feature_kernel"
                                             : "compute_grad_weight, sum_and_scatter";
}

void run_embedding_backward(const OperationRequest& request, OperationCodes codes) {
  std::vector<std::size_t> order(request.rows);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return request.target[a] < request.target[b]; });
  std::vector<std::size_t> starts(request.words + 1);
  for (const std::int64_t word : request.target) ++starts[static_cast<std::size_t>(word) + 1];
  std::partial_sum(starts.begin(), starts.end(), starts.begin());
  const bool sorted = request.rows > most_unsorted_words;
  constexpr std::size_t part = 16;
  parallel_parts(request.words, part, request.threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t word = begin; word < end; ++word)
      add_word(request, sorted, std::span(order).subspan(starts[word], starts[word + 1] - starts[word]),
               codes.subspan(word * request.cols, request.cols));
  });
}

}  // namespace narrow::detail

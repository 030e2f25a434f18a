#include "narrow/special/reduce_sum.hpp"

#include <array>
#include <cmath>
#include <vector>

#include "narrow/dot/wide_sum.hpp"
#include "narrow/special/operation_kernels.hpp"
#include "narrow/special/operation_parts.hpp"

namespace narrow {

namespace detail {

namespace {

constexpr std::size_t most_threads = 512, accumulators_by_step = 4, most_per_thread = 256, fewest_per_thread = 16;
using SumThreads = std::array<float, most_threads * 8>;  // accumulators of all threads of a block

constexpr auto add_floats = [](float a, float b) { return a + b; };
constexpr auto add_square = [](float sum, float x) { return std::fma(x, x, sum); };
constexpr std::size_t rounded_up(std::size_t a, std::size_t b) noexcept { return a / b + (a % b != 0); }
constexpr std::size_t block_side(std::size_t n) noexcept {
  return std::clamp<std::size_t>(std::bit_floor(n), 1, most_threads);
}

// Along x within a row of threads: older versions let neighbours add once a warp is left.
void fold_x(const SumPlan& plan, float* values) {
  if (plan.order.newer_trees) return fold_halves(values, plan.width, 1, add_floats);
  const std::size_t lanes = std::min<std::size_t>(plan.width, 32);
  fold_halves(values, plan.width, lanes, add_floats);
  for (std::size_t step = 1; step < lanes; step *= 2)
    for (std::size_t i = 0; i + step < lanes; i += 2 * step) values[i] += values[i + step];
}

// One value of each thread; thread x + width * y.
float fold_threads(const SumPlan& plan, float* values, bool x_first) {
  const std::size_t rows = plan.threads / plan.width;
  if (x_first) {
    for (std::size_t y = 0; y < rows; ++y) fold_x(plan, values + y * plan.width), values[y] = values[y * plan.width];
    fold_halves(values, rows, 1, add_floats);
  } else {
    fold_halves(values, plan.threads, plan.width, add_floats);  // y by halving, for all x at once
    fold_x(plan, values);
  }
  return values[0];
}

// The elements of a row that one block adds. Vectors are dealt to the threads in turn and element i of a vector goes to
// accumulator i, so that a chunk of threads * vector elements meets all accumulators in order. Element by element,
// a thread's elements go to its accumulators in turn, which is a chunk again, with the accumulators the other way
// round. add(sum, element) is the next sum.
template <class Add>
float add_block(const SumPlan& plan, std::span<const float> row, std::size_t first_element, std::size_t block,
                const Add& add) {
  const bool by_vector = plan.vector > 1;
  const std::size_t per_thread = by_vector ? plan.vector : accumulators_by_step, chunk = plan.threads * per_thread;
  SumThreads sums;
  std::fill_n(sums.begin(), chunk, 0.0f);

  // Up to an aligned address, and what is left after whole vectors: threads of block 0 take an element each.
  const std::size_t shift = by_vector ? first_element % plan.vector : 0;
  const std::size_t head = shift != 0 ? plan.vector - shift : 0;
  if (block == 0)
    for (std::size_t i = 0; i < head; ++i) sums[(i + shift) * per_thread] = add(sums[(i + shift) * per_thread], row[i]);
  const std::size_t tail = by_vector ? (row.size() - head) % plan.vector : 0, end = row.size() - tail;
  for (std::size_t at = head + block * chunk; at < end; at += chunk * plan.blocks) {
    const std::size_t count = std::min(chunk, end - at);
    for (std::size_t i = 0; i < count; ++i) sums[i] = add(sums[i], row[at + i]);
  }
  if (block == 0)
    for (std::size_t i = 0; i < tail; ++i) sums[i * per_thread] = add(sums[i * per_thread], row[end + i]);

  for (std::size_t t = 0; t < plan.threads; ++t) {
    float sum = by_vector ? sums[t * per_thread] : sums[t];
    for (std::size_t i = 1; i < per_thread; ++i)
      sum += by_vector ? sums[t * per_thread + i] : sums[i * plan.threads + t];
    sums[t] = sum;
  }
  return fold_threads(plan, sums.data(), plan.order.newer_trees);
}

// The last block to end adds what the blocks have left in memory, y before x in all versions.
float add_partials(const SumPlan& plan, const float* partials) {
  std::array<float, most_threads> sums{};
  for (std::size_t i = 0; i < plan.blocks; ++i) sums[i % plan.threads] += partials[i];
  return fold_threads(plan, sums.data(), false);
}

// Whether all warps of a block add the same sums, of which each thread would have `per_thread` elements otherwise.
bool splits_along_y(std::size_t per_thread, std::size_t height) {
  return per_thread >= std::min(fewest_per_thread * height, most_per_thread);
}

// In how many blocks a sum is added: one, but where the elements of a thread are many and the grid leaves room.
std::size_t blocks_of(std::size_t per_thread, std::size_t grid, std::size_t block_threads) {
  constexpr std::size_t multiprocessors = 132, threads_of_multiprocessor = 2048;
  const std::size_t target = multiprocessors * (threads_of_multiprocessor / block_threads);
  if (per_thread < most_per_thread || grid > target) return 1;
  return std::max(std::min(rounded_up(target, grid), rounded_up(per_thread, fewest_per_thread)),
                  rounded_up(per_thread, most_per_thread));
}

}  // namespace

SumPlan plan_sum(std::size_t rows, std::size_t cols, std::size_t element_bytes, const SumOrder& order) {
  SumPlan plan{order, rows, cols, 1, 1, 1, 1, 1};
  if (cols >= order.vectorised_from)
    plan.vector = element_bytes == 2 ? static_cast<std::size_t>(order.vector_of_16_bits) : 4;
  const std::size_t across = block_side(cols / plan.vector);
  plan.width = std::min<std::size_t>(across, 32);
  plan.height = std::min(block_side(rows), most_threads / plan.width);
  plan.width = std::min(across, most_threads / plan.height);
  plan.threads = plan.width;

  if (!splits_along_y(rounded_up(cols, plan.width), plan.height)) return plan;
  plan.threads = plan.width * plan.height;
  plan.blocks = blocks_of(rounded_up(cols, plan.threads), rows, plan.threads);
  return plan;
}

ColumnPlan plan_sum_columns(std::size_t rows, std::size_t cols) {
  const std::size_t vector = cols % 4 == 0 ? 4 : cols % 2 == 0 ? 2 : 1, most = most_threads / vector;
  const std::size_t across = std::min(block_side(cols / vector), most);
  ColumnPlan plan{rows, cols, vector, std::min<std::size_t>(across, 32), 1, 1, 1};
  plan.height = std::min({block_side(rows), most, most / plan.width});
  plan.width = std::min(across, most / plan.height);
  if (!splits_along_y(rows, plan.height)) return plan;
  plan.threads = plan.height;
  plan.blocks =
      blocks_of(rounded_up(rows, plan.height), rounded_up(cols / vector, plan.width), plan.width * plan.height);
  return plan;
}

std::string describe(const SumPlan& plan) {
  std::string text = "reduce_kernel W=" + std::to_string(plan.width) + " H=" + std::to_string(plan.height) +
                     " V=" + std::to_string(plan.vector);
  if (plan.threads > plan.width) text += " rows split along y";
  if (plan.blocks > 1) text += " over " + std::to_string(plan.blocks) + " blocks";
  return text;
}

void sum_rows(const SumPlan& plan, std::span<const float> x, std::span<float> sums, int threads) {
  constexpr std::size_t elements = 65536;
  std::vector<float> partials(plan.blocks > 1 ? plan.rows * plan.blocks : 0);
  const std::span<float> results = plan.blocks > 1 ? std::span<float>(partials) : sums;
  const std::size_t part = std::max<std::size_t>(1, elements * plan.blocks / std::max<std::size_t>(1, plan.cols));
  parallel_parts(plan.rows * plan.blocks, part, threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t first = i / plan.blocks * plan.cols;
      results[i] = add_block(plan, x.subspan(first, plan.cols), first, i % plan.blocks, add_floats);
    }
  });
  if (plan.blocks == 1) return;
  for (std::size_t row = 0; row < plan.rows; ++row) sums[row] = add_partials(plan, &partials[row * plan.blocks]);
}

float norm_of(std::span<const float> x) {
  constexpr SumOrder order{4, 128, true};
  const SumPlan plan = plan_sum(1, x.size(), sizeof(float), order);
  std::vector<float> partials(plan.blocks);
  for (std::size_t block = 0; block < plan.blocks; ++block) partials[block] = add_block(plan, x, 0, block, add_square);
  return std::sqrt(plan.blocks == 1 ? partials[0] : add_partials(plan, partials.data()));
}

namespace {

constexpr std::size_t columns_of_part = 64;
using ColumnSums = std::array<float, columns_of_part>;

// What thread y of a block leaves: its rows go to four accumulators in turn.
void add_column_rows(const ColumnPlan& plan, std::span<const float> x, std::size_t begin, std::size_t count,
                     std::size_t first_row, std::size_t step, ColumnSums& sums) {
  std::array<ColumnSums, accumulators_by_step> turns{};
  for (std::size_t row = first_row, turn = 0; row < plan.rows; row += step, turn = (turn + 1) % accumulators_by_step)
    for (std::size_t c = 0; c < count; ++c) turns[turn][c] += x[row * plan.cols + begin + c];
  for (std::size_t c = 0; c < count; ++c) sums[c] = turns[0][c] + turns[1][c] + turns[2][c] + turns[3][c];
}

void fold_columns(std::vector<ColumnSums>& threads, std::size_t count) {
  fold_halves(threads.data(), threads.size(), 1, [&](ColumnSums a, const ColumnSums& b) {
    for (std::size_t c = 0; c < count; ++c) a[c] += b[c];
    return a;
  });
}

}  // namespace

void sum_columns(const ColumnPlan& plan, std::span<const float> x, std::span<float> sums, int threads) {
  parallel_parts(plan.cols, columns_of_part, threads, [&](std::size_t begin, std::size_t end) {
    const std::size_t count = end - begin;
    std::vector<ColumnSums> own(plan.threads), all(plan.threads);
    for (std::size_t block = 0; block < plan.blocks; ++block) {
      for (std::size_t y = 0; y < plan.threads; ++y)
        add_column_rows(plan, x, begin, count, y + block * plan.threads, plan.threads * plan.blocks, own[y]);
      fold_columns(own, count);
      // The last block to end adds what the blocks have left: thread y takes every so many from y on.
      for (std::size_t c = 0; c < count; ++c) all[block % plan.threads][c] += own[0][c];
    }
    if (plan.blocks > 1) fold_columns(all, count);
    std::copy_n(all[0].begin(), count, sums.begin() + static_cast<std::ptrdiff_t>(begin));
  });
}

std::string sum_columns_kernel(const OperationRequest& request) {
  OperationRequest row = request;
  if (request.cols == 1) row.rows = 1, row.cols = request.rows;  // a column of one element is a row
  const std::string kernel = sum_kernel(row, torch_2_10_sum);
  if (kernel.empty() || request.rows == 0 || request.cols <= 1) return kernel;
  const ColumnPlan plan = plan_sum_columns(request.rows, request.cols);
  return "reduce_kernel W=" + std::to_string(plan.width) + " H=" + std::to_string(plan.height) +
         " columns=" + std::to_string(plan.vector) + (plan.threads > 1 ? " split along y" : "") +
         (plan.blocks > 1 ? " over " + std::to_string(plan.blocks) + " blocks" : "");
}

void run_sum_columns(const OperationRequest& request, OperationCodes codes) {
  std::vector<float> sums(request.cols);
  if (request.cols == 1 && request.rows != 0)
    sum_rows(plan_sum(1, request.rows, element_bytes(request.type), torch_2_10_sum), request.x, sums, request.threads);
  else if (request.rows != 0)
    sum_columns(plan_sum_columns(request.rows, request.cols), request.x, sums, request.threads);
  for (std::size_t c = 0; c < request.cols; ++c) codes[c] = store_code(sums[c], request.type);
}

std::string sum_kernel(const OperationRequest& request, const SumOrder& order) {
  if (!is_operation_type(request.type)) return {};
  if (request.rows == 0 || request.cols == 0) return "fill";  // nothing to add
  const std::size_t bytes = element_bytes(request.type);
  // What needs offsets of more than 31 bits is cut in two, again and again, and added differently.
  if (request.cols > (std::size_t{1} << 31) / bytes / request.rows) return {};
  return describe(plan_sum(request.rows, request.cols, bytes, order));
}

namespace {

std::vector<float> add_rows(const OperationRequest& request, const SumOrder& order) {
  std::vector<float> sums(request.rows);
  if (request.cols != 0)
    sum_rows(plan_sum(request.rows, request.cols, element_bytes(request.type), order), request.x, sums,
             request.threads);
  return sums;
}

// The exact sum of a row divided by an integer, rounded once.
std::uint32_t exact_quotient(std::span<const float> row, std::size_t divisor, const Format& type) {
  WideSum sum;
  bool positive = false, negative = false, nan = false;
  for (const float x : row) {
    const Unpacked u = unpack(std::bit_cast<std::uint32_t>(x), "fp32"_fmt);
    nan = nan || u.is_nan();
    if (u.is_inf()) (u.negative ? negative : positive) = true;
    else if (!u.is_nan()) sum.add(u.negative, u.significand, u.exponent);
  }
  constexpr float infinity = std::bit_cast<float>(0x7F800000u);
  if (nan || (positive && negative) || divisor == 0) return store_code(infinity - infinity, type);
  if (positive || negative) return store_code(negative ? -infinity : infinity, type);
  Exact exact = sum.exact();
  // 128 bits by at most 64 leave more bits than any decision needs; the rest of the division only has to be noticed.
  const U128 quotient = exact.significand / divisor;
  exact.sticky = exact.sticky || quotient * divisor != exact.significand;
  exact.significand = quotient;
  return static_cast<std::uint32_t>(round_exact(exact, type));
}

void run_exact_quotients(const OperationRequest& request, std::size_t divisor, OperationCodes codes) {
  for_rows(request, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row)
      codes[row] = exact_quotient(request.x.subspan(row * request.cols, request.cols), divisor, request.type);
  });
}

}  // namespace

void run_sum(const OperationRequest& request, const SumOrder& order, OperationCodes codes) {
  const std::vector<float> sums = add_rows(request, order);
  for (std::size_t row = 0; row < request.rows; ++row) codes[row] = store_code(sums[row], request.type);
}

void run_mean(const OperationRequest& request, const SumOrder& order, OperationCodes codes) {
  const std::vector<float> sums = add_rows(request, order);
  const float factor = mean_factor(request.rows, request.cols);  // infinite for empty rows, whose means are NaN
  for (std::size_t row = 0; row < request.rows; ++row) codes[row] = store_code(sums[row] * factor, request.type);
}

void run_sum_exact(const OperationRequest& request, OperationCodes codes) { run_exact_quotients(request, 1, codes); }
void run_mean_exact(const OperationRequest& request, OperationCodes codes) {
  run_exact_quotients(request, request.cols, codes);
}

}  // namespace detail

}  // namespace narrow

#include "narrow/special/reduce_sum.hpp"

#include <array>
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
// round.
float add_block(const SumPlan& plan, std::span<const float> row, std::size_t first_element, std::size_t block) {
  const bool by_vector = plan.vector > 1;
  const std::size_t per_thread = by_vector ? plan.vector : accumulators_by_step, chunk = plan.threads * per_thread;
  SumThreads sums;
  std::fill_n(sums.begin(), chunk, 0.0f);

  // Up to an aligned address, and what is left after whole vectors: threads of block 0 take an element each.
  const std::size_t shift = by_vector ? first_element % plan.vector : 0;
  const std::size_t head = shift != 0 ? plan.vector - shift : 0;
  if (block == 0)
    for (std::size_t i = 0; i < head; ++i) sums[(i + shift) * per_thread] += row[i];
  const std::size_t tail = by_vector ? (row.size() - head) % plan.vector : 0, end = row.size() - tail;
  for (std::size_t at = head + block * chunk; at < end; at += chunk * plan.blocks) {
    const std::size_t count = std::min(chunk, end - at);
    for (std::size_t i = 0; i < count; ++i) sums[i] += row[at + i];
  }
  if (block == 0)
    for (std::size_t i = 0; i < tail; ++i) sums[i * per_thread] += row[end + i];

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

}  // namespace

SumPlan plan_sum(std::size_t rows, std::size_t cols, std::size_t element_bytes, const SumOrder& order) {
  constexpr std::size_t multiprocessors = 132, threads_of_multiprocessor = 2048;
  SumPlan plan{order, rows, cols, 1, 1, 1, 1, 1};
  if (cols >= order.vectorised_from)
    plan.vector = element_bytes == 2 ? static_cast<std::size_t>(order.vector_of_16_bits) : 4;
  const std::size_t across = block_side(cols / plan.vector);
  plan.width = std::min<std::size_t>(across, 32);
  plan.height = std::min(block_side(rows), most_threads / plan.width);
  plan.width = std::min(across, most_threads / plan.height);
  plan.threads = plan.width;

  const bool splits = rounded_up(cols, plan.width) >= std::min(fewest_per_thread * plan.height, most_per_thread);
  if (!splits) return plan;
  plan.threads = plan.width * plan.height;
  const std::size_t per_thread = rounded_up(cols, plan.threads);
  const std::size_t target = multiprocessors * (threads_of_multiprocessor / plan.threads);
  if (per_thread >= most_per_thread && rows <= target)
    plan.blocks = std::max(std::min(rounded_up(target, rows), rounded_up(per_thread, fewest_per_thread)),
                           rounded_up(per_thread, most_per_thread));
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
      results[i] = add_block(plan, x.subspan(first, plan.cols), first, i % plan.blocks);
    }
  });
  if (plan.blocks == 1) return;
  for (std::size_t row = 0; row < plan.rows; ++row) sums[row] = add_partials(plan, &partials[row * plan.blocks]);
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

// Whole operations: which kernel takes which shape, orders of sums, edges, and bad requests; what an H200 returned is
// replayed by golden_operations_test, but for some short backward passes.
#include "narrow/special/operation.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "narrow/base/error.hpp"
#include "narrow/golden/product_inputs.hpp"
#include "support/float_environments.hpp"
#include "support/inputs.hpp"

namespace {

using narrow::operator""_fmt;
using narrow::Format;
using narrow::OperationRequest;
using narrow::run_operation;
using RowCodes = std::vector<std::uint32_t>;

const Format row_types[] = {"fp32"_fmt, "fp16"_fmt, "bf16"_fmt};
std::uint32_t row_nan(const Format& type) { return type == "fp32"_fmt ? 0x7FFFFFFF : 0x7FFF; }

float row_value(std::uint32_t code, const Format& type) { return static_cast<float>(narrow::decode(code, type)); }
std::uint32_t row_code(float x, const Format& type) { return static_cast<std::uint32_t>(narrow::encode(x, type)); }

// A request and what it looks at.
struct RowInputs {
  OperationRequest request;
  std::vector<float> x, w, b, g;
  std::vector<std::int64_t> target;

  RowInputs(const Format& type, std::size_t rows, std::size_t cols) : x(rows * cols) {
    request.type = type, request.rows = rows, request.cols = cols;
  }
  RowInputs(const Format& type, const std::vector<float>& row) : RowInputs(type, 1, row.size()) { x = row; }

  const OperationRequest& ready() {
    request.x = x, request.w = w, request.b = b, request.g = g, request.target = target;
    return request;
  }
  RowCodes run(std::string_view operation, std::string_view variant = "torch") {
    return run_operation(operation, variant, ready());
  }
  std::string kernel(std::string_view operation, std::string_view variant = "torch") {
    for (const auto* row : narrow::operation_rows(operation))
      if (row->variant == variant) return row->kernel(ready());
    return "no such variant";
  }
};

// Values that are the same on every machine: x is matrix 0 of the seed, w is near 1, b is of another seed.
RowInputs made_inputs(const Format& type, std::size_t rows, std::size_t cols, std::uint64_t seed, float scale = 1) {
  RowInputs in(type, rows, cols);
  for (std::size_t i = 0; i < in.x.size(); ++i)
    in.x[i] = narrow::round_to(narrow::product_value(seed, 0, i) * scale, type);
  return in;
}
void add_weight(RowInputs& in, std::uint64_t seed) {
  for (std::size_t i = 0; i < in.request.cols; ++i)
    in.w.push_back(narrow::round_to(narrow::product_value(seed, 1, i) * 0.25f + 1.0f, in.request.type));
}
void add_bias(RowInputs& in, std::uint64_t seed) {
  for (std::size_t i = 0; i < in.request.cols; ++i)
    in.b.push_back(narrow::round_to(narrow::product_value(seed + 1000, 0, i), in.request.type));
}
// Every row whose index is one less than a multiple of `ignored` has no target.
void add_targets(RowInputs& in, std::uint64_t seed, std::size_t ignored) {
  for (std::size_t i = 0; i < in.request.rows; ++i) {
    const std::uint64_t r = narrow::random_bits((seed + 2000) * 2, i) >> 1;
    const bool counts = ignored == 0 || i % ignored != ignored - 1;
    in.target.push_back(counts ? static_cast<std::int64_t>(r % in.request.cols) : -100);
  }
}

std::vector<std::string> operation_names() {
  std::vector<std::string> names;
  for (const auto* row : narrow::operation_rows())
    if (names.empty() || names.back() != row->operation) names.emplace_back(row->operation);
  return names;
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}
bool is_backward(std::string_view operation) { return operation.find("_backward") != std::string_view::npos; }
bool gives_columns(std::string_view operation) {
  return operation.ends_with("_w") || operation.ends_with("_b") ||
         is_one_of(operation, {"sum_rows", "embedding_backward"});
}

// What a backward pass takes beside x.
void add_gradient(RowInputs& in, std::string_view operation, std::uint64_t seed) {
  if (operation == "cross_entropy_backward") return;
  if (operation == "softmax_backward" || operation == "log_softmax_backward") {
    const RowCodes y = in.run(operation.substr(0, operation.find("_backward")));
    std::transform(y.begin(), y.end(), in.x.begin(), [&](std::uint32_t c) { return row_value(c, in.request.type); });
  }
  in.g = made_inputs(in.request.type, in.request.rows, in.request.cols, seed + 3000).x;
  if (is_one_of(operation, {"layer_norm_backward_b", "embedding_backward"})) in.x.clear();
}

// Some rows for any operation.
RowInputs inputs_for(std::string_view operation, const Format& type, std::size_t rows, std::size_t cols,
                     std::uint64_t seed = 77, float scale = 1) {
  RowInputs in = made_inputs(type, rows, cols, seed, scale);
  if (is_one_of(operation, {"layer_norm", "rms_norm", "layer_norm_backward", "rms_norm_backward"}))
    add_weight(in, seed);
  if (operation == "layer_norm") add_bias(in, seed);
  if (operation.starts_with("cross_entropy")) add_targets(in, seed, 0);
  if (is_backward(operation)) add_gradient(in, operation, seed);
  if (operation == "embedding_backward") {
    in.request.words = 7;
    for (std::size_t i = 0; i < rows; ++i) in.target.push_back(static_cast<std::int64_t>(i * i % 7));
  }
  return in;
}

}  // namespace

TEST_CASE("operation: every variant is next to the definition") {
  for (const auto* row : narrow::operation_rows())
    for (const Format& type : row_types)
      for (const std::size_t cols : {1u, 6u, 100u, 770u, 1024u}) {
        if (is_backward(row->operation) || row->operation == "sum_rows") continue;  // below
        CAPTURE(row->operation);
        CAPTURE(row->variant);
        CAPTURE(cols);
        RowInputs in = inputs_for(row->operation, type, 3, cols);
        if (!in.w.empty()) in.request.eps = 1e-5;  // what is standard differs between variants
        const std::string_view reference = narrow::operation_rows(row->operation).back()->variant;  // exact or double
        const RowCodes codes = in.run(row->operation, row->variant), exact = in.run(row->operation, reference);
        REQUIRE(codes.size() == narrow::operation_outputs(row->operation, in.request));
        // Sums of FP32 lose some units in the last place, cancellation more; two roundings to the type two of those.
        const double tolerance = std::max(std::ldexp(2.5, -type.mantissa_bits), 1e-5);
        for (std::size_t i = 0; i < codes.size(); ++i) {
          const auto y = static_cast<double>(row_value(codes[i], type)),
                     z = static_cast<double>(row_value(exact[i], type));
          CHECK(std::fabs(y - z) <= tolerance * std::max(1.0, std::fabs(z)));
        }
      }
}

TEST_CASE("operation: a shape decides the kernel of a sum") {
  const auto kernel = [](std::size_t rows, std::size_t cols, const Format& type, const char* variant = "torch") {
    OperationRequest request;
    request.type = type, request.rows = rows, request.cols = cols;
    for (const auto* row : narrow::operation_rows("sum"))
      if (row->variant == variant) return row->kernel(request);
    return std::string();
  };
  CHECK(kernel(1000, 768, "bf16"_fmt) == "reduce_kernel W=32 H=16 V=8");
  CHECK(kernel(1000, 8191, "bf16"_fmt) == "reduce_kernel W=32 H=16 V=8 rows split along y");
  CHECK(kernel(1000, 8160, "bf16"_fmt) == "reduce_kernel W=32 H=16 V=8");
  CHECK(kernel(1, 768, "bf16"_fmt) == "reduce_kernel W=64 H=1 V=8");
  CHECK(kernel(1, 768, "fp32"_fmt) == "reduce_kernel W=128 H=1 V=4");
  CHECK(kernel(8, 4096, "fp32"_fmt) == "reduce_kernel W=64 H=8 V=4");
  CHECK(kernel(16, 127, "bf16"_fmt) == "reduce_kernel W=32 H=16 V=1");
  CHECK(kernel(1, 1 << 17, "bf16"_fmt) == "reduce_kernel W=512 H=1 V=8 over 16 blocks");
  CHECK(kernel(1, 1 << 20, "bf16"_fmt) == "reduce_kernel W=512 H=1 V=8 over 128 blocks");
  CHECK(kernel(1, 1 << 24, "fp32"_fmt) == "reduce_kernel W=512 H=1 V=4 over 528 blocks");
  CHECK(kernel(1000, 128, "bf16"_fmt, "torch-2.9") == "reduce_kernel W=32 H=16 V=1");
  CHECK(kernel(1000, 129, "bf16"_fmt, "torch-2.9") == "reduce_kernel W=32 H=16 V=4");
  CHECK(kernel(1u << 20, 1u << 12, "fp32"_fmt).empty());  // beyond offsets of 31 bits
}

TEST_CASE("operation: a length decides the kernels of softmax and of norms") {
  const auto softmax = [](std::size_t cols, const Format& type) { return RowInputs(type, 1, cols).kernel("softmax"); };
  CHECK(softmax(2048, "fp32"_fmt) == "softmax_warp_forward");
  CHECK(softmax(2049, "bf16"_fmt) == "cunn_SoftMaxForwardReg");
  CHECK(softmax(9216, "fp16"_fmt) == "cunn_SoftMaxForwardReg");
  CHECK(softmax(9217, "fp16"_fmt) == "cunn_SoftMaxForward");
  CHECK(softmax(12252, "fp32"_fmt) == "cunn_SoftMaxForwardSmem");
  CHECK(softmax(12256, "fp32"_fmt) == "cunn_SoftMaxForward");
  CHECK(softmax(24504, "bf16"_fmt) == "cunn_SoftMaxForwardSmem");
  CHECK(softmax(24512, "bf16"_fmt) == "cunn_SoftMaxForward");
  CHECK(RowInputs("bf16"_fmt, 1, 768).kernel("rms_norm") == "vectorized_layer_norm_kernel");
  CHECK(RowInputs("bf16"_fmt, 1, 770).kernel("layer_norm") == "RowwiseMomentsCUDAKernel, LayerNormForwardCUDAKernel");
}

TEST_CASE("operation: versions add four numbers in different pairs") {
  // Numbers whose sum tells the order: 2^24 swallows a 1.
  RowInputs in("fp32"_fmt, {0x1p24f, 1, -0x1p24f, 1});
  CHECK(row_value(in.run("sum")[0], "fp32"_fmt) == 2);               // (x0 + x2) + (x1 + x3)
  CHECK(row_value(in.run("sum", "torch-2.9")[0], "fp32"_fmt) == 1);  // (x0 + x1) + (x2 + x3)
  CHECK(row_value(in.run("sum", "exact")[0], "fp32"_fmt) == 2);
  CHECK(row_value(in.run("mean", "exact")[0], "fp32"_fmt) == 0.5f);
}

TEST_CASE("operation: the exact sum loses nothing and the exact mean rounds once") {
  RowInputs cancelling("fp32"_fmt, {0x1p127f, 0x1p127f, 0x1p-149f, -0x1p127f, -0x1p127f});
  CHECK(cancelling.run("sum", "exact")[0] == 1);
  RowInputs third("fp32"_fmt, {1, 0, 0});
  CHECK(row_value(third.run("mean", "exact")[0], "fp32"_fmt) == 1.0f / 3);
  RowInputs above_tie("bf16"_fmt, {1, 0x1p-8f, 0x1p-100f});
  CHECK(above_tie.run("sum", "exact")[0] == 0x3F81);
}

TEST_CASE("operation: a NaN or an infinity spoils its own row alone") {
  for (const char* operation : {"softmax", "log_softmax", "sum", "mean", "layer_norm", "rms_norm"})
    for (const Format& type : row_types)
      for (const std::size_t cols : {6u, 100u, 3000u, 9217u}) {
        CAPTURE(operation);
        CAPTURE(cols);
        RowInputs in = made_inputs(type, 3, cols, 5);
        const RowCodes before = in.run(operation);
        in.x[cols + cols / 2] = test::nan_value;
        const RowCodes after = in.run(operation);
        const std::size_t per_row = after.size() / 3;
        for (std::size_t i = 0; i < after.size(); ++i)
          CHECK(after[i] == (i / per_row == 1 ? row_nan(type) : before[i]));
        in.x[cols + cols / 2] = test::infinity;
        // An element that is not the infinite one. Where the RMS is made of a variance, Inf - Inf is in it.
        const std::uint32_t first = in.run(operation)[per_row];
        const std::string_view name = operation;
        if (name == "sum" || name == "mean") CHECK(first == row_code(test::infinity, type));
        else if (name == "rms_norm" && cols % 4 == 0) CHECK((first & ~(1u << (type == "fp32"_fmt ? 31 : 15))) == 0);
        else CHECK(first == row_nan(type));
      }
}

TEST_CASE("operation: a NaN in a gradient spoils its own row or column alone") {
  for (const std::string& operation : operation_names())
    for (const Format& type : row_types)
      for (const std::size_t cols : {6u, 100u, 3000u}) {
        if (!is_backward(operation) || operation == "cross_entropy_backward") continue;
        CAPTURE(operation);
        CAPTURE(cols);
        RowInputs in = inputs_for(operation, type, 3, cols);
        const RowCodes before = in.run(operation);
        in.g[cols + cols / 2] = test::nan_value;
        const RowCodes after = in.run(operation);
        const bool one = is_one_of(operation, {"gelu_backward", "gelu_tanh_backward", "silu_backward"});
        for (std::size_t i = 0; i < after.size(); ++i) {
          // Row 1 of the gradient is word 1's.
          const bool spoilt = gives_columns(operation) ? i % cols == cols / 2 && (after.size() == cols || i / cols == 1)
                              : one                    ? i == cols + cols / 2
                                                       : i / cols == 1;
          CHECK(after[i] == (spoilt ? row_nan(type) : before[i]));
        }
      }
}

TEST_CASE("operation: rows of minus infinity and rows beyond the range") {
  for (const Format& type : row_types) {
    for (const std::size_t cols : {5u, 3000u, 10000u}) {
      RowInputs in(type, std::vector<float>(cols, -test::infinity));
      CHECK(in.run("softmax")[0] == row_nan(type));
      CHECK(in.run("log_softmax")[0] == row_nan(type));
      in.x[1] = 2;
      CHECK(in.run("softmax")[1] == row_code(1, type));
      CHECK(in.run("softmax")[0] == 0);
      CHECK(in.run("log_softmax")[0] == row_code(-test::infinity, type));
    }
    RowInputs large(type, std::vector<float>(64, static_cast<float>(narrow::largest(type))));
    CHECK(large.run("sum")[0] == row_code(test::infinity, type));
    CHECK(large.run("softmax")[0] == row_code(0x1p-6f, type));
  }
}

TEST_CASE("operation: activations at their edges") {
  for (const Format& type : row_types) {
    RowInputs in(type, {test::nan_value, test::infinity, -test::infinity, 0.0f, -0.0f});
    for (const char* operation : {"gelu", "gelu_tanh", "silu"}) {
      const RowCodes codes = in.run(operation);
      CHECK(codes[0] == row_nan(type));
      CHECK(codes[1] == row_code(test::infinity, type));
      CHECK(codes[2] == row_nan(type));  // -Inf times 0, -Inf by Inf
      CHECK(codes[3] == 0);
      CHECK(codes[4] == row_code(-0.0f, type));
    }
  }
}

TEST_CASE("operation: empty matrices have results where there is something to say") {
  for (const auto* row : narrow::operation_rows())
    for (const Format& type : row_types) {
      CAPTURE(row->operation);
      CAPTURE(row->variant);
      const std::string_view name = row->operation;
      const auto check = [&](std::size_t rows, std::size_t cols) {
        RowInputs in(type, rows, cols);
        if (name.starts_with("cross_entropy")) in.target.assign(rows, -100);
        if (name == "embedding_backward") in.target.assign(rows, 0), in.request.words = 1;
        const RowCodes codes = in.run(name, row->variant);
        CHECK(codes.size() == narrow::operation_outputs(name, in.request));
        const bool adds = name == "sum" || gives_columns(name);
        for (const std::uint32_t code : codes) CHECK(code == (adds ? 0 : row_nan(type)));
      };
      check(0, 0);
      check(0, 5);
      check(3, 0);
    }
}

TEST_CASE("operation: layer_norm of a constant row need not be zero") {
  // Seven threads have elements and share their means with threads that have none: 3 times n * (1 / n) is not always 3.
  RowInputs in("fp32"_fmt, std::vector<float>(28, 3.0f));
  for (const std::uint32_t code : in.run("layer_norm")) CHECK(code == row_code(-0x1.3c3a4ep-14f, "fp32"_fmt));
  for (const std::uint32_t code : in.run("layer_norm", "double")) CHECK(code == 0);
}

TEST_CASE("operation: Hugging Face rounds before the weight") {
  RowInputs in("bf16"_fmt, {1, 1, 1, 1});
  in.w.assign(4, 1.5f);
  in.request.eps = 0.01183;  // 1 / sqrt 1.01183 is just below the middle of two numbers of BF16
  CHECK(row_value(in.run("rms_norm", "huggingface")[0], "bf16"_fmt) == 1.484375f);
  CHECK(row_value(in.run("rms_norm", "torch-composite")[0], "bf16"_fmt) == 1.4921875f);
}

TEST_CASE("operation: cross entropy leaves out what is ignored") {
  for (const Format& type : row_types) {
    RowInputs all = made_inputs(type, 6, 10, 8), some = made_inputs(type, 3, 10, 8);
    all.target = {1, 2, 3, 7, 7, 7}, all.request.ignore_index = 7;
    some.target = {1, 2, 3};
    CHECK(all.run("cross_entropy") == some.run("cross_entropy"));
    some.target = {-100, -100, -100};
    CHECK(some.run("cross_entropy")[0] == row_nan(type));
  }
}

TEST_CASE("operation: threads do not change a bit") {
  for (const std::string& name : operation_names())
    for (const auto& [rows, cols] : {std::pair{40u, 5000u}, std::pair{1u, 200'000u}}) {
      CAPTURE(name);
      RowInputs in = inputs_for(name, "bf16"_fmt, rows, cols);
      in.request.threads = 1;
      const RowCodes one = in.run(name);
      in.request.threads = 4;
      CHECK(in.run(name) == one);
    }
}

TEST_CASE("operation: no operation notices the caller's rounding mode or flush to zero") {
  std::vector<RowInputs> inputs;
  const std::vector<std::string> names = operation_names();
  for (const std::string& name : names) {
    inputs.push_back(inputs_for(name, "fp32"_fmt, 3, 500));
    std::vector<float>& values = is_backward(name) && !inputs.back().g.empty() ? inputs.back().g : inputs.back().x;
    for (std::size_t i = 0; i < 500; i += 3) values[i] *= 0x1p-130f;
  }
  test::check_environments("operation", [&](test::Digest& digest) {
    for (std::size_t i = 0; i < names.size(); ++i)
      for (const auto* row : narrow::operation_rows(names[i])) digest.add_all(inputs[i].run(names[i], row->variant));
  });
}

TEST_CASE("operation: bad requests say what is possible") {
  RowInputs in = made_inputs("bf16"_fmt, 2, 4, 1);
  const auto fails = [](RowInputs request, const char* operation, const char* variant, const char* why) {
    try {
      request.run(operation, variant);
      FAIL("no error");
    } catch (const narrow::Error& error) {
      CHECK(std::string_view(error.what()).find(why) != std::string_view::npos);
    }
  };
  fails(in, "softmin", "torch", "log_softmax");
  fails(in, "softmax", "jax", "torch, double");
  fails(RowInputs("e4m3"_fmt, 1, 4), "softmax", "torch", "bf16");
  fails(RowInputs("fp64"_fmt, 1, 4), "sum", "exact", "bf16");
  RowInputs other = in;
  other.x.pop_back();
  fails(other, "softmax", "torch", "x has 7 numbers, not 8");
  other = in, other.w.assign(4, 1.0f);
  fails(other, "softmax", "torch", "takes no w");
  other.w.assign(3, 1.0f);
  fails(other, "layer_norm", "torch", "w has 3 numbers, not 4");
  other = in, other.b.assign(4, 1.0f);
  fails(other, "rms_norm", "torch", "takes no b");
  other = in, other.request.eps = 1e-5;
  fails(other, "sum", "torch", "takes no eps");
  fails(in, "cross_entropy", "torch", "target has 0 numbers, not 2");
  other = in, other.target = {0, 4};
  fails(other, "cross_entropy", "torch", "target 4");
  other.target = {-1, 0};
  fails(other, "cross_entropy", "double", "target -1");
  other.target = {0, 1};
  fails(other, "softmax", "torch", "takes no target");
  CHECK_THROWS_AS(narrow::operation_outputs("none", in.request), narrow::Error);
}

TEST_CASE("operation: bad backward requests say what is possible") {
  RowInputs in = made_inputs("bf16"_fmt, 2, 4, 1);
  const auto why_not = [](RowInputs request, const char* operation) {
    try {
      request.run(operation);
      return std::string("no error");
    } catch (const narrow::Error& error) {
      return std::string(error.what());
    }
  };
  CHECK(why_not(in, "softmax_backward") == "softmax_backward: g has 0 numbers, not 8");
  in.g.assign(7, 1.0f);
  CHECK(why_not(in, "gelu_backward") == "gelu_backward: g has 7 numbers, not 8");
  in.g.push_back(1);
  CHECK(why_not(in, "softmax") == "softmax: takes no g");
  CHECK(why_not(in, "layer_norm_backward_b") == "layer_norm_backward_b: takes no x");
  in.request.words = 3;
  CHECK(why_not(in, "silu_backward") == "silu_backward: takes no words");
  in.target = {0, 1};
  CHECK(why_not(in, "cross_entropy_backward") == "cross_entropy_backward: g has 8 numbers, not 1");
  in.x.clear(), in.target = {2, 3};
  CHECK(why_not(in, "embedding_backward") == "embedding_backward: target 3 is no word of 3");
  in.target = {2, -100};  // no row of a gradient is left out
  CHECK(why_not(in, "embedding_backward") == "embedding_backward: target -100 is no word of 3");
  in.target.clear();
  CHECK(why_not(in, "embedding_backward") == "embedding_backward: target has 0 numbers, not 2");
  // Kernels without a recording: two steps.
  RowInputs many = made_inputs("bf16"_fmt, 65537, 1, 1);
  many.g = many.x;
  CHECK(why_not(many, "layer_norm_backward_w").find("does not take this shape") != std::string::npos);
}

// ---- Backward passes -----------------------------------------------------------------------------------------------

namespace {

using Doubles = std::vector<double>;
double wide(float x) { return static_cast<double>(x); }

double derivative(std::string_view operation, double x) {
  const double pi = std::acos(-1.0);
  if (operation == "gelu_backward")
    return std::erfc(-x / std::sqrt(2.0)) / 2 + x * std::exp(-x * x / 2) / std::sqrt(2 * pi);
  if (operation == "silu_backward") {
    const double s = 1 / (1 + std::exp(-x));
    return s * (1 + x * (1 - s));
  }
  const double beta = std::sqrt(2 / pi), t = std::tanh(beta * (x + 0.044715 * x * x * x));
  return (1 + t) / 2 + x / 2 * (1 - t * t) * beta * (1 + 3 * 0.044715 * x * x);
}

struct RowMoments {
  double mean = 0, rstd = 0;
};
RowMoments moments_of(const RowInputs& in, std::size_t row, bool centred) {
  const std::size_t n = in.request.cols;
  RowMoments m;
  double squares = 0;
  if (centred)
    for (std::size_t i = 0; i < n; ++i) m.mean += wide(in.x[row * n + i]) / static_cast<double>(n);
  for (std::size_t i = 0; i < n; ++i) squares += std::pow(wide(in.x[row * n + i]) - m.mean, 2);
  m.rstd = 1 / std::sqrt(squares / static_cast<double>(n) + in.request.eps.value());
  return m;
}

void add_norm_gradient(const RowInputs& in, std::size_t row, bool centred, Doubles& out) {
  const std::size_t n = in.request.cols, first = row * n;
  const RowMoments m = moments_of(in, row, centred);
  double plain = 0, weighted = 0;
  const auto gw = [&](std::size_t i) { return wide(in.g[first + i]) * (in.w.empty() ? 1 : wide(in.w[i])); };
  const auto z = [&](std::size_t i) { return (wide(in.x[first + i]) - m.mean) * m.rstd; };
  for (std::size_t i = 0; i < n; ++i) plain += centred ? gw(i) : 0, weighted += gw(i) * z(i);
  for (std::size_t i = 0; i < n; ++i)
    out[first + i] = (gw(i) - (plain + z(i) * weighted) / static_cast<double>(n)) * m.rstd;
}

void add_softmax_gradient(const RowInputs& in, std::string_view operation, std::size_t row, Doubles& out) {
  const std::size_t n = in.request.cols, first = row * n;
  const bool of_log = operation == "log_softmax_backward";
  double sum = 0;
  for (std::size_t i = first; i < first + n; ++i) sum += wide(in.g[i]) * (of_log ? 1 : wide(in.x[i]));
  for (std::size_t i = first; i < first + n; ++i) {
    const double y = wide(in.x[i]), g = wide(in.g[i]);
    out[i] = of_log ? g - std::exp(y) * sum : y * (g - sum);
  }
}

void add_loss_gradient(const RowInputs& in, std::size_t row, double counted, Doubles& out) {
  const std::size_t n = in.request.cols, first = row * n;
  if (in.target[row] == in.request.ignore_index) return;
  double sum = 0;
  for (std::size_t i = first; i < first + n; ++i) sum += std::exp(wide(in.x[i]));
  for (std::size_t i = 0; i < n; ++i)
    out[first + i] =
        (std::exp(wide(in.x[first + i])) / sum - (static_cast<std::int64_t>(i) == in.target[row] ? 1 : 0)) / counted;
}

// The gradient from its definition.
Doubles defined_gradient(std::string_view operation, const RowInputs& in) {
  const std::size_t rows = in.request.rows, cols = in.request.cols;
  Doubles out(narrow::operation_outputs(operation, in.request));
  const bool centred = operation.starts_with("layer_norm");
  const auto counted = static_cast<double>(
      std::count_if(in.target.begin(), in.target.end(), [&](auto t) { return t != in.request.ignore_index; }));
  for (std::size_t r = 0; r < rows; ++r) {
    if (is_one_of(operation, {"layer_norm_backward", "rms_norm_backward"})) add_norm_gradient(in, r, centred, out);
    else if (is_one_of(operation, {"softmax_backward", "log_softmax_backward"}))
      add_softmax_gradient(in, operation, r, out);
    else if (operation == "cross_entropy_backward") add_loss_gradient(in, r, counted, out);
    else if (operation == "embedding_backward")
      for (std::size_t c = 0; c < cols; ++c)
        out[static_cast<std::size_t>(in.target[r]) * cols + c] += wide(in.g[r * cols + c]);
    else if (operation.ends_with("_backward_w")) {
      const RowMoments m = moments_of(in, r, centred);
      for (std::size_t c = 0; c < cols; ++c)
        out[c] += wide(in.g[r * cols + c]) * (wide(in.x[r * cols + c]) - m.mean) * m.rstd;
    } else if (gives_columns(operation))
      for (std::size_t c = 0; c < cols; ++c) out[c] += wide((in.g.empty() ? in.x : in.g)[r * cols + c]);
    else
      for (std::size_t i = r * cols; i < (r + 1) * cols; ++i)
        out[i] = wide(in.g[i]) * derivative(operation, wide(in.x[i]));
  }
  return out;
}

std::uint64_t hash_of(const RowCodes& codes) {
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < codes.size(); ++i) hash += narrow::mix_bits(std::uint64_t{codes[i]} << 32 | i);
  return hash;
}

}  // namespace

TEST_CASE("operation: a backward pass is next to the derivative of the forward one") {
  for (const std::string& operation : operation_names())
    for (const Format& type : row_types)
      for (const auto& [rows, cols] :
           {std::pair{3u, 1u}, {5u, 6u}, {3u, 770u}, {2u, 3000u}, {70u, 36u}, {200u, 65u}, {600u, 16u}, {4000u, 5u}}) {
        if (!is_backward(operation) && operation != "sum_rows") continue;
        CAPTURE(operation);
        CAPTURE(rows);
        CAPTURE(cols);
        RowInputs in = inputs_for(operation, type, rows, cols);
        if (operation.find("norm_backward") != std::string::npos && !operation.ends_with("_b")) in.request.eps = 0.01;
        if (operation == "cross_entropy_backward") in.target[1] = -100;
        const RowCodes codes = in.run(operation);
        const Doubles defined = defined_gradient(operation, in);
        REQUIRE(codes.size() == defined.size());
        // Two roundings to the type and a sum of FP32. Sums of columns may lose more than their results show, words of
        // 16 bits with every group of rows.
        const bool loses = gives_columns(operation) && (type == "fp32"_fmt || operation == "embedding_backward");
        const double tolerance = std::max(std::ldexp(2.5, -type.mantissa_bits), 1e-5) * (loses ? 10 : 1);
        for (std::size_t i = 0; i < codes.size(); ++i)
          CHECK(std::fabs(wide(row_value(codes[i], type)) - defined[i]) <=
                tolerance * std::max(1.0, std::fabs(defined[i])));
      }
}

TEST_CASE("operation: short backward passes as an H200 returned them") {
  struct Recorded {
    const char* operation;
    std::size_t rows, cols;
    std::uint64_t seed;
    float scale;
    bool weighted;
    std::uint64_t hash;
    Format type = "fp32"_fmt;
  };
  const Recorded recorded[] = {
      {"gelu_backward", 64, 500, 3, 3, false, 0x57CA49EC6C723761},
      {"gelu_tanh_backward", 64, 500, 3, 3, false, 0xCA1C2BFEA20AF74F},
      {"silu_backward", 64, 500, 3, 3, false, 0x84609D8BC76D8F16},
      {"softmax_backward", 3, 1000, 11, 4, false, 0x31CCF222E21788D4},
      {"log_softmax_backward", 3, 1025, 11, 4, false, 0x535C28EBDCF981DD},
      {"log_softmax_backward", 3, 2048, 11, 4, false, 0x2FA5FA4855C2EA56},
      {"layer_norm_backward", 5, 770, 21, 2, true, 0xF291B126AAB0EA38},
      {"layer_norm_backward", 3, 100, 22, 2, false, 0xB88C784857264380},
      {"rms_norm_backward", 3, 100, 23, 2, true, 0xFD4274F8D2B2CDB3},
      {"layer_norm_backward_w", 32, 100, 24, 2, true, 0x1AC95863F8576DB8},
      {"layer_norm_backward_b", 32, 100, 24, 2, true, 0x3579A1BA6723A95F},
      {"rms_norm_backward_w", 31, 768, 25, 2, true, 0x5D825779473EB4E2},
      {"cross_entropy_backward", 16, 100, 31, 2, false, 0xA2B380F4607C5154, "bf16"_fmt},
      {"cross_entropy_backward", 16, 100, 31, 2, false, 0x9871368893A546F6, "fp16"_fmt},
  };
  for (const Recorded& r : recorded) {
    CAPTURE(r.operation);
    CAPTURE(r.cols);
    RowInputs in = inputs_for(r.operation, r.type, r.rows, r.cols, r.seed, r.scale);
    if (!r.weighted) in.w.clear();
    if (std::string_view(r.operation).starts_with("rms_norm")) in.request.eps = 1e-5;
    CHECK(hash_of(in.run(r.operation)) == r.hash);
  }
}

TEST_CASE("operation: a shape decides the kernel of a backward pass") {
  const auto softmax = [](std::size_t cols, const Format& type) {
    return RowInputs(type, 1, cols).kernel("softmax_backward");
  };
  CHECK(softmax(1024, "fp32"_fmt) == "softmax_warp_backward");
  CHECK(softmax(1025, "bf16"_fmt) == "cunn_SoftMaxBackward");
  CHECK(softmax(1032, "bf16"_fmt) == "cunn_SoftMaxBackwardSmem");
  CHECK(softmax(12268, "fp32"_fmt) == "cunn_SoftMaxBackwardSmem");
  CHECK(softmax(12272, "fp32"_fmt) == "cunn_SoftMaxBackward");
  const auto weight = [](std::size_t rows, std::size_t cols) {
    OperationRequest request;
    request.type = "fp32"_fmt, request.rows = rows, request.cols = cols;
    return narrow::operation_rows("rms_norm_backward_w")[0]->kernel(request);
  };
  CHECK(weight(63, 128) == "GammaBetaBackwardCUDAKernelTemplate<32, 1, 8>");
  CHECK(weight(64, 128) == "GammaBetaBackwardCUDAKernelTemplate<32, 8, 64>");
  CHECK(weight(128, 128) == "GammaBetaBackwardCUDAKernelTemplate<32, 16, 128>");
  CHECK(weight(256, 128) == "GammaBetaBackwardCUDAKernelTemplate<32, 32, 256>");
  CHECK(weight(65537, 128).empty());
  CHECK(weight(65537, 2112) == "GammaBetaBackwardCUDAKernelTemplate<32, 32, 256>");
  const auto columns = [](std::size_t rows, std::size_t cols) {
    return RowInputs("bf16"_fmt, rows, cols).kernel("sum_rows");
  };
  CHECK(columns(4, 8192) == "reduce_kernel W=32 H=4 columns=4");
  CHECK(columns(256, 128) == "reduce_kernel W=32 H=4 columns=4 split along y");
  CHECK(columns(100, 770) == "reduce_kernel W=32 H=8 columns=2");
  CHECK(columns(65536, 8) == "reduce_kernel W=2 H=64 columns=4 split along y over 64 blocks");
  CHECK(columns(100000, 1) == "reduce_kernel W=512 H=1 V=8");
}

TEST_CASE("operation: columns are added by fours and by lanes") {
  // 2^24 swallows a 1, but not the sum of two.
  const auto sum_of = [](std::size_t rows, std::initializer_list<std::size_t> ones) {
    constexpr std::size_t cols = 8;
    RowInputs in("fp32"_fmt, rows, cols);
    for (std::size_t c = 0; c < cols; ++c) {
      in.x[c] = 0x1p24f;
      for (const std::size_t row : ones) in.x[row * cols + c] = 1;
    }
    const RowCodes codes = in.run("sum_rows");
    for (const std::uint32_t code : codes) CHECK(code == codes[0]);
    return row_value(codes[0], "fp32"_fmt) - 0x1p24f;
  };
  CHECK(sum_of(8, {1, 2, 3}) == 0);  // one after the other
  CHECK(sum_of(8, {1, 5}) == 2);     // accumulator 1 takes row 5 as well
  CHECK(sum_of(8, {4, 5}) == 0);     // accumulator 0 takes row 4, then comes 1
  CHECK(sum_of(256, {1, 65}) == 2);  // 64 threads: number 1 takes row 65 as well
  CHECK(sum_of(256, {1, 64}) == 0);  // and number 0 row 64
  CHECK(sum_of(256, {1, 33}) == 2);  // thread 33 is folded onto thread 1
  // 64 blocks of 64 threads: block 1 begins with row 64, and what block 33 leaves is folded onto it.
  CHECK(sum_of(65536, {64, 33 * 64}) == 2);
  CHECK(sum_of(65536, {64, 65}) == 2);  // and those of a block meet first
}

TEST_CASE("operation: gradients of w and b are added by threads of eight rows") {
  const auto sum_of = [](std::size_t rows) {
    RowInputs in("fp32"_fmt, rows, 1);
    in.g.assign(rows, 1.0f), in.g[0] = 0x1p24f;
    in.x.clear();
    return row_value(in.run("layer_norm_backward_b")[0], "fp32"_fmt) - 0x1p24f;
  };
  CHECK(sum_of(63) == 0);     // one thread
  CHECK(sum_of(64) == 56);    // seven others, of eight rows each
  CHECK(sum_of(72) == 56);    // row 64 is the first thread's again
  CHECK(sum_of(200) == 184);  // rows 0 to 7 and 128 to 135 are its own
  CHECK(sum_of(264) == 248);
}

TEST_CASE("operation: the sum of a gradient's row is a tree or a chain") {
  // An element whose y is 0 loses the whole sum.
  const auto sum_of = [](std::size_t cols, std::initializer_list<std::size_t> ones) {
    RowInputs in("fp32"_fmt, 1, cols);
    in.g.assign(cols, 0.0f), in.g[0] = 0x1p24f;
    for (const std::size_t i : ones) in.g[i] = 1;
    return -row_value(in.run("log_softmax_backward")[cols - 1], "fp32"_fmt) - 0x1p24f;
  };
  CHECK(sum_of(1024, {1, 2, 3}) == 2);   // lanes 1 and 3 meet first
  CHECK(sum_of(1025, {4, 8, 12}) == 0);  // threads of 4 elements, one after the other
  CHECK(sum_of(1028, {4, 8, 12}) == 2);
}

TEST_CASE("operation: softmax backward rounds its products") {
  // (1 + 2^-7)^2 - (1 + 2^-6) is 2^-14, but 0 where the square is a number of BF16; y = 1 shows the sum.
  RowInputs in("bf16"_fmt, {0x1.02p0f, 1, 1});
  in.g = {0x1.02p0f, -0x1.04p0f, 0};
  CHECK(in.run("softmax_backward")[2] == 0);
}

TEST_CASE("operation: rows of a word are added in groups") {
  RowInputs in("bf16"_fmt, 65, 1);
  in.x.clear(), in.request.words = 2;
  const auto sum_of = [&](std::initializer_list<std::size_t> ones) {
    in.g.assign(65, 0.0f), in.g[0] = 256;
    for (const std::size_t row : ones) in.g[row] = 1;
    in.target.assign(65, 1);
    return row_value(in.run("embedding_backward")[1], "bf16"_fmt);
  };
  CHECK(sum_of({1, 2}) == 258);    // among the first 32 rows: in FP32
  CHECK(sum_of({32, 33}) == 258);  // the next 32
  CHECK(sum_of({32, 64}) == 256);  // each is lost in BF16
  CHECK(sum_of({31, 32}) == 256);
  in.g.assign(65, 0.0f), in.g[0] = in.g[33] = 1, in.g[32] = 256;
  CHECK(row_value(in.run("embedding_backward")[1], "bf16"_fmt) == 256);  // 257 is rounded before it meets a 1
  // More than 3072 rows are sorted: groups of ten of a word's rows, in FP32.
  RowInputs many("fp32"_fmt, 3073, 1);
  many.x.clear(), many.request.words = 2;
  many.g.assign(3073, 1.0f), many.target.assign(3073, 0);
  many.g[0] = 0x1p25f;
  for (std::size_t i = 0; i < 24; ++i) many.target[100 * i] = 1;
  CHECK(row_value(many.run("embedding_backward")[1], "fp32"_fmt) == 0x1p25f + 12);  // 0, 10, 4 beside it, by fours
  CHECK(row_value(many.run("embedding_backward")[0], "fp32"_fmt) == 3049);
}

TEST_CASE("operation: the gradient of a loss") {
  RowInputs in = made_inputs("fp32"_fmt, 3, 10, 8);
  in.target = {1, -100, 3};
  const RowCodes one = in.run("cross_entropy_backward");
  for (std::size_t i = 10; i < 20; ++i) CHECK(one[i] == 0);  // has no target
  in.g = {0.25f};
  const RowCodes quarter = in.run("cross_entropy_backward");
  for (std::size_t i = 0; i < 30; ++i)
    CHECK(row_value(quarter[i], "fp32"_fmt) == row_value(one[i], "fp32"_fmt) * 0.25f);
  in.target = {-100, -100, -100};
  for (const std::uint32_t code : in.run("cross_entropy_backward")) CHECK(code == 0);
  // 257 rows count as 256 of BF16. A target whose probability is nothing gets the whole share.
  RowInputs many("bf16"_fmt, 257, 2);
  for (std::size_t i = 0; i < many.x.size(); i += 2) many.x[i] = 100;
  many.target.assign(257, 1);
  CHECK(row_value(many.run("cross_entropy_backward")[1], "bf16"_fmt) == -0x1p-8f);
  // 1/7 is rounded before it is shared: exp(-0.69140625) * 146/1024, not / 7, which would be 147 units.
  RowInputs seven("bf16"_fmt, 7, 2);
  seven.target.assign(7, 1);
  CHECK(row_value(seven.run("cross_entropy_backward")[0], "bf16"_fmt) == 146 * 0x1p-11f);
}

TEST_CASE("operation: the gradient of a loss is that of log_softmax") {
  for (const Format& type : row_types)
    for (const std::size_t cols : {2u, 100u, 3000u}) {
      CAPTURE(cols);
      RowInputs in = made_inputs(type, 3, cols, 9, 4);
      in.target = {0, 1, 1};
      in.x[0] = in.x[cols + 1] = 9;  // likely targets, whose gradient cancels
      const RowCodes loss = in.run("cross_entropy_backward");
      in.target.clear();
      const RowCodes logs = in.run("log_softmax");
      std::transform(logs.begin(), logs.end(), in.x.begin(), [&](std::uint32_t c) { return row_value(c, type); });
      in.g.assign(in.x.size(), 0.0f);
      in.g[0] = in.g[cols + 1] = in.g[2 * cols + 1] = -narrow::round_to(1.0f / 3, type);
      CHECK(in.run("log_softmax_backward") == loss);
    }
}

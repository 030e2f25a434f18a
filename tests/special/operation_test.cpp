// Whole operations: which kernel takes which shape, orders of sums, edges, and bad requests; what an H200 returned is replayed
// by golden_operations_test.
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
  std::vector<float> x, w, b;
  std::vector<std::int64_t> target;

  RowInputs(const Format& type, std::size_t rows, std::size_t cols) : x(rows * cols) {
    request.type = type, request.rows = rows, request.cols = cols;
  }
  RowInputs(const Format& type, const std::vector<float>& row) : RowInputs(type, 1, row.size()) { x = row; }

  const OperationRequest& ready() {
    request.x = x, request.w = w, request.b = b, request.target = target;
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

// Some rows for any operation.
RowInputs inputs_for(std::string_view operation, const Format& type, std::size_t rows, std::size_t cols) {
  RowInputs in = made_inputs(type, rows, cols, 77);
  if (operation == "layer_norm" || operation == "rms_norm") add_weight(in, 77);
  if (operation == "layer_norm") add_bias(in, 77);
  if (operation == "cross_entropy") add_targets(in, 77, 0);
  return in;
}

}  // namespace

TEST_CASE("operation: every variant is next to the definition") {
  for (const auto* row : narrow::operation_rows())
    for (const Format& type : row_types)
      for (const std::size_t cols : {1u, 6u, 100u, 770u, 1024u}) {
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
        if (name == "cross_entropy") in.target.assign(rows, -100);
        const RowCodes codes = in.run(name, row->variant);
        CHECK(codes.size() == narrow::operation_outputs(name, in.request));
        for (const std::uint32_t code : codes) CHECK(code == (name == "sum" ? 0 : row_nan(type)));
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
    for (std::size_t i = 0; i < 500; i += 3) inputs.back().x[i] *= 0x1p-130f;
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

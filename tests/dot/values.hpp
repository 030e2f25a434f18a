// A product at random with its sums by value, for what validate() says of a D that somebody made otherwise.
#pragma once

#include <algorithm>
#include <functional>
#include <string>

#include "dot/matrices.hpp"
#include "narrow/base/random.hpp"
#include "narrow/dot/validate.hpp"

namespace test {

inline const narrow::Format fp32 = narrow::find_format("fp32").value(), fp16 = narrow::find_format("fp16").value(),
                            bf16 = narrow::find_format("bf16").value();

inline double normal(std::uint64_t seed, std::uint64_t index) {
  double sum = -2;
  for (std::uint64_t i = 0; i < 4; ++i)
    sum += static_cast<double>(narrow::random_bits(seed, 4 * index + i) >> 11) * 0x1p-53;
  return sum * 1.7;
}

// A, B, C at random and their product by value; D is for the test to make.
struct Values {
  std::size_t rows, cols, k;
  narrow::Format in = fp16, out = fp32;
  Matrix a, b, c, d;
  std::vector<double> sums;  // A B, summed in an order of nobody's: from both ends

  Values(std::size_t m, std::size_t n, std::size_t length, const narrow::Format& d_format = fp32, double size = 1)
      : rows(m), cols(n), k(length), out(d_format), a(m, k, 2), b(k, n, 2), c(m, n, 4),
        d(m, n, test::code_bytes(d_format)), sums(m * n) {
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t x = 0; x < k; ++x) a.set(i, x, narrow::encode(size * normal(1, i * k + x), in));
    for (std::size_t x = 0; x < k; ++x)
      for (std::size_t j = 0; j < n; ++j) b.set(x, j, narrow::encode(normal(2, x * n + j), in));
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = 0; j < n; ++j) c.set(i, j, narrow::encode(3 * normal(3, i * n + j), fp32));
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = 0; j < n; ++j) sums[i * n + j] = sum(i, j, 0, k);
  }
  double sum(std::size_t i, std::size_t j, std::size_t begin, std::size_t end) const {
    double total = 0;
    for (std::size_t n = 0; n < end - begin; ++n) {
      const std::size_t x = n % 2 == 0 ? begin + n / 2 : end - 1 - n / 2;
      total += narrow::decode(a.get(i, x), in) * narrow::decode(b.get(x, j), in);
    }
    return total;
  }
  double product(std::size_t i, std::size_t j) const { return sums[i * cols + j]; }
  double bias(std::size_t i, std::size_t j) const { return narrow::decode(c.get(i, j), fp32); }
  void make(const std::function<double(std::size_t, std::size_t)>& value) {
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < cols; ++j) d.set(i, j, narrow::encode(value(i, j), out));
  }
  void make_by(const char* model, const char* plan, bool with_c = false, const narrow::Format* output = nullptr) {
    narrow::GemmOptions o;
    o.output = output != nullptr ? *output : out, o.c_format = fp32;
    test::run_gemm(*narrow::find_dot_model(model), narrow::parse_plan(plan), a.codes(), b.codes(),
                   with_c ? c.codes() : narrow::CodeMatrix{}, d, o);
  }
  narrow::ValidateRequest request(bool with_c = false) const {
    narrow::ValidateRequest r;
    r.a = a.codes(), r.b = b.codes(), r.d = d.codes();
    if (with_c) r.c = c.codes(), r.options.c_format = fp32;
    r.a_format = r.b_format = in, r.d_format = out;
    return r;
  }
};

inline bool says(const narrow::ValidateResult& r, const std::string& words) {
  return std::any_of(r.suspicions.begin(), r.suspicions.end(),
                     [&](const std::string& s) { return s.find(words) != std::string::npos; });
}
inline std::string all_of(const narrow::ValidateResult& r) {
  std::string text = r.relation + ":";
  for (const std::string& s : r.suspicions) text += " | " + s;
  return text + " " + std::string(r.candidates.at(0).model->name.view()) + " " +
         narrow::plan_text(r.candidates.at(0).plan);
}

}  // namespace test

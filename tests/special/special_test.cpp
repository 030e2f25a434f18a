// Functions of a GPU: what NVIDIA's manual promises about their errors, their edges, and a hash of many results. The
// hashes are those of ptx-math (github bcarlet/ptx-math), whose models were compared with GPUs; it ran on the same
// inputs. Those of tanh are a recording's.
#include "narrow/special/special.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <numbers>
#include <vector>

#include "narrow/base/error.hpp"
#include "narrow/special/kernels.hpp"
#include "support/float_environments.hpp"
#include "support/inputs.hpp"
#include "support/scale.hpp"

namespace {

using narrow::sfu_cos;
using narrow::sfu_sin;
using narrow::sfu_tanh;

constexpr std::uint32_t nan_word = 0x7FFFFFFF;
std::uint32_t word(float x) { return std::bit_cast<std::uint32_t>(x); }

using Function = float (*)(float);
float ex2(float x) { return narrow::sfu_ex2(x); }
float lg2(float x) { return narrow::sfu_lg2(x); }
float rcp(float x) { return narrow::sfu_rcp(x); }
float rsqrt(float x) { return narrow::sfu_rsqrt(x); }
float root(float x) { return narrow::sfu_sqrt(x); }
float ex2_ftz(float x) { return narrow::sfu_ex2(x, true); }
float lg2_ftz(float x) { return narrow::sfu_lg2(x, true); }
float rcp_ftz(float x) { return narrow::sfu_rcp(x, true); }
float rsqrt_ftz(float x) { return narrow::sfu_rsqrt(x, true); }
float root_ftz(float x) { return narrow::sfu_sqrt(x, true); }

// The sum over words i = 0, 9973, .. of mix(result << 32 | i), every NaN as one.
std::uint64_t hash_of(Function f) {
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < std::uint64_t{1} << 32; i += 9973) {
    const float y = f(std::bit_cast<float>(static_cast<std::uint32_t>(i)));
    sum += test::mix(std::uint64_t{std::isnan(y) ? nan_word : word(y)} << 32 | i);
  }
  return sum;
}

// The largest of error(x) over many floats between two.
template <class Error>
double worst(float low, float high, const Error& error) {
  double most = 0;
  for (int i = 0; i < 400'000; ++i) {
    const double u = static_cast<double>(test::mix(static_cast<std::uint64_t>(i)) >> 11) * 0x1p-53;
    most = std::max(most, error(static_cast<float>(low + (high - low) * u)));
  }
  return most;
}
template <class Exact>
auto relative(Function f, const Exact& exact) {
  return [=](float x) { return std::fabs(static_cast<double>(f(x)) / exact(static_cast<double>(x)) - 1); };
}
template <class Exact>
auto absolute(Function f, const Exact& exact) {
  return [=](float x) { return std::fabs(static_cast<double>(f(x)) - exact(static_cast<double>(x))); };
}
// In units of the last place of the exact result.
template <class Exact>
auto ulps(Function f, const Exact& exact) {
  return [=](float x) {
    const double y = exact(static_cast<double>(x));
    return std::fabs(static_cast<double>(f(x)) - y) / std::ldexp(1.0, std::max(std::ilogb(y), -126) - 23);
  };
}

}  // namespace

TEST_CASE("special: errors are within what the PTX manual promises") {
  const auto exp2 = [](double x) { return std::exp2(x); };
  const auto log2 = [](double x) { return std::log2(x); };
  CHECK(worst(-125.0f, 127.0f, relative(ex2, exp2)) < std::exp2(-22.5));
  CHECK(worst(0.5f, 2.0f, absolute(lg2, log2)) < std::exp2(-22));
  CHECK(worst(2.0f, 1e30f, relative(lg2, log2)) < std::exp2(-22));
  CHECK(worst(1.0f, 2.0f, ulps(rcp, [](double x) { return 1 / x; })) < 1);
  CHECK(worst(1.0f, 4.0f, relative(rsqrt, [](double x) { return 1 / std::sqrt(x); })) < std::exp2(-22.9));
  CHECK(worst(1.0f, 4.0f, relative(root, [](double x) { return std::sqrt(x); })) < std::exp2(-22.9));
  CHECK(worst(-3.14159f, 3.14159f, absolute(sfu_sin, [](double x) { return std::sin(x); })) < std::exp2(-20.5));
  CHECK(worst(-3.14159f, 3.14159f, absolute(sfu_cos, [](double x) { return std::cos(x); })) < std::exp2(-20.5));
  CHECK(worst(-10.0f, 10.0f, relative(sfu_tanh, [](double x) { return std::tanh(x); })) < std::exp2(-11));
}

TEST_CASE("special: errors of CUDA's functions are within its manual's") {
  const auto exp = [](double x) { return std::exp(x); };
  const auto log = [](double x) { return std::log(x); };
  CHECK(worst(-87.0f, 88.0f, ulps(narrow::cuda_expf, exp)) < 2);
  CHECK(worst(0.01f, 100.0f, ulps(narrow::cuda_logf, log)) < 1.5);
  CHECK(worst(-12.0f, 12.0f, ulps(narrow::cuda_tanhf, [](double x) { return std::tanh(x); })) < 2);
  CHECK(worst(-5.0f, 5.0f, ulps(narrow::cuda_erff, [](double x) { return std::erf(x); })) < 2.5);
  CHECK(worst(1e-42f, 1e-38f, ulps(narrow::cuda_logf, log)) < 1.5);
  CHECK(worst(-104.0f, -87.0f, ulps(narrow::cuda_expf, exp)) < 2);  // subnormal results
}

TEST_CASE("special: three million results have the hashes of another implementation") {
  CHECK(hash_of(ex2) == 0xd4ae0c480a93fe5bu);
  CHECK(hash_of(lg2) == 0x7952d1fe170afd59u);
  CHECK(hash_of(rcp) == 0x777875448467d66bu);
  CHECK(hash_of(rsqrt) == 0x911d23140b7d6795u);
  CHECK(hash_of(root) == 0xbc7e6c110933cf55u);
  CHECK(hash_of(sfu_sin) == 0x1344f8ffa416c331u);
  CHECK(hash_of(sfu_cos) == 0x59381045edfa21a5u);
}

// Low bits that do not matter in the recording, in each binade from 2^-8 to below 2^3.
constexpr int tanh_ignored[] = {6, 6, 6, 5, 5, 4, 4, 4, 3, 2, 3};

TEST_CASE("special: tanh has every result that was recorded on an H200") {
  // The hashes are of the recording, by a script without a model: the results of tanh.approx.f32 at every word of 2^-8
  // to below 8 whose ignored bits are zero; and at the words of hash_of, with x below 2^-8, one of x's sign from 8 on.
  std::uint64_t sum = 0, count = 0;
  for (std::uint32_t field = 119; field < 130; ++field)
    for (std::uint32_t w = field << 23; w < (field + 1) << 23; w += 1u << tanh_ignored[field - 119], ++count)
      sum += test::mix(std::uint64_t{word(sfu_tanh(std::bit_cast<float>(w)))} << 32 | w);
  CHECK(count == 51u << 17);
  CHECK(sum == 0xbd941b898a8027dcu);
  CHECK(hash_of(sfu_tanh) == 0x27ee1870afc124d6u);
}

TEST_CASE("special: tanh is odd and blind to the lowest bits") {
  std::size_t even = 0, seen = 0;
  for (std::uint32_t i = 0; i < 300'000; ++i) {
    const auto r = static_cast<std::uint32_t>(test::mix(i));
    const std::uint32_t field = 100 + r % 40, w = field << 23 | (r >> 9 & 0x7FFFFFu);
    const std::uint32_t result = word(sfu_tanh(std::bit_cast<float>(w)));
    even += word(sfu_tanh(std::bit_cast<float>(w | 0x80000000u))) != (result | 0x80000000u) ? 1 : 0;
    const int ignored = field < 119 ? 0 : field > 129 ? 23 : tanh_ignored[field - 119];
    seen += word(sfu_tanh(std::bit_cast<float>(w ^ (r & ((1u << ignored) - 1))))) != result ? 1 : 0;
  }
  CHECK(even == 0);
  CHECK(seen == 0);
}

TEST_CASE("special: tanh between its rows and at its ends") {
  // Words of x and of the result, as recorded; the largest float is not in the recording.
  constexpr std::uint32_t recorded[][2] = {
      {0x3B7FFFFF, 0x3B7FFFFF}, {0x3B800000, 0x3B800000}, {0x3BFFFFFF, 0x3BFFFEC0}, {0x3C000000, 0x3BFFFF00},
      {0x3D800000, 0x3D7FAAC0}, {0x3E800000, 0x3E7ACBC0}, {0x3EFFFFFF, 0x3EEC9ABF}, {0x3F000000, 0x3EEC9A50},
      {0x3F800000, 0x3F42F848}, {0x40000000, 0x3F76CAA0}, {0x40800000, 0x3F7FD430}, {0x40FFFFFF, 0x3F7FFFFC},
      {0x41000000, 0x3F800000}, {0x7F7FFFFF, 0x3F800000}, {0x7F800000, 0x3F800000}, {0x00800000, 0x00800000}};
  for (const auto& [x, y] : recorded) {
    CAPTURE(x);
    CHECK(word(sfu_tanh(std::bit_cast<float>(x))) == y);
    CHECK(word(sfu_tanh(std::bit_cast<float>(x | 0x80000000u))) == (y | 0x80000000u));
  }
}

TEST_CASE("special: zeros, infinities, NaN and subnormal numbers") {
  constexpr float inf = test::infinity, tiny = 0x1p-140f;
  for (const Function f : {ex2, lg2, rcp, rsqrt, root, ex2_ftz, rcp_ftz, Function(sfu_sin), Function(sfu_cos),
                           Function(sfu_tanh), Function(narrow::cuda_expf), Function(narrow::cuda_logf),
                           Function(narrow::cuda_tanhf), Function(narrow::cuda_erff)})
    for (const std::uint32_t nan : {0x7F800001u, 0x7FC00000u, 0xFFC12345u})
      CHECK(word(f(std::bit_cast<float>(nan))) == nan_word);
  CHECK(word(lg2(-1)) == nan_word);
  CHECK(word(rsqrt(-1)) == nan_word);
  CHECK(word(root(-tiny)) == nan_word);
  CHECK(word(sfu_sin(inf)) == nan_word);
  CHECK(word(narrow::cuda_logf(-1)) == nan_word);

  CHECK(ex2(inf) == inf);
  CHECK(word(ex2(-inf)) == 0);
  CHECK(ex2(tiny) == 1);
  CHECK(ex2(128) == inf);
  CHECK(ex2(-149) == 0x1p-149f);
  CHECK(word(ex2_ftz(-127)) == 0);
  CHECK(word(lg2(1)) == 0);
  CHECK(lg2(0) == -inf);
  CHECK(lg2(-0.0f) == -inf);
  CHECK(lg2(tiny) == -140);
  CHECK(lg2_ftz(tiny) == -inf);
  CHECK(rcp(-0.0f) == -inf);
  CHECK(word(rcp(-inf)) == 0x80000000u);
  CHECK(rcp(tiny) == inf);
  CHECK(rcp(0x1p-127f) == 0x1p127f);
  CHECK(rcp(-0x1p127f) == -0x1p-127f);
  CHECK(word(rcp_ftz(-0x1p127f)) == 0x80000000u);
  CHECK(rsqrt(-0.0f) == -inf);
  CHECK(rsqrt(tiny) == 0x1p70f);
  CHECK(rsqrt_ftz(-tiny) == -inf);
  CHECK(word(root(-0.0f)) == 0x80000000u);
  CHECK(root(tiny) == 0x1p-70f);
  CHECK(word(root_ftz(-tiny)) == 0x80000000u);
  CHECK(word(sfu_sin(-0.0f)) == 0x80000000u);
  CHECK(word(sfu_sin(-tiny)) == 0x80000000u);
  CHECK(sfu_cos(0) == 1);
  CHECK(word(sfu_tanh(-0.0f)) == 0x80000000u);
  CHECK(word(sfu_tanh(-tiny)) == word(-tiny));
  CHECK(sfu_tanh(-inf) == -1);
  CHECK(narrow::cuda_expf(inf) == inf);
  CHECK(word(narrow::cuda_expf(-inf)) == 0);
  CHECK(narrow::cuda_expf(0) == 1);
  CHECK(narrow::cuda_logf(0) == -inf);
  CHECK(narrow::cuda_logf(inf) == inf);
  CHECK(word(narrow::cuda_logf(1)) == 0);
  CHECK(word(narrow::cuda_tanhf(-0.0f)) == 0x80000000u);
  CHECK(narrow::cuda_tanhf(-inf) == -1);
  CHECK(narrow::cuda_erff(-inf) == -1);
}

namespace {

struct ArrayFunction {
  narrow::Special f;
  float (*scalar)(float, bool);
};
constexpr ArrayFunction array_functions[] = {
    {narrow::Special::sfu_ex2, narrow::sfu_ex2},
    {narrow::Special::sfu_lg2, narrow::sfu_lg2},
    {narrow::Special::sfu_rcp, narrow::sfu_rcp},
    {narrow::Special::sfu_rsqrt, narrow::sfu_rsqrt},
    {narrow::Special::sfu_sqrt, narrow::sfu_sqrt},
    {narrow::Special::sfu_sin, [](float x, bool) { return sfu_sin(x); }},
    {narrow::Special::sfu_cos, [](float x, bool) { return sfu_cos(x); }},
    {narrow::Special::sfu_tanh, [](float x, bool) { return sfu_tanh(x); }},
    {narrow::Special::cuda_expf, [](float x, bool) { return narrow::cuda_expf(x); }},
    {narrow::Special::cuda_logf, [](float x, bool) { return narrow::cuda_logf(x); }},
    {narrow::Special::cuda_tanhf, [](float x, bool) { return narrow::cuda_tanhf(x); }},
    {narrow::Special::cuda_erff, [](float x, bool) { return narrow::cuda_erff(x); }}};

// How many results of an array are not the function's.
std::size_t differences(const ArrayFunction& a, const std::vector<float>& x, bool ftz, int threads = 1) {
  std::vector<float> y(x.size(), 77.0f);
  narrow::special_array(a.f, x, y, ftz, threads);
  std::size_t count = 0;
  for (std::size_t i = 0; i < x.size(); ++i) count += word(y[i]) != word(a.scalar(x[i], ftz)) ? 1 : 0;
  return count;
}

}  // namespace

TEST_CASE("special: arrays have the bits of the functions") {
  // Words of all kinds; then arguments that lanes take: around every power of two, and in the ranges of use.
  std::vector<float> any, near;
  const auto step = static_cast<std::uint64_t>(6007 / std::min(1.0, test::scale()));
  for (std::uint64_t i = 0; i < std::uint64_t{1} << 32; i += step)
    any.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(i)));
  for (std::uint32_t field = 0; field < 256; ++field)
    for (const std::uint32_t sign : {0u, 0x80000000u})
      for (int d = -40; d <= 40; ++d)
        near.push_back(std::bit_cast<float>((sign | field << 23) + static_cast<std::uint32_t>(d)));
  std::vector<float> used;
  for (std::uint32_t i = 0; i < 200'000; ++i) {
    const auto r = static_cast<std::uint32_t>(test::mix(i));
    used.push_back(std::bit_cast<float>((r & 0x807FFFFFu) | (100 + r % 34) << 23));
    if (i % 2 == 0) used.back() = std::fabs(used.back());
  }
  for (const ArrayFunction& a : array_functions) {
    CAPTURE(static_cast<int>(a.f));
    for (const bool ftz : {false, true}) {
      CHECK(differences(a, any, ftz) == 0);
      CHECK(differences(a, near, ftz) == 0);
      CHECK(differences(a, used, ftz, 3) == 0);
    }
  }
}

TEST_CASE("special: arrays of any length, in their place, with one special argument anywhere") {
  for (const ArrayFunction& a : array_functions) {
    CAPTURE(static_cast<int>(a.f));
    for (std::size_t n = 0; n < 75; ++n)
      for (const float special : {1.5f, 0.0f, -HUGE_VALF, std::bit_cast<float>(0x7FC01234u)}) {
        std::vector<float> x(n, 1.25f);
        if (n != 0) x[n * n * 7 % 73 % n] = special;
        std::vector<float> expected;
        for (const float v : x) expected.push_back(a.scalar(v, false));
        narrow::special_array(a.f, x, x);
        bool same = true;
        for (std::size_t i = 0; i < n; ++i) same = same && word(x[i]) == word(expected[i]);
        CHECK(same);
      }
  }
}

TEST_CASE("special: lanes do what is theirs") {
  const std::vector<float> x(64, 1.25f);
  std::vector<float> y(64);
  const narrow::detail::SpecialKernels& k = narrow::detail::special_kernels();
  for (const narrow::detail::SpecialKernel kernel :
       {k.ex2, k.lg2, k.rcp, k.rsqrt, k.sqrt, k.exp, k.log, k.tanh, k.erf}) {
    CHECK(kernel(narrow::detail::special_tables(), x.data(), x.size(), y.data()) == x.size());
    CHECK(kernel(narrow::detail::special_tables(), x.data(), 1, y.data()) == 0);
  }
}

TEST_CASE("special: arrays that do not fit are refused") {
  std::vector<float> x(10, 1.0f), y(9);
  CHECK_THROWS_AS(narrow::special_array(narrow::Special::sfu_ex2, x, y), narrow::Error);
  CHECK_THROWS_AS(narrow::special_array(narrow::Special::sfu_ex2, std::span(x).first(9), std::span(x).last(9)),
                  narrow::Error);
}

TEST_CASE("special: no function notices the caller's rounding mode or flush to zero") {
  test::check_environments("special", [](test::Digest& digest) {
    for (const Function f : {ex2, lg2, rcp, rsqrt, root, ex2_ftz, Function(sfu_sin), Function(sfu_cos),
                             Function(sfu_tanh), Function(narrow::cuda_expf), Function(narrow::cuda_logf),
                             Function(narrow::cuda_tanhf), Function(narrow::cuda_erff)})
      for (std::uint32_t i = 0; i < 20'000; ++i)
        digest.add(f(std::bit_cast<float>(static_cast<std::uint32_t>(test::mix(i)))));
    for (const ArrayFunction& a : array_functions) {
      std::vector<float> x(1000);
      for (std::uint32_t i = 0; i < 1000; ++i) x[i] = static_cast<float>(i % 37) * 0.125f + 0.0625f;
      narrow::special_array(a.f, x, x);
      for (const float y : x) digest.add(y);
    }
  });
}

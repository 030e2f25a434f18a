// The speed of matrix products as models compute them, beside Eigen's float product of the same size in the same run.
#include <memory>

#include "bench/bench.hpp"
#include "bench/bench_eigen.hpp"
#include "cli/progress.hpp"
#include "narrow/base/random.hpp"
#include "narrow/dot/gemm.hpp"
#include "narrow/round/round_to.hpp"

namespace app {
namespace {

// One row for each path of the library that has its own speed.
constexpr const char* models[] = {
    "hopper.mma.f32.f16.f16.k16",  "hopper.mma.f32.bf16.bf16.k16",   "hopper.mma.f32.tf32.tf32.k8",
    "ampere.mma.f32.f16.f16.k16",  "ampere.mma.f32.bf16.bf16.k16",   "ampere.mma.f32.tf32.tf32.k8",
    "hopper.wgmma.f32.e4m3.e4m3",  "hopper.wgmma.f32.e5m2.e4m3",     "hopper.mma.f32.e4m3.e4m3.k32",
    "hopper.wgmma.f16.f16.f16",    "hopper.wgmma.s32.s8.s8",         "software.fma.f32.f16.f16",
    "software.fma.f32.bf16.bf16",  "software.muladd.f32.f16.f16",    "software.kahan.f32.f16.f16",
    "software.muladd.f16.f16.f16", "software.muladd.bf16.bf16.bf16", "software.muladd.e4m3.e4m3.e4m3",
};

// Codes of values in (-1, 1) with 20 random bits; TF32 as FP32 words.
template <class U>
std::vector<U> random_codes(const narrow::Format& f, std::size_t n, std::uint64_t seed) {
  std::vector<U> codes(n);
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t r = narrow::random_bits(seed, i);
    const float x = static_cast<float>(static_cast<std::int64_t>(r & 0xFFFFF) - 0x80000) * 0x1p-19f;
    if (f.is_integer()) codes[i] = static_cast<U>(r & 0xFF);
    else if (f == *narrow::find_format("tf32")) codes[i] = static_cast<U>(std::bit_cast<std::uint32_t>(x));
    else codes[i] = static_cast<U>(narrow::encode(x, f));
  }
  return codes;
}

template <class U>
std::function<void(int)> product(const narrow::DotModel& m, std::size_t n) {
  const auto a = std::make_shared<std::vector<U>>(random_codes<U>(m.a.format, n * n, 1));
  const auto b = std::make_shared<std::vector<U>>(random_codes<U>(m.b.format, n * n, 2));
  const auto d = std::make_shared<std::vector<std::uint32_t>>(n * n);
  return [&m, n, a, b, d](int threads) {
    narrow::GemmOptions options;
    options.threads = threads;
    narrow::gemm(m, narrow::Plan{}, narrow::MatrixView<U>{a->data(), n, n}, narrow::MatrixView<U>{b->data(), n, n},
                 narrow::MatrixView<std::uint32_t>{}, narrow::MatrixView<std::uint32_t>{d->data(), n, n}, options);
  };
}

}  // namespace

std::vector<BenchRow> bench_products(int repeat, bool one_thread_only) {
  std::vector<int> thread_counts{1};
  if (narrow::default_threads() > 1 && !one_thread_only) thread_counts.push_back(narrow::default_threads());
  constexpr std::size_t sizes[] = {256, 512};
  Progress progress("products", std::size(models) * std::size(sizes) * thread_counts.size());
  std::vector<BenchRow> rows;
  for (const int threads : thread_counts) {
    for (const std::size_t n : sizes) {
      const auto size = static_cast<Eigen::Index>(n);
      const Eigen::MatrixXf x = Eigen::MatrixXf::Random(size, size), y = Eigen::MatrixXf::Random(size, size);
      Eigen::MatrixXf z(size, size);
      for (const char* name : models) {
        const narrow::DotModel& m = *narrow::find_dot_model(name);
        const bool words = m.a.format.width() > 16;
        const auto work = words                    ? product<std::uint32_t>(m, n)
                          : m.a.format.width() > 8 ? product<std::uint16_t>(m, n)
                                                   : product<std::uint8_t>(m, n);
        double best = 1e300, best_eigen = 1e300;
        for (int k = 0; k < repeat; ++k) {
          best_eigen = std::min(best_eigen, seconds([&] { eigen_product(x, y, z, threads); }));
          best = std::min(best, seconds([&] { work(threads); }));
        }
        BenchRow row{"product", name, "chain", "", n, threads, "uniform"};
        row.rate = static_cast<double>(n * n * n) / best * 1e-9;
        row.ratio = best_eigen / best;
        row.unit = "GMAC/s";
        row.ratio_to = "Eigen's float product of the same size on as many threads";
        rows.push_back(row);
        progress.add();
      }
    }
  }
  return rows;
}

}  // namespace app

#include <algorithm>

#include "narrow/base/random.hpp"
#include "narrow/cuda/bench.hpp"
#include "narrow/cuda/gemm.hpp"
#include "narrow/cuda/launch.cuh"

namespace narrow {

namespace {

using namespace detail;

// Roughly normal floats: the kind of data that histograms and casts meet.
__global__ void fill_floats(float* out, std::size_t count) {
  for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<std::size_t>(gridDim.x) * blockDim.x) {
    const unsigned long long r = random_bits(7, i);
    const float u = static_cast<float>((r & 0xFFFFFF) + 1) * 0x1p-24f,
                v = static_cast<float>(r >> 24 & 0xFFFFFF) * 0x1p-24f;
    out[i] = sqrtf(-2 * logf(u)) * cospif(2 * v);
  }
}
__global__ void fill_words(unsigned* out, std::size_t count, unsigned mask, unsigned base) {
  for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<std::size_t>(gridDim.x) * blockDim.x)
    out[i] = (static_cast<unsigned>(random_bits(9, i)) & mask) + base;
}

// Bytes moved a second by the copy kernel of the same shape as the others: what they are held against.
template <class Work>
double median_seconds(const Work& work, int runs = 30) {
  std::vector<double> seconds;
  DeviceTimer timer;
  for (int i = 0; i < runs + 5; ++i) {
    timer.start();
    work();
    const double time = timer.stop();
    if (i >= 5) seconds.push_back(time);
  }
  std::nth_element(seconds.begin(), seconds.begin() + runs / 2, seconds.end());
  return seconds[static_cast<std::size_t>(runs / 2)];
}

}  // namespace

std::vector<GpuRate> bench_arrays() {
  const std::size_t count = std::size_t{1} << 29;  // 2 GiB of floats: far beyond the cache
  DeviceArray<float> in(count), out(count);
  fill_floats<<<grid_blocks(256), 256>>>(in.get(), count);
  require_launch("making floats");
  std::vector<GpuRate> rates;
  // The copy of the same number of bytes, read and written by the device's own copy.
  const auto copy_seconds = [&](std::size_t bytes) {
    return median_seconds(
        [&] { require_cuda(cudaMemcpyAsync(out.get(), in.get(), bytes / 2, cudaMemcpyDeviceToDevice), "copying"); });
  };
  const double copy = copy_seconds(8 * count);
  rates.push_back({"copy", 8.0 * static_cast<double>(count) / copy * 1e-12, "TB/s", 0, ""});
  const auto cast = [&](const std::string& name, double bytes_each, const auto& work) {
    const double seconds = median_seconds(work), same = copy_seconds(static_cast<std::size_t>(bytes_each) * count);
    rates.push_back({name, bytes_each * static_cast<double>(count) / seconds * 1e-12, "TB/s", same / seconds,
                     "copy of the same bytes"});
  };
  struct Row {
    const char* name;
    Format format;
    Cast cast;
  };
  const Cast saturate{.overflow = Overflow::saturate}, cut{.rounding = Rounding::toward_zero};
  for (const Row& r :
       {Row{"fp16", ieee(5, 10), {}}, Row{"bf16", ieee(8, 7), {}},
        Row{"e4m3 saturate", finite(4, 3, Specials::nan_only), saturate}, Row{"e5m2 toward_zero", ieee(5, 2), cut},
        Row{"e2m1", finite(2, 1, Specials::none), {}}, Row{"tf32", ieee(8, 10), {}}}) {
    cast(std::string("round ") + r.name, 8,
         [&] { round_on_device(in.get(), out.get(), count, r.format, r.cast, 0, nullptr); });
    if (r.format.width() <= 8) {
      auto* codes = reinterpret_cast<std::uint8_t*>(out.get());
      cast(std::string("encode ") + r.name, 5,
           [&] { encode_on_device(in.get(), codes, count, r.format, r.cast, 0, nullptr); });
    } else if (r.format.width() <= 16) {
      auto* codes = reinterpret_cast<std::uint16_t*>(out.get());
      cast(std::string("encode ") + r.name, 6,
           [&] { encode_on_device(in.get(), codes, count, r.format, r.cast, 0, nullptr); });
    }
  }
  DeviceArray<std::uint16_t> codes(count);
  fill_words<<<grid_blocks(256), 256>>>(reinterpret_cast<unsigned*>(codes.get()), count / 2, ~0u, 0);
  cast("decode fp16", 6, [&] { decode_on_device(codes.get(), out.get(), count, ieee(5, 10), nullptr); });
  cast("decode bf16", 6, [&] { decode_on_device(codes.get(), out.get(), count, ieee(8, 7), nullptr); });
  cast("decode e4m3", 5, [&] {
    decode_on_device(reinterpret_cast<const std::uint8_t*>(codes.get()), out.get(), count,
                     finite(4, 3, Specials::nan_only), nullptr);
  });
  cast("decode e5m2", 5, [&] {
    decode_on_device(reinterpret_cast<const std::uint8_t*>(codes.get()), out.get(), count, ieee(5, 2), nullptr);
  });

  // Reading alone is held against the bytes a second of the copy.
  const double bandwidth = 8.0 * static_cast<double>(count) / copy;
  DeviceArray<DeviceStatistics> statistics(1);
  DeviceArray<DeviceHistogram> histogram(1);
  statistics.clear(), histogram.clear();
  const auto reading = [&](const std::string& name, const auto& work) {
    const double rate = 4.0 * static_cast<double>(count) / median_seconds(work);
    rates.push_back({name, rate * 1e-12, "TB/s", rate / bandwidth, "copy bandwidth"});
  };
  reading("statistics fp16", [&] {
    statistics_on_device(in.get(), count, {ieee(5, 10), {}}, statistics.get(), nullptr);
  });
  reading("statistics e4m3 saturate", [&] {
    statistics_on_device(in.get(), count, {finite(4, 3, Specials::nan_only), saturate}, statistics.get(), nullptr);
  });
  reading("exponent_histogram", [&] { histogram_on_device(in.get(), count, histogram.get(), nullptr); });
  return rates;
}

std::vector<GpuRate> bench_models() {
  std::vector<GpuRate> rates;
  const int size = 4096;
  const std::size_t count = static_cast<std::size_t>(size) * static_cast<std::size_t>(size);
  DeviceArray<unsigned> a(count), b(count), d(count);
  struct Row {
    const char* model;
    int bytes;
    unsigned mask, base;  // codes with exponents around that of one
    int k;
  };
  for (const Row& r : {Row{"hopper.wgmma.f32.f16.f16", 2, 0x87FF87FF, 0x38003800, size},
                       Row{"hopper.wgmma.f32.bf16.bf16", 2, 0x81FF81FF, 0x3F003F00, size},
                       Row{"hopper.wgmma.f16.f16.f16", 2, 0x87FF87FF, 0x34003400, size},
                       Row{"hopper.wgmma.f32.tf32.tf32", 4, 0x80FFFFFF, 0x3F000000, size},
                       Row{"hopper.wgmma.f32.e4m3.e4m3", 1, 0x9F9F9F9F, 0x28282828, size},
                       Row{"hopper.wgmma.f32.e5m2.e4m3", 1, 0x8F8F8F8F, 0x34343434, size},
                       Row{"hopper.mma.f32.e4m3.e4m3.k32", 1, 0x9F9F9F9F, 0x28282828, size},
                       Row{"ampere.mma.f32.f16.f16.k16", 2, 0x87FF87FF, 0x38003800, size},
                       Row{"blackwell.tcgen05.f32.e4m3.e4m3", 1, 0x9F9F9F9F, 0x28282828, size},
                       Row{"blackwell.tcgen05.f32.e2m1.e2m1.nvf4", 1, 0x0F0F0F0F, 0, 512}}) {
    const DotModel* model = find_dot_model(r.model);
    if (model == nullptr) continue;
    fill_words<<<grid_blocks(256), 256>>>(a.get(), count, r.mask, r.base);
    fill_words<<<grid_blocks(256), 256>>>(b.get(), count, r.mask, r.base);
    require_launch("making codes");
    const DeviceCodes left{a.get(), r.bytes, r.k, 1}, right{b.get(), r.bytes, r.k, 1};
    const double seconds =
        median_seconds([&] { gemm_on_device(*model, {}, size, size, r.k, left, right, nullptr, d.get(), nullptr); }, 7);
    rates.push_back(
        {std::string(r.model) + " " + std::to_string(size) + " x " + std::to_string(size) + " x " + std::to_string(r.k),
         static_cast<double>(count) * r.k / seconds * 1e-12, "TMAC/s", 0, ""});
  }
  return rates;
}

}  // namespace narrow

// Codes of 16 bits are counted in shared memory, and each code is looked at once: what a format does to it, times its
// count.
#include "narrow/cuda/code_counts.hpp"
#include "narrow/cuda/tally.cuh"

namespace narrow::detail {

namespace {

// Counters of 2^14 magnitudes of either sign, a window that ends one binade above the largest magnitude of a block's
// first tile: 128 binades of BF16, 16 of FP16. What lies outside is rare, or the same again and again (a tensor full of
// NaN): a thread holds such a code until another one comes, and then its count goes to memory.
constexpr unsigned window = 1u << 14;
constexpr int counters = 2 * window;
constexpr int shared_bytes = counters * static_cast<int>(sizeof(unsigned));
constexpr int counting_threads = 1024;
constexpr std::size_t least = std::size_t{1} << 20;  // elements from which it pays

struct alignas(16) Eight {
  std::uint16_t v[8];
};

__global__ void __launch_bounds__(counting_threads)
    count_codes(const Eight* data, std::size_t vectors, std::size_t rest, unsigned binade, unsigned max_magnitude,
                CodeCounts* out) {
  extern __shared__ unsigned table[];
  __shared__ unsigned top;
  for (int i = static_cast<int>(threadIdx.x); i < counters; i += counting_threads) table[i] = 0;
  if (threadIdx.x == 0) top = 0;
  __syncthreads();
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * counting_threads;
  const std::size_t first = blockIdx.x * static_cast<std::size_t>(counting_threads) + threadIdx.x;
  unsigned most = 0;
  if (first < vectors) {
    const Eight x = data[first];
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const unsigned a = x.v[e] & 0x7FFFu;
      most = max(most, a <= max_magnitude ? a : 0);
    }
  }
  most = __reduce_max_sync(~0u, most);
  if (threadIdx.x % 32 == 0) atomicMax(&top, most);
  __syncthreads();
  const unsigned end = (top / binade + 2) * binade, base = end > window ? end - window : 0;
  unsigned zeros[2] = {}, held = 0, times = 0;
  const auto let_go = [&] {
    if (times != 0) atomicAdd(&out->of[held], static_cast<Count>(times));
  };
  const auto look = [&](unsigned code) {
    const unsigned a = code & 0x7FFFu, place = a - base;
    zeros[0] += code == 0 ? 1 : 0, zeros[1] += code == 0x8000u ? 1 : 0;
    if (a != 0 && place < window) {
      atomicAdd(&table[place + (code >> 15) * window], 1u);
    } else if (a != 0) {
      if (code != held) let_go(), held = code, times = 0;
      ++times;
    }
  };
  std::size_t i = first;
  for (; i + step < vectors; i += 2 * step) {
    const Eight x = data[i], y = data[i + step];
#pragma unroll
    for (int e = 0; e < 8; ++e) look(x.v[e]);
#pragma unroll
    for (int e = 0; e < 8; ++e) look(y.v[e]);
  }
  if (i < vectors) {
    const Eight x = data[i];
#pragma unroll
    for (int e = 0; e < 8; ++e) look(x.v[e]);
  }
  if (first < rest) look(reinterpret_cast<const std::uint16_t*>(data + vectors)[first]);
  let_go();
#pragma unroll
  for (int s = 0; s < 2; ++s) {
    const unsigned all = warp_sum(zeros[s]);
    if (threadIdx.x % 32 == 0 && all != 0) atomicAdd(&out->of[s == 0 ? 0 : 0x8000], static_cast<Count>(all));
  }
  __syncthreads();
  for (unsigned n = threadIdx.x; n < counters; n += counting_threads) {
    const unsigned code = n % window + base + (n < window ? 0 : 0x8000u);
    if (table[n] != 0) atomicAdd(&out->of[code], static_cast<Count>(table[n]));
  }
}

constexpr int threads = 256;

// A thread has one code.
__global__ void __launch_bounds__(threads)
    tally_counts(CodeCounts* counts, std::size_t count, ReadCodes read, const __grid_constant__ Targets<at_once> to,
                 bool is_last, DeviceHistogram* histogram, DeviceStatistics* out) {
  __shared__ DeviceStatistics block[at_once];
  if (threadIdx.x < at_once) block[threadIdx.x] = {}, block[threadIdx.x].count = blockIdx.x == 0 ? count : 0;
  __syncthreads();
  const unsigned code = blockIdx.x * threads + threadIdx.x;
  const Count n = counts->of[code];
  const float x = read(code);
  InputOf<Count> in;
  RoundedOf<Count> t[at_once];
  if (n != 0) {
    see(in, x, n);
#pragma unroll
    for (int f = 0; f < at_once; ++f)
      if (f < to.count && is_finite(x)) merge(t[f], look_closely(x, to.of[f]), n);
    if (is_last) counts->of[code] = 0;
  }
  if (histogram != nullptr) {
    const unsigned word = __float_as_uint(x), a = magnitude(x), sign = word >> 31;
    if (n != 0) atomicAdd(&histogram->by_field[word >> 23], n);
    if (n != 0 && a == 0) atomicAdd(&histogram->zero[sign], n);
    if (n != 0 && a == 0x7F800000u) atomicAdd(&histogram->inf[sign], n);
    const unsigned most = __reduce_max_sync(~0u, n != 0 && is_finite(x) ? a : 0);  // a warp's codes have one sign
    if (threadIdx.x % 32 == 0 && most != 0) atomicMax(&histogram->largest[sign], most);
  }
#pragma unroll
  for (int f = 0; f < at_once; ++f)
    if (f < to.count) pass_on(in, t[f], block[f], out + f);
}

}  // namespace

bool tally_by_counts(const std::uint16_t* codes, const Format& f, std::size_t count,
                     std::span<const FormatCast> formats, DeviceHistogram* histogram, DeviceStatistics* out,
                     CodeCounts& counts, GpuStream stream) {
  for (const FormatCast& to : formats) require_statistics(to);  // before the counts have begun
  if (count < least || f.width() != 16 || reinterpret_cast<std::uintptr_t>(codes) % sizeof(Eight) != 0) return false;
  static thread_local int known_device = -1, processors = 0, shared = 0;  // asking takes microseconds
  int device = 0;
  require_cuda(cudaGetDevice(&device), "asking for the device");
  if (device != known_device) {
    require_cuda(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "asking for the device");
    require_cuda(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
                 "asking for the device");
    if (shared >= shared_bytes + 1024)
      require_cuda(cudaFuncSetAttribute(count_codes, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes),
                   "asking for shared memory");
    known_device = device;
  }
  if (shared < shared_bytes + 1024) return false;
  // A counter of a block holds 2^32: no block may have more elements.
  if (count / static_cast<std::size_t>(processors) > 0xF0000000u) return false;
  count_codes<<<static_cast<unsigned>(processors), counting_threads, shared_bytes, stream>>>(
      reinterpret_cast<const Eight*>(codes), count / 8, count % 8, 1u << f.mantissa_bits,
      static_cast<unsigned>(f.max_magnitude()), &counts);
  require_launch("counting codes");
  const ReadCodes read{decode_lane(f)};
  in_groups(formats, histogram, out, [&](const Targets<at_once>& to, auto* h, auto* s, bool is_last) {
    tally_counts<<<65536 / threads, threads, 0, stream>>>(&counts, count, read, to, is_last, h, s);
    require_launch("statistics of codes");
  });
  return true;
}

}  // namespace narrow::detail

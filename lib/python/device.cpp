// Arrays that lie on a CUDA device, by address: the kernels of narrow/cuda, on the device and the stream of their
// library.
#include <nanobind/stl/tuple.h>

#include "bindings.hpp"
#include "narrow/cuda/gemm.hpp"
#include "narrow/cuda/launch.cuh"
#include "options/model_choice.hpp"
#include "tensors/stats_rows.hpp"

namespace narrow::python {
namespace {

using Address = std::uintptr_t;

// While it lives, the array's device is the current one, and Python's other threads run.
class Call {
 public:
  explicit Call(int device) {
    detail::require_cuda(cudaGetDevice(&before_), "asking for the device");
    if (device != before_) detail::require_cuda(cudaSetDevice(device), "choosing the device");
    now_ = device;
  }
  ~Call() {
    if (now_ != before_) (void)cudaSetDevice(before_);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 private:
  nb::gil_scoped_release release_;
  int before_ = 0, now_ = 0;
};

GpuStream stream_at(Address stream) { return reinterpret_cast<GpuStream>(stream); }

template <class T>
T* at(Address address) {
  return reinterpret_cast<T*>(address);
}

// Calls body with the unsigned integer of that many bytes.
template <class Body>
void with_codes(int bytes, const Body& body) {
  if (bytes == 1) body(std::uint8_t());
  else if (bytes == 2) body(std::uint16_t());
  else if (bytes == 4) body(std::uint32_t());
  else throw Error("codes on a device are integers of 8, 16 or 32 bits");
}

void round_at(const Plan& plan, Address in, Address out, std::size_t count, std::uint64_t seed, int device,
              Address stream) {
  const Call call(device);
  round_on_device(at<const float>(in), at<float>(out), count, plan.to.format, plan.to.cast, seed, stream_at(stream));
}

void encode_at(const Plan& plan, Address in, Address out, int bytes, std::size_t count, std::uint64_t seed, int device,
               Address stream) {
  const Call call(device);
  with_codes(bytes, [&]<class U>(U) {
    encode_on_device(at<const float>(in), at<U>(out), count, plan.to.format, plan.to.cast, seed, stream_at(stream));
  });
}

void decode_at(const Plan& plan, Address in, int bytes, Address out, std::size_t count, int device, Address stream) {
  const Call call(device);
  with_codes(bytes, [&]<class U>(U) {
    decode_on_device(at<const U>(in), at<float>(out), count, plan.to.format, stream_at(stream));
  });
}

// Pages that the device writes to directly, kept for each thread.
class HostPages {
 public:
  static constexpr std::size_t bytes = std::max(sizeof(DeviceStatistics), sizeof(DeviceHistogram));
  HostPages() { detail::require_cuda(cudaMallocHost(&data_, bytes), "memory for counts"); }
  ~HostPages() { (void)cudaFreeHost(data_); }
  HostPages(const HostPages&) = delete;
  HostPages& operator=(const HostPages&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

// What a pass leaves in a record that starts with all bytes zero. Its memory is the caller's: a library that keeps
// memory gives it at once, where the driver takes as long as a pass over a gigabyte.
template <class T, class Pass>
T collect(Address counts, Address stream, const Pass& pass) {
  static thread_local const HostPages pages;
  const GpuStream s = stream_at(stream);
  detail::require_cuda(cudaMemsetAsync(at<void>(counts), 0, sizeof(T), s), "clearing counts");
  pass(at<T>(counts), s);
  detail::require_cuda(cudaMemcpyAsync(pages.data(), at<void>(counts), sizeof(T), cudaMemcpyDeviceToHost, s),
                       "counting");
  detail::require_cuda(cudaStreamSynchronize(s), "counting");
  return *static_cast<const T*>(pages.data());
}

// Records as of the host's statistics; None where a format or its cast has no kernel.
nb::object statistics_at(const std::string& name, const std::vector<Plan>& plans, Address x, std::size_t count,
                         Address counts, int device, Address stream) {
  for (const Plan& plan : plans)
    if (!has_device_statistics(plan.to)) return nb::none();
  std::vector<app::StatsRow> rows;
  {
    const Call call(device);
    for (const Plan& plan : plans) {
      const Statistics all = collect<DeviceStatistics>(counts, stream, [&](DeviceStatistics* to, GpuStream s) {
                               statistics_on_device(at<const float>(x), count, plan.to, to, s);
                             }).host();
      app::StatsRow row;
      row.tensor = name, row.format = plan.chosen.name, row.input = all.input, row.in_format = all.formats[0];
      rows.push_back(std::move(row));
    }
  }
  return to_python(app::stats_json(rows));
}

Histogram histogram_at(Address x, std::size_t count, Address counts, int device, Address stream) {
  const Call call(device);
  const auto h = collect<DeviceHistogram>(
      counts, stream, [&](DeviceHistogram* to, GpuStream s) { histogram_on_device(at<const float>(x), count, to, s); });
  return {h.host(), -std::bit_cast<float>(h.largest[1]), std::bit_cast<float>(h.largest[0])};
}

using Operand =
    std::tuple<Address, int, long long, long long>;  // codes, bytes of one, steps from line to line and in k

// One product of m x k by k x n; false where the device has no kernel for it.
bool matmul_at(const std::string& name, const std::string& plan_words, const std::tuple<int, int, int>& shape,
               const Operand& a, const Operand& b, Address c, Address d, int device, Address stream) {
  const DotModel& model = app::choose_model(name);
  const narrow::Plan plan = parse_plan(plan_words);
  if (model.is_block_scaled() || !why_no_kernel(model, plan, c != 0).empty()) return false;
  const auto codes = [](const Operand& o) {
    const auto& [data, bytes, line, step] = o;
    return DeviceCodes{at<const void>(data), bytes, line, step};
  };
  const auto& [m, n, k] = shape;
  const Call call(device);
  gemm_on_device(model, plan, m, n, k, codes(a), codes(b), at<const void>(c), at<void>(d), stream_at(stream));
  return true;
}

}  // namespace

void bind_device(nb::module_& m) {
  nb::module_ device = m.def_submodule("device", "Arrays on a CUDA device, by address.");
  device.attr("counts_bytes") = HostPages::bytes;
  device.def("round", &round_at);
  device.def("encode", &encode_at);
  device.def("decode", &decode_at);
  device.def("statistics", &statistics_at);
  device.def("histogram", &histogram_at);
  device.def("matmul", &matmul_at);
}

}  // namespace narrow::python

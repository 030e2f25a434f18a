// Arrays that lie on a CUDA device, by address: the kernels of narrow/cuda, on the device and the stream of their
// library.
#include <nanobind/stl/tuple.h>

#include <map>

#include "bindings.hpp"
#include "narrow/cuda/gemm.hpp"
#include "narrow/cuda/launch.cuh"
#include "narrow/cuda/scale_operand.hpp"
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

// Where passes leave their records: memory of the device, and pages of the host that it writes to directly. Kept for
// each thread and device, because the driver takes as long to give it as a pass takes over a gigabyte.
class Counts {
 public:
  Counts() = default;
  ~Counts() { (void)cudaFree(device_), (void)cudaFreeHost(host_); }
  Counts(const Counts&) = delete;
  Counts& operator=(const Counts&) = delete;

  // Calls pass(records) with records whose bytes are zero, and gives what it left in them.
  template <class T, class Pass>
  std::span<const T> collect(std::size_t count, GpuStream stream, const Pass& pass) {
    const std::size_t bytes = count * sizeof(T);
    reserve(bytes);
    if (!is_clear_) detail::require_cuda(cudaMemsetAsync(device_, 0, bytes_, stream), "clearing counts");
    is_clear_ = false;
    pass(static_cast<T*>(device_));
    take_from_device(device_, host_, bytes, stream);
    detail::require_cuda(cudaStreamSynchronize(stream), "counting");
    is_clear_ = true;
    return {static_cast<const T*>(host_), count};
  }

 private:
  void reserve(std::size_t bytes) {
    if (bytes <= bytes_) return;
    (void)cudaFree(device_), (void)cudaFreeHost(host_);
    device_ = host_ = nullptr, bytes_ = 0, is_clear_ = false;
    bytes = std::max(bytes, sizeof(DeviceHistogram));
    detail::require_cuda(cudaMalloc(&device_, bytes), "memory for counts");
    detail::require_cuda(cudaMallocHost(&host_, bytes), "memory for counts");
    bytes_ = bytes;
  }

  void *device_ = nullptr, *host_ = nullptr;
  std::size_t bytes_ = 0;
  bool is_clear_ = false;
};

Counts& counts_of(int device) {
  static thread_local std::map<int, Counts> all;
  return all[device];
}

// Records as of the host's statistics; None where a format or its cast has no kernel.
nb::object statistics_at(const std::string& name, const std::vector<Plan>& plans, Address x, std::size_t count,
                         int device, Address stream) {
  for (const Plan& plan : plans)
    if (!has_device_statistics(plan.to)) return nb::none();
  std::vector<app::StatsRow> rows;
  {
    const Call call(device);
    const GpuStream s = stream_at(stream);
    const auto found = counts_of(device).collect<DeviceStatistics>(plans.size(), s, [&](DeviceStatistics* to) {
      for (const Plan& plan : plans) statistics_on_device(at<const float>(x), count, plan.to, to++, s);
    });
    for (std::size_t i = 0; i < plans.size(); ++i) {
      const Statistics all = found[i].host();
      app::StatsRow row;
      row.tensor = name, row.format = plans[i].chosen.name, row.input = all.input, row.in_format = all.formats[0];
      rows.push_back(std::move(row));
    }
  }
  return to_python(app::stats_json(rows));
}

Histogram histogram_at(Address x, std::size_t count, int device, Address stream) {
  const Call call(device);
  const GpuStream s = stream_at(stream);
  const DeviceHistogram& h = counts_of(device).collect<DeviceHistogram>(
      1, s, [&](DeviceHistogram* to) { histogram_on_device(at<const float>(x), count, to, s); })[0];
  return {h.host(), -std::bit_cast<float>(h.largest[1]), std::bit_cast<float>(h.largest[0])};
}

// What a tally takes of a device's memory: the records of the passes, all bytes zero before the first.
std::size_t tally_bytes(const Tally& tally) {
  return sizeof(DeviceHistogram) + tally.plans.size() * sizeof(DeviceStatistics);
}

bool has_statistics(const Plan& plan) { return has_device_statistics(plan.to); }

// Whether a tally takes such numbers as they lie; others are decoded first.
bool tallies_codes(const Plan& numbers) {
  return numbers.to.format.width() <= 16 && has_device_tally(numbers.to.format);
}

// Adds data to the records of a tally with these formats, when the stream comes to it: nothing waits. numbers: what
// they are, if not floats. counts: as many zeros as `counts_bytes` says, of this stream.
void tally_at(const Tally& tally, Address x, const Plan* numbers, std::size_t count, Address records, Address counts,
              int device, Address stream) {
  const Call call(device);
  std::vector<FormatCast> to;
  for (const Plan& plan : tally.plans) to.push_back(plan.to);
  auto* histogram = at<DeviceHistogram>(records);
  auto* statistics = at<DeviceStatistics>(records + sizeof(DeviceHistogram));
  const GpuStream s = stream_at(stream);
  if (numbers == nullptr) return tally_on_device(at<const float>(x), count, to, histogram, statistics, s);
  const Format& f = numbers->to.format;
  if (f.width() <= 8) tally_on_device(at<const std::uint8_t>(x), f, count, to, histogram, statistics, s);
  else tally_on_device(at<const std::uint16_t>(x), f, count, to, histogram, statistics, at<CodeCounts>(counts), s);
}

// Adds such records, copied to the host.
void read_tally(Tally& tally, Address records) {
  const auto& histogram = *at<const DeviceHistogram>(records);
  const auto* found = at<const DeviceStatistics>(records + sizeof(DeviceHistogram));
  Statistics all;
  for (std::size_t i = 0; i < tally.plans.size(); ++i) {
    const Statistics one = found[i].host();
    all.input = one.input, all.formats.push_back(one.formats[0]);
  }
  tally.add(histogram.host(), all);
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

void scale_operand_at(const OperandScaling& scaling, Address in, int words, Address out, int bytes, std::size_t rows,
                      std::size_t cols, bool over_rows, std::optional<std::uint64_t> seed, Address decode, int device,
                      Address stream) {
  const Call call(device);
  scale_operand_on_device(at<const void>(in), static_cast<ProductWords>(words), at<void>(out), bytes == 2, rows, cols,
                          scaling.format, over_rows, seed, at<float>(decode), stream_at(stream));
}

void turn_rows_at(Address in, int words, Address out, std::size_t rows, std::size_t cols, int device, Address stream) {
  const Call call(device);
  turn_by_hadamard_on_device(at<const void>(in), static_cast<ProductWords>(words), at<float>(out), rows, cols,
                             stream_at(stream));
}

void finish_product_at(Address d, Address out, int words, std::size_t rows, std::size_t cols, Address first,
                       Address second, Address bias, const Plan* plan, int device, Address stream) {
  const Call call(device);
  std::optional<FormatCast> to;
  if (plan != nullptr) to = plan->to;
  finish_product_on_device(at<const float>(d), at<void>(out), static_cast<ProductWords>(words), rows, cols,
                           at<const float>(first), at<const float>(second), at<const float>(bias), to,
                           stream_at(stream));
}

}  // namespace

void bind_device(nb::module_& m) {
  nb::module_ device = m.def_submodule("device", "Arrays on a CUDA device, by address.");
  device.def("round", &round_at);
  device.def("encode", &encode_at);
  device.def("decode", &decode_at);
  device.def("statistics", &statistics_at);
  device.def("histogram", &histogram_at);
  device.def("tally_bytes", &tally_bytes);
  device.def("has_statistics", &has_statistics);
  device.def("tallies_codes", &tallies_codes);
  device.def("tally", &tally_at, nb::arg("tally"), nb::arg("x"), nb::arg("numbers").none(), nb::arg("count"),
             nb::arg("records"), nb::arg("counts"), nb::arg("device"), nb::arg("stream"));
  device.attr("counts_bytes") = sizeof(CodeCounts);
  device.def("read_tally", &read_tally);
  device.def("matmul", &matmul_at);
  device.def("turn_by_hadamard", &turn_rows_at);
  device.def("finish_product", &finish_product_at, nb::arg("d"), nb::arg("out"), nb::arg("words"), nb::arg("rows"),
             nb::arg("cols"), nb::arg("first"), nb::arg("second"), nb::arg("bias"), nb::arg("plan").none(),
             nb::arg("device"), nb::arg("stream"));
  device.def("scale_operand", &scale_operand_at, nb::arg("scaling"), nb::arg("x"), nb::arg("words"), nb::arg("out"),
             nb::arg("bytes"), nb::arg("rows"), nb::arg("cols"), nb::arg("over_rows"), nb::arg("seed").none(),
             nb::arg("decode"), nb::arg("device"), nb::arg("stream"));
}

}  // namespace narrow::python

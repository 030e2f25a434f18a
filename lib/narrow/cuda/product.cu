// Section 4: the search for the plan that gives the bits of a cuBLASLt product, and the rates of such products.
#include <algorithm>
#include <utility>

#include "narrow/cuda/bench.hpp"
#include "narrow/cuda/fused_gemm.cuh"
#include "narrow/cuda/fused_gemm.hpp"
#include "narrow/cuda/lt_product.cuh"
#include "narrow/cuda/product.hpp"
#include "narrow/golden/product_inputs.hpp"

namespace narrow {

namespace {

using namespace detail;

// tf32 operands are whole floats; nearest: rounded to tf32 first, as cuBLAS does.
__global__ void fill_product(void* to, int bytes, Format f, bool is_float, bool nearest, std::uint64_t seed, int matrix,
                             long long count) {
  for (long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<long long>(gridDim.x) * blockDim.x) {
    Code code;
    if (is_float) {
      const float x = product_value(seed, matrix, static_cast<std::uint64_t>(i));
      code = nearest ? encode(x, ieee(8, 10)) << 13 : __float_as_uint(x);
    } else {
      code = product_code(seed, matrix, static_cast<std::uint64_t>(i), f);
    }
    if (bytes == 1) static_cast<unsigned char*>(to)[i] = static_cast<unsigned char>(code);
    else if (bytes == 2) static_cast<unsigned short*>(to)[i] = static_cast<unsigned short>(code);
    else static_cast<unsigned*>(to)[i] = static_cast<unsigned>(code);
  }
}

// How many of the emulated fp32 sums (or integers), rounded to the output's format, are the product's.
__global__ void __launch_bounds__(256)
    count_equal(const unsigned* sums, long long sum_stride, const void* d, long long d_stride, int rows, int columns,
                Format output, bool convert_sums, unsigned long long* equal) {
  unsigned long long count = 0;
  for (long long i = blockIdx.x * 256ll + threadIdx.x; i < static_cast<long long>(rows) * columns;
       i += gridDim.x * 256ll) {
    const long long row = i / columns, column = i % columns;
    unsigned sum = sums[row * sum_stride + column];
    unsigned native;
    if (convert_sums) {
      sum = static_cast<unsigned>(encode(__uint_as_float(sum), output));
      native = static_cast<const unsigned short*>(d)[row * d_stride + column];
    } else {
      native = static_cast<const unsigned*>(d)[row * d_stride + column];
    }
    count += native == sum ? 1 : 0;
  }
  __syncwarp();
  add_to(equal, count);
}

__global__ void __launch_bounds__(256) hash_product(CodeSource d, long long count, unsigned long long* hash) {
  unsigned long long sum = 0;
  for (long long i = blockIdx.x * 256ll + threadIdx.x; i < count; i += gridDim.x * 256ll)
    sum += mix_bits(static_cast<unsigned long long>(load_code(d, i)) << 32 | static_cast<unsigned long long>(i));
  __syncwarp();
  add_to(hash, sum);
}

// Every multiply-add rounded, in order of k: what kernels without tensor cores do.
__global__ void fma_chain(CodeSource a, CodeSource b, Format fa, Format fb, int rows, int columns, int k, unsigned* d,
                          long long d_stride) {
  for (long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
       i < static_cast<long long>(rows) * columns; i += static_cast<long long>(gridDim.x) * blockDim.x) {
    const long long row = i / columns, column = i % columns;
    float sum = 0;
    for (int p = 0; p < k; ++p)
      sum = __fmaf_rn(static_cast<float>(decode(load_code(a, row * a.line_stride + p), fa)),
                      static_cast<float>(decode(load_code(b, column * b.line_stride + p), fb)), sum);
    d[row * d_stride + column] = __float_as_uint(sum);
  }
}

struct Try {
  DotModel model;
  Plan plan;
  bool fma = false;
};

std::vector<DotModel> candidate_models(const ProductType& t) {
  const auto ptx = [](const std::string& f) {
    return f == "fp16" ? std::string("f16") : f == "int8" ? std::string("s8") : f;
  };
  const std::string a = ptx(t.b), b = ptx(t.a);  // rows of the result are columns of the product
  std::vector<std::string> names;
  if (t.a == "int8") names = {"hopper.mma.s32.s8.s8.k32"};
  else if (t.a == "tf32") names = {"hopper.wgmma.f32.tf32.tf32", "hopper.mma.f32.tf32.tf32.k4"};
  else if (bytes_of(t.a) == 1) names = {"hopper.wgmma.f32." + a + "." + b, "hopper.mma.f32." + a + "." + b + ".k32"};
  else names = {"hopper.wgmma.f32." + a + "." + b, "hopper.mma.f32." + a + "." + b + ".k8"};
  std::vector<DotModel> models;
  for (const std::string& name : names)
    if (const DotModel* m = find_dot_model(name)) models.push_back(*m);
  return models;
}

// The ladder: what the attributes say first, then cuts of K that kernels use.
std::vector<Plan> candidate_plans(const ProductType& t, const ProductAlgorithm& algorithm, int k) {
  std::vector<Plan> plans;
  const auto add = [&](SumOrder order, int length, int run = 0, int residue = 0) {
    Plan p;
    p.order = order, p.length = length, p.run = run, p.residue = residue;
    if (std::find(plans.begin(), plans.end(), p) == plans.end()) plans.push_back(p);
  };
  const bool slow = bytes_of(t.a) == 1 && !t.fast;
  if (slow) add(SumOrder::promote, 128);
  add(SumOrder::chain, 0);
  const auto splits = [&](int parts) {
    for (const int grain : {64, 32, 128, 16, 8, 256}) {
      const int length = ((k + parts - 1) / parts + grain - 1) / grain * grain;
      if (length < k) add(SumOrder::split, length);
    }
  };
  if (algorithm.split_k > 1) splits(algorithm.split_k);
  for (int parts = 2; parts <= 32; ++parts) splits(parts);
  // Kernels for sizes that are no multiple of their tile: what is left over comes first.
  for (const int residue : {32, 64, 16, 128}) {
    if (k % residue != 0) add(SumOrder::chain, 0, 0, residue);
    const auto parts_of = [&](int parts) {
      for (const int grain : {4, 8, 2, 16, 32, 1}) {
        const int length = ((k + parts - 1) / parts + grain - 1) / grain * grain;
        if (length < k && (length % residue != 0 || k % length % residue != 0))
          add(SumOrder::split, length, 0, residue);
      }
    };
    if (algorithm.split_k > 1) parts_of(algorithm.split_k);
  }
  if (algorithm.split_k < 0)  // stream-K that came out even: every tile has as many workers
    for (int parts = 2; parts <= 16; ++parts)
      for (const int run : {32, 64, 16, 128})
        for (const Join join : {Join::reversed, Join::in_order}) {
          Plan p;
          p.order = SumOrder::even, p.length = parts, p.run = run, p.join = join;
          plans.push_back(p);
        }
  if (algorithm.split_k < 0)  // stream-K: workers share the tiles
    for (const int workers : {132, 128, 66, 264, 114, 120})
      for (const auto& [rows, columns] : {std::pair{64, 128}, {128, 64}, {128, 128}, {64, 64}, {256, 128}, {128, 256}})
        for (const int tile_k : {32, 16, 64}) {
          Plan p;
          p.order = SumOrder::stream_k, p.length = workers, p.tile_rows = rows, p.tile_cols = columns,
          p.tile_k = tile_k;
          plans.push_back(p);
          p.join = Join::reversed;
          plans.push_back(p);
        }
  for (const int slices : {2, 4, 8})
    for (const int run : {0, 16, 32, 64, 128}) add(SumOrder::slice, slices, run);
  for (const int length : {64, 32, 256, 512, 16})
    if (length < k) add(SumOrder::promote, length);
  return plans;
}

class Search {
 public:
  Search(const ProductType& type, const ProductShape& shape, std::uint64_t seed)
      : type_(type),
        shape_(shape),
        product_(type, shape),
        a_(count(shape.m) * bytes_of(type.a)),
        b_(count(shape.n) * bytes_of(type.b)),
        d_(static_cast<std::size_t>(shape.m) * static_cast<std::size_t>(shape.n) *
           static_cast<std::size_t>(bytes_of(type.d))),
        workspace_(workspace_bytes),
        equal_(1) {
    const bool tf32 = type.a == "tf32";
    fill(a_, type.a, 0, false, seed), fill(b_, type.b, 1, false, seed);
    product_.run(a_.get(), b_.get(), d_.get(), workspace_.get());
    require_cuda(cudaDeviceSynchronize(), "cuBLASLt product");
    if (tf32) fill(a_, type.a, 0, true, seed), fill(b_, type.b, 1, true, seed);
  }

  ProductAlgorithm algorithm() const { return product_.algorithm(); }

  std::uint64_t hash() {
    equal_.clear();
    hash_product<<<grid_blocks(256), 256>>>({d_.get(), bytes_of(type_.d)}, static_cast<long long>(shape_.m) * shape_.n,
                                            equal_.get());
    require_launch("hashing a product");
    unsigned long long sum = 0;
    equal_.download(&sum, 1);
    return sum;
  }

  // Equal outputs of rows x columns from (row, column); rows are columns of the product, so that they are contiguous.
  std::uint64_t equal(const Try& t, int row, int column, int rows, int columns) {
    const CodeSource a{b_.get() + static_cast<std::size_t>(row) * line_bytes(type_.b), bytes_of(type_.b), 0, shape_.k,
                       1};
    const CodeSource b{a_.get() + static_cast<std::size_t>(column) * line_bytes(type_.a), bytes_of(type_.a), 0,
                       shape_.k, 1};
    const std::size_t outputs = static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
    if (sums_.size() < outputs) sums_ = DeviceArray<unsigned>(outputs);
    if (t.fma) {
      fma_chain<<<grid_blocks(128), 128>>>(a, b, *find_format(type_.b), *find_format(type_.a), rows, columns, shape_.k,
                                           sums_.get(), columns);
      require_launch("fma chain");
    } else {
      FusedGemm g{};
      g.a = a, g.b = b, g.c = {nullptr, 4, 0, 0, 0};
      g.d = sums_.get(), g.d_stride = columns;
      g.rows = rows, g.columns = columns, g.products = shape_.k;
      set_model(g, t.model);
      if (t.plan.order != SumOrder::chain || t.plan.residue != 0) {
        const Schedule schedule = make_schedule(t.plan, t.model, static_cast<std::size_t>(shape_.k),
                                                static_cast<std::size_t>(shape_.n), static_cast<std::size_t>(shape_.m),
                                                static_cast<std::size_t>(row), static_cast<std::size_t>(column));
        std::vector<int> ends;
        std::vector<std::int32_t> order;
        // Joined the other way round: the chains stand the other way round.
        const auto append = [&](const Segment& s) {
          order.insert(order.end(), schedule.order.begin() + static_cast<std::ptrdiff_t>(s.begin),
                       schedule.order.begin() + static_cast<std::ptrdiff_t>(s.end));
          ends.push_back(static_cast<int>(order.size()));
        };
        if (t.plan.join == Join::reversed) std::for_each(schedule.segments.rbegin(), schedule.segments.rend(), append);
        else std::for_each(schedule.segments.begin(), schedule.segments.end(), append);
        order_ = DeviceArray<int>(order.size()), ends_ = DeviceArray<int>(ends.size());
        order_.upload(order.data(), order.size()), ends_.upload(ends.data(), ends.size());
        g.order = order_.get(), g.ends = t.plan.order == SumOrder::chain ? nullptr : ends_.get(),
        g.positions = static_cast<int>(order.size());
      }
      if (has_fused_kernel(t.model)) launch_fused(g, t.model, 1, nullptr, nullptr);
      else launch_scalar(g, t.model, 1, nullptr, nullptr);
    }
    equal_.clear();
    const bool converts = type_.d != "fp32" && type_.d != "int32";
    count_equal<<<grid_blocks(256), 256>>>(
        sums_.get(), columns,
        d_.get() +
            (static_cast<std::size_t>(row) * static_cast<std::size_t>(shape_.m) + static_cast<std::size_t>(column)) *
                static_cast<std::size_t>(bytes_of(type_.d)),
        shape_.m, rows, columns, converts ? *find_format(type_.d) : Format{}, converts, equal_.get());
    require_launch("comparing a product");
    unsigned long long count = 0;
    equal_.download(&count, 1);
    return count;
  }

  // Over all outputs of the first rows. The chains of stream-K differ from tile to tile.
  std::uint64_t equal_everywhere(const Try& t, int rows) {
    if (t.plan.order != SumOrder::stream_k) return equal(t, 0, 0, rows, shape_.m);
    std::uint64_t sum = 0;
    for (int row = 0; row < rows; row += t.plan.tile_rows)
      for (int column = 0; column < shape_.m; column += t.plan.tile_cols)
        sum += equal(t, row, column, std::min(t.plan.tile_rows, rows - row),
                     std::min(t.plan.tile_cols, shape_.m - column));
    return sum;
  }

 private:
  std::size_t count(int lines) const { return static_cast<std::size_t>(lines) * static_cast<std::size_t>(shape_.k); }
  std::size_t line_bytes(const std::string& format) const {
    return static_cast<std::size_t>(shape_.k) * static_cast<std::size_t>(bytes_of(format));
  }
  void fill(DeviceArray<unsigned char>& to, const std::string& format, int matrix, bool nearest, std::uint64_t seed) {
    const int bytes = bytes_of(format);
    fill_product<<<grid_blocks(256), 256>>>(to.get(), bytes, *find_format(format), format == "tf32", nearest, seed,
                                            matrix, static_cast<long long>(to.size()) / bytes);
    require_launch("making operands");
  }

  ProductType type_;
  ProductShape shape_;
  LtProduct product_;
  DeviceArray<unsigned char> a_, b_, d_, workspace_;
  DeviceArray<unsigned long long> equal_;
  DeviceArray<unsigned> sums_;
  DeviceArray<int> order_, ends_;
};

}  // namespace

ProductAlgorithm choose_algorithm(const ProductType& type, const ProductShape& shape, const ProductCall& call) {
  return LtProduct(type, shape, call).algorithm();
}

ProductFinding find_product_plan(const ProductType& type, const ProductShape& shape, std::uint64_t seed) {
  DeviceTimer timer;
  timer.start();
  Search search(type, shape, seed);
  ProductFinding finding{type, shape, search.algorithm(), {}, {}, 0, 0, search.hash(), 0};
  std::vector<Try> tries;
  for (const Plan& plan : candidate_plans(type, finding.algorithm, shape.k))
    for (const DotModel& model : candidate_models(type)) {
      if (model.rule == DotRule::fused || plan.order == SumOrder::chain) tries.push_back({model, plan});
      if (model.is_integer()) break;
    }
  if (type.a != "int8") tries.push_back({{}, {}, true});
  // A few corners first; a plan that holds there is asked for everything (for integers, for some rows).
  const int rows = std::min(shape.n, 32), columns = std::min(shape.m, 64);
  const int last_row = shape.n - rows, last_column = shape.m - columns;
  const int all_rows = type.a == "int8" ? std::min(shape.n, 256) : shape.n;
  finding.outputs = static_cast<std::uint64_t>(all_rows) * static_cast<std::uint64_t>(shape.m);
  const auto plan_of = [&](const Try& t) {
    Plan plan = t.plan;
    if (type.a == "tf32" && !t.fma) plan.operands = Operands::nearest_even;
    return plan_text(plan);
  };
  std::uint64_t best_sample = 0;
  const Try* best = nullptr;
  for (const Try& t : tries) {
    const auto sample = static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(columns);
    const std::uint64_t first = search.equal(t, 0, 0, rows, columns);
    const std::uint64_t last = first == sample ? search.equal(t, last_row, last_column, rows, columns) : 0;
    if (best == nullptr || first + last > best_sample) best_sample = first + last, best = &t;
    if (first != sample || last != sample) continue;
    const std::uint64_t equal = search.equal_everywhere(t, all_rows);
    if (equal > finding.equal) finding.equal = equal;
    if (equal != finding.outputs) continue;
    finding.model = t.fma ? "software.fma" : std::string(t.model.name.view());
    finding.plan = plan_of(t);
    break;
  }
  if (finding.model.empty()) {
    finding.equal = std::max(finding.equal, search.equal_everywhere(*best, all_rows));
    finding.plan = "closest: " +
                   (best->fma ? std::string("fma chain") : std::string(best->model.name.view()) + " " + plan_of(*best));
  }
  finding.seconds = timer.stop();
  return finding;
}

CublasVersion cublas_version() {
  const std::size_t number = cublasLtGetVersion(),
                    cuda = cublasLtGetCudartVersion();  // 130100 is 13.1.0, 13000 is 13.0
  return {
      std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." + std::to_string(number % 100),
      std::to_string(cuda / 1000) + "." + std::to_string(cuda % 1000 / 10)};
}

double product_rate(const ProductType& type, int size) {
  const ProductShape shape{size, size, size};
  const LtProduct product(type, shape);
  const std::size_t count = static_cast<std::size_t>(size) * static_cast<std::size_t>(size);
  DeviceArray<unsigned char> a(count * static_cast<std::size_t>(bytes_of(type.a))),
      b(count * static_cast<std::size_t>(bytes_of(type.b)));
  DeviceArray<unsigned char> d(count * static_cast<std::size_t>(bytes_of(type.d))), workspace(workspace_bytes);
  fill_product<<<grid_blocks(256), 256>>>(a.get(), bytes_of(type.a), *find_format(type.a),
                                          type.a == "tf32" || type.a == "fp32", false, 1, 0,
                                          static_cast<long long>(count));
  fill_product<<<grid_blocks(256), 256>>>(b.get(), bytes_of(type.b), *find_format(type.b),
                                          type.b == "tf32" || type.b == "fp32", false, 1, 1,
                                          static_cast<long long>(count));
  require_launch("making operands");
  std::vector<double> seconds;
  DeviceTimer timer;
  for (int i = 0; i < 25; ++i) {
    timer.start();
    product.run(a.get(), b.get(), d.get(), workspace.get());
    const double time = timer.stop();
    if (i >= 5) seconds.push_back(time);
  }
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end());
  return static_cast<double>(size) * size * size / seconds[seconds.size() / 2] * 1e-12;
}

std::vector<GpuRate> bench_products() {
  // Dense rates of the vendor's H100/H200 SXM table, TFLOP/s (TOP/s for int8).
  struct Row {
    ProductType type;
    double vendor;
  };
  std::vector<GpuRate> rates;
  for (const Row& r : {Row{{"fp32", "fp32", "fp32", "fp32"}, 67}, Row{find_product_type("tf32"), 494.7},
                       Row{find_product_type("f16"), 989.4}, Row{find_product_type("bf16-bf16"), 989.4},
                       Row{find_product_type("e4m3-bf16"), 1978.9}, Row{find_product_type("s8"), 1978.9}}) {
    const double rate = 2 * product_rate(r.type, 8192);
    rates.push_back({"cuBLASLt " + r.type.name + " 8192 cubed", rate, r.type.name == "s8" ? "TOP/s" : "TFLOP/s",
                     rate / r.vendor, "vendor's table"});
  }
  return rates;
}

}  // namespace narrow

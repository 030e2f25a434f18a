// Section 3: every tensor-core instruction against its model, on tiles that are made, run and compared on the device.
#include <algorithm>

#include "narrow/cuda/fused_gemm.cuh"
#include "narrow/cuda/fused_gemm.hpp"
#include "narrow/cuda/tensor_cores.hpp"
#include "narrow/dot/dot.hpp"

namespace narrow {

namespace {

using namespace detail;

struct FillRequest {
  TileFormats formats;
  std::uint64_t seed, instruction, first_tile;
  int k, columns;
  int a_bytes, b_bytes, c_bytes, low_bits;
  void *a, *b, *c;
};

__device__ inline void store_code(void* to, int bytes, long long index, Code code) {
  if (bytes == 1) static_cast<unsigned char*>(to)[index] = static_cast<unsigned char>(code);
  else if (bytes == 2) static_cast<unsigned short*>(to)[index] = static_cast<unsigned short>(code);
  else if (bytes == 4) static_cast<unsigned*>(to)[index] = static_cast<unsigned>(code);
  else static_cast<unsigned long long*>(to)[index] = code;
}

// A tf32 word carries 13 bits below its code that must not matter: they are filled.
__device__ inline Code as_word(Code code, int low_bits) {
  return low_bits == 0 ? code : code << low_bits | (mix_bits(code) & low_mask(low_bits));
}

__global__ void __launch_bounds__(256) fill_tiles(FillRequest r) {
  const std::uint64_t tile = r.first_tile + blockIdx.x;
  const TilePlan plan = plan_tile(r.formats, r.seed, r.instruction, tile);
  const int a_count = tile_rows * r.k, b_count = r.columns * r.k, c_count = tile_rows * r.columns;
  for (int i = static_cast<int>(threadIdx.x); i < a_count; i += 256)
    store_code(r.a, r.a_bytes, static_cast<long long>(blockIdx.x) * a_count + i,
               as_word(tile_operand(plan, r.formats.a, false, i / r.k, i % r.k, r.k), r.low_bits));
  for (int i = static_cast<int>(threadIdx.x); i < b_count; i += 256)
    store_code(r.b, r.b_bytes, static_cast<long long>(blockIdx.x) * b_count + i,
               as_word(tile_operand(plan, r.formats.b, true, i / r.k, i % r.k, r.k), r.low_bits));
  for (int i = static_cast<int>(threadIdx.x); i < c_count; i += 256)
    store_code(r.c, r.c_bytes, static_cast<long long>(blockIdx.x) * c_count + i,
               tile_addend(plan, r.formats.c, i / r.columns, i % r.columns));
}

// Sums of mix(mix(code) + index within the tile), one a tile. Doubles: every NaN counts as the canonical one.
__global__ void __launch_bounds__(256) hash_tiles(CodeSource d, int outputs, unsigned long long* hashes) {
  unsigned long long hash = 0;
  for (int i = static_cast<int>(threadIdx.x); i < outputs; i += 256) {
    const long long index = static_cast<long long>(blockIdx.x) * outputs + i;
    Code code = d.bytes == 8 ? static_cast<const unsigned long long*>(d.data)[index] : load_code(d, index);
    if (d.bytes == 8 && is_nan(code, ieee(11, 52))) code = ieee(11, 52).nan_code();
    hash += mix_bits(mix_bits(code) + static_cast<unsigned>(i));
  }
  add_to(&hashes[blockIdx.x], hash);
}

// Tiles of one instruction on the device.
class TileBench {
 public:
  TileBench(const Instruction& instruction, std::uint64_t seed, std::size_t tiles)
      : i_(instruction),
        seed_(seed),
        capacity_(tiles),
        a_(tiles * tile_rows * static_cast<std::size_t>(i_.products() * element_bytes(i_.a))),
        b_(tiles * static_cast<std::size_t>(i_.columns() * i_.products() * element_bytes(i_.b))),
        c_(tiles * outputs() * static_cast<std::size_t>(element_bytes(i_.accumulator))),
        d_(c_.size()) {}

  std::size_t outputs() const { return static_cast<std::size_t>(tile_rows * i_.columns()); }
  std::size_t capacity() const { return capacity_; }

  // Makes the inputs and runs the instruction.
  void run(std::uint64_t first, std::size_t tiles) {
    const FillRequest fill{i_.formats(),
                           seed_,
                           i_.number(),
                           first,
                           i_.products(),
                           i_.columns(),
                           element_bytes(i_.a),
                           element_bytes(i_.b),
                           element_bytes(i_.accumulator),
                           element_low_bits(i_.a),
                           a_.get(),
                           b_.get(),
                           c_.get()};
    fill_tiles<<<static_cast<unsigned>(tiles), 256>>>(fill);
    require_launch("making tiles");
    const TileArrays arrays{a_.get(), b_.get(), c_.get(), d_.get(), first, tiles};
    const bool ran = run_mma_float(i_, arrays, nullptr) || run_mma_fp8(i_, arrays, nullptr) ||
                     run_mma_other(i_, arrays, nullptr) || run_mma_sparse(i_, arrays, nullptr) ||
                     run_wgmma_float(i_, arrays, nullptr) || run_wgmma_fp8(i_, arrays, nullptr) ||
                     run_wgmma_fp8_half(i_, arrays, nullptr) || run_wgmma_integer(i_, arrays, nullptr) ||
                     run_wgmma_sparse(i_, arrays, nullptr);
    if (!ran) throw Error("gpu: no kernel for instruction '" + i_.name() + "'");
  }

  // Holds what run left against the model.
  void compare(std::uint64_t first, std::size_t tiles, const DotModel& model, Tally* tally, bool scalar) {
    FusedGemm g{};
    const int c_bytes = element_bytes(i_.accumulator);
    g.a = {a_.get(), element_bytes(i_.a), tile_rows * i_.products(), i_.products(), 1};
    g.b = {b_.get(), element_bytes(i_.b), i_.columns() * i_.products(), i_.products(), 1};
    g.c = {c_.get(), c_bytes, static_cast<long long>(outputs()), 0, 0};
    g.d = d_.get();
    g.d_tile = static_cast<long long>(outputs()), g.d_stride = i_.columns(), g.c_stride = i_.columns();
    g.rows = tile_rows, g.columns = i_.columns(), g.products = i_.products();
    g.zero_c_period = i_.unit == TileUnit::wgmma ? tile_families : 0;
    g.negate_period = i_.negate ? tile_families : 0;
    g.first_tile = static_cast<long long>(first);
    set_model(g, model);
    if (!scalar && has_fused_kernel(model)) launch_fused(g, model, static_cast<int>(tiles), tally, nullptr);
    else launch_scalar(g, model, static_cast<int>(tiles), tally, nullptr);
  }

  std::vector<Code> results(std::size_t tile) const {
    const std::size_t bytes = static_cast<std::size_t>(element_bytes(i_.accumulator));
    std::vector<unsigned char> raw(outputs() * bytes);
    require_cuda(cudaMemcpy(raw.data(), d_.get() + tile * raw.size(), raw.size(), cudaMemcpyDeviceToHost),
                 "copying results");
    std::vector<Code> codes(outputs());
    for (std::size_t o = 0; o < codes.size(); ++o)
      for (std::size_t byte = 0; byte < bytes; ++byte)
        codes[o] |= static_cast<Code>(raw[o * bytes + byte]) << (8 * byte);
    if (bytes == 8)
      for (Code& code : codes)
        if (is_nan(code, ieee(11, 52))) code = ieee(11, 52).nan_code();
    return codes;
  }
  std::vector<std::uint64_t> hashes(std::size_t tiles) const {
    DeviceArray<unsigned long long> sums(tiles);
    sums.clear();
    hash_tiles<<<static_cast<unsigned>(tiles), 256>>>({d_.get(), element_bytes(i_.accumulator)},
                                                      static_cast<int>(outputs()), sums.get());
    require_launch("hashing tiles");
    const std::vector<unsigned long long> host = sums.download();
    return {host.begin(), host.end()};
  }

 private:
  Instruction i_;
  std::uint64_t seed_;
  std::size_t capacity_;
  DeviceArray<unsigned char> a_, b_, c_, d_;
};

const DotModel& model_of(const Instruction& i, int sm) {
  const DotModel* model = find_dot_model(i.model(sm));
  if (model == nullptr) throw Error("gpu: instruction '" + i.name() + "' has no model '" + i.model(sm) + "'");
  return *model;
}

std::string describe(const Instruction& i, const DotModel& model, std::uint64_t seed, std::uint64_t where,
                     const std::vector<Code>& results) {
  const std::uint64_t outputs = static_cast<std::uint64_t>(tile_rows * i.columns()), tile = where / outputs;
  const int row = static_cast<int>(where % outputs) / i.columns(),
            column = static_cast<int>(where % outputs) % i.columns();
  const TileDot dot = tile_dot(i, seed, tile, row, column);
  const auto list = [](const std::vector<Code>& codes) {
    std::string text;
    for (const Code code : codes) text += (text.empty() ? "" : ",") + hex_text(code);
    return text;
  };
  return "tile " + std::to_string(tile) + " row " + std::to_string(row) + " column " + std::to_string(column) + ": a " +
         list(dot.a) + " b " + list(dot.b) + " c " + hex_text(dot.c) + ": native " +
         hex_text(results[where % outputs]) + ", emulated " + hex_text(narrow::dot(model, dot.a, dot.b, dot.c));
}

// So many tiles that a batch is some hundred million dot products.
std::size_t batch_tiles(const Instruction& i) { return i.columns() == 256 ? 8192 : 32768; }

}  // namespace

bool can_check_instruction(const Instruction& i, int sm) {
  const DotModel* model = find_dot_model(i.model(sm));
  return model != nullptr && (has_fused_kernel(*model) || has_scalar_kernel(*model));
}

GpuCheckResult check_instruction(const Instruction& i, std::uint64_t dots, std::uint64_t seed, bool scalar,
                                 int sm) {
  const DotModel& model = model_of(i, sm);
  const auto outputs = static_cast<std::uint64_t>(tile_rows * i.columns());
  const std::uint64_t tiles = std::max<std::uint64_t>(1, (dots + outputs - 1) / outputs);
  TileBench bench(i, seed, static_cast<std::size_t>(std::min<std::uint64_t>(tiles, batch_tiles(i))));
  DeviceArray<Tally> tally(1);
  const Tally zero{0, 0, ~0ull};
  tally.upload(&zero, 1);
  DeviceTimer timer;
  timer.start();
  for (std::uint64_t first = 0; first < tiles; first += bench.capacity()) {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(bench.capacity(), tiles - first));
    bench.run(first, count);
    bench.compare(first, count, model, tally.get(), scalar);
  }
  bench.run(ladder_tile, 1);
  bench.compare(ladder_tile, 1, model, tally.get(), scalar);
  GpuCheckResult result{i.name() + (scalar ? " (scalar)" : ""), "dots", (tiles + 1) * outputs, 0, timer.stop(), 0, {}};
  Tally seen;
  tally.download(&seen, 1);
  result.mismatches = seen.mismatches;
  if (seen.mismatches != 0) {
    bench.run(seen.first / outputs, 1);
    result.first = describe(i, model, seed, seen.first, bench.results(0));
  }
  return result;
}

void check_tensor_cores(const GpuCheckOptions& options, const GpuReport& report) {
  for (const Instruction& i : all_instructions()) {
    if (!is_wanted(options, i.name()) || !i.runs_on(options.capability)) continue;
    if (!can_check_instruction(i, options.capability)) continue;  // nobody has described it for this GPU yet
    const bool slow = !has_fused_kernel(model_of(i, options.capability));
    report(check_instruction(i, static_cast<std::uint64_t>(static_cast<double>(options.dots) * options.scale),
                             options.seed, slow, options.capability));
    // The fast kernel is another form of the scalar functions; those are asked as well, on fewer tiles.
    if (!slow)
      report(check_instruction(i, static_cast<std::uint64_t>(static_cast<double>(options.dots) * options.scale / 1000),
                               options.seed + 1, true, options.capability));
  }
}

RecordedTiles record_instruction(const Instruction& i, std::uint64_t seed, std::size_t full, std::size_t tiles) {
  TileBench bench(i, seed, tiles);
  bench.run(0, tiles);
  RecordedTiles recorded;
  recorded.hashes = bench.hashes(tiles);
  recorded.full = bench.results(0);
  recorded.full.resize(std::min(full, recorded.full.size()));
  return recorded;
}

std::vector<Code> record_tile(const Instruction& i, std::uint64_t seed, std::uint64_t tile) {
  TileBench bench(i, seed, 1);
  bench.run(tile, 1);
  return bench.results(0);
}

}  // namespace narrow

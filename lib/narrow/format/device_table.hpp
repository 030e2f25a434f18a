// Which device converts to which format, and multiplies matrices in it, by instructions of its own. Speed is not asked.
#pragma once

#include <string_view>

namespace narrow {

struct DeviceRow {
  std::string_view name;         // as the dot models name a generation where there is one
  std::string_view parts;        // what people buy
  int year;                      // in which the first of them was announced, deployed or sold
  std::string_view products;     // formats of the operands of its matrix unit
  std::string_view scales;       // formats of the scales of blocks that the unit multiplies in
  std::string_view conversions;  // formats that one instruction converts FP32 to (fp32: FP64); empty: not documented
  std::string_view source;
};

// The formats of a list such as "fp64 fp16 e4m3", one call each.
template <class Visit>
constexpr void for_each_format(std::string_view list, Visit&& visit) {
  while (!list.empty()) {
    const std::size_t end = list.find(' ');
    visit(list.substr(0, end));
    list = end == list.npos ? std::string_view() : list.substr(end + 1);
  }
}

// NVIDIA: by the target notes of PTX, and compiled with ptxas 13.0 for each target from sm_75 on.
//   cvt  bf16, tf32 sm_80; e4m3x2, e5m2x2 sm_89; e2m3x2, e3m2x2, e2m1x2, ue8m0x2 sm_100a and sm_120a
//   mma  s8 sm_75; bf16, tf32, f64 sm_80; e4m3, e5m2 sm_89; e2m3, e3m2, e2m1 sm_120a (sm_100a: tcgen05)
// mma of f64 compiles for sm_86, sm_89 and sm_120 too, where a few scalar units compute it: no matrix unit, so it is
// not listed. mma of FP8 is software on sm_90 and sm_100, but wgmma and tcgen05 are native there.
inline constexpr DeviceRow device_table[] = {
    // clang-format off
    {"volta", "V100", 2017, "fp16", "", "fp64 fp32 fp16 int8",
     "Tesla V100 whitepaper, 2017; PTX ISA 9.0 (sm_70)"},
    {"turing", "T4, RTX 20", 2018, "fp16 int8", "", "fp64 fp32 fp16 int8",
     "Turing whitepaper, 2018; PTX ISA 9.0 (sm_75)"},
    {"ampere", "A100, RTX 30", 2020, "fp64 tf32 fp16 bf16 int8", "", "fp64 fp32 tf32 fp16 bf16 int8",
     "A100 whitepaper, 2020; PTX ISA 9.0 (sm_80); fp64 products: sm_80 (A100, A30) alone"},
    {"ada", "L40S, RTX 40", 2022, "tf32 fp16 bf16 e4m3 e5m2 int8", "", "fp64 fp32 tf32 fp16 bf16 e4m3 e5m2 int8",
     "Ada whitepaper, 2022; PTX ISA 9.0 (sm_89)"},
    {"hopper", "H100, H200", 2022, "fp64 tf32 fp16 bf16 e4m3 e5m2 int8", "",
     "fp64 fp32 tf32 fp16 bf16 e4m3 e5m2 int8",
     "H100 whitepaper, 2022; PTX ISA 9.0 (sm_90a); FP8 products: wgmma alone"},
    {"blackwell", "B200, GB200", 2024, "fp64 tf32 fp16 bf16 e4m3 e5m2 e2m3 e3m2 e2m1 int8", "e8m0 e4m3",
     "fp64 fp32 tf32 fp16 bf16 e4m3 e5m2 e2m3 e3m2 e2m1 e8m0 int8",
     "Blackwell architecture brief, 2024; PTX ISA 9.0 (sm_100a); FP8 and below: tcgen05 alone"},
    {"rtx-blackwell", "RTX 50, RTX PRO", 2025, "tf32 fp16 bf16 e4m3 e5m2 e2m3 e3m2 e2m1 int8", "e8m0 e4m3",
     "fp64 fp32 tf32 fp16 bf16 e4m3 e5m2 e2m3 e3m2 e2m1 e8m0 int8",
     "RTX Blackwell whitepaper, 2025; PTX ISA 9.0 (sm_120a)"},
    {"cdna1", "MI100", 2020, "fp32 fp16 bf16 int8", "", "fp64 fp32 fp16",
     "CDNA ISA reference guide, 2020 (gfx908)"},
    {"cdna2", "MI210, MI250", 2021, "fp64 fp32 fp16 bf16 int8", "", "fp64 fp32 fp16",
     "CDNA2 ISA reference guide, 2022 (gfx90a)"},
    {"cdna3", "MI300, MI325", 2023, "fp64 fp32 tf32 fp16 bf16 e4m3fnuz e5m2fnuz int8", "",
     "fp64 fp32 fp16 e4m3fnuz e5m2fnuz", "CDNA3 ISA reference guide, 2023 (gfx942); tf32 is its xf32"},
    {"cdna4", "MI350, MI355", 2025, "fp64 fp32 fp16 bf16 e4m3 e5m2 e2m3 e3m2 e2m1 int8", "e8m0",
     "fp64 fp32 fp16 bf16 e4m3 e5m2 e2m3 e3m2 e2m1", "CDNA4 ISA reference guide, 2025 (gfx950)"},
    {"tpu-v2", "TPU v2", 2017, "bf16", "", "", "Norrie et al., IEEE Micro, 2021"},
    {"tpu-v3", "TPU v3", 2018, "bf16", "", "", "Norrie et al., IEEE Micro, 2021"},
    {"tpu-v4", "TPU v4", 2020, "bf16 int8", "", "", "Cloud TPU documentation, 2025; int8: JAX knows it on one side only"},
    {"tpu-v5e", "TPU v5e", 2023, "bf16 int8", "", "", "Cloud TPU documentation, 2025"},
    {"tpu-v5p", "TPU v5p", 2023, "bf16 int8", "", "", "Cloud TPU documentation, 2025; int8: jax/_src/tpu_info.py"},
    {"tpu-v6e", "TPU v6e (Trillium)", 2024, "bf16 int8", "", "", "Cloud TPU documentation, 2025"},
    {"tpu-v7", "TPU7x (Ironwood)", 2025, "bf16 e4m3 e5m2", "", "",
     "Cloud TPU documentation, 2025; which FP8: jax/_src/tpu_info.py"},
    {"sapphire-rapids", "Xeon, 4th generation", 2023, "bf16 int8", "", "fp64 fp32 fp16 bf16",
     "Intel SDM: AMX-BF16, AMX-INT8, AVX512_FP16, AVX512_BF16"},
    {"granite-rapids", "Xeon 6 P-core", 2024, "fp16 bf16 int8", "", "fp64 fp32 fp16 bf16", "Intel SDM: AMX-FP16 too"},
    {"neoverse-v1", "Graviton3", 2021, "bf16 int8", "", "fp64 fp32 fp16 bf16",
     "Neoverse V1 TRM: FEAT_BF16 (BFMMLA, BFCVT), FEAT_I8MM (SMMLA)"},
    // clang-format on
};

}  // namespace narrow

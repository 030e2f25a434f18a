// The list of formats. Adding a format is adding a row: limits, tests, program and documentation follow from it.
//
//   for (const NamedFormat& row : format_table) std::printf("%.*s\n", int(row.name.size()), row.name.data());
#pragma once

#include <string_view>

#include "narrow/format/format.hpp"

namespace narrow {

// A row: the format, its names and where it is defined.
struct NamedFormat {
  std::string_view name;
  Format format;
  std::string_view aliases;  // separated by spaces
  std::string_view source;
};

// All rows, in the order in which the program lists them.
inline constexpr NamedFormat format_table[] = {
    {"fp64", ieee(11, 52), "float64 double binary64 f64", "IEEE 754-2019 binary64"},
    {"fp32", ieee(8, 23), "float32 float single binary32 f32", "IEEE 754-2019 binary32"},
    {"tf32", ieee(8, 10), "tensorfloat32 tfloat32", "NVIDIA A100 whitepaper, 2020"},
    {"fp16", ieee(5, 10), "float16 half binary16 f16", "IEEE 754-2019 binary16"},
    {"bf16", ieee(8, 7), "bfloat16", "Google Brain, Intel BF16 whitepaper, 2018"},
    {"e4m3", finite(4, 3, Specials::nan_only), "e4m3fn float8_e4m3fn f8_e4m3 fp8_e4m3 f8e4m3fn float8e4m3fn",
     "OCP OFP8 1.0, 2023"},
    {"e5m2", ieee(5, 2), "float8_e5m2 f8_e5m2 fp8_e5m2 f8e5m2 float8e5m2", "OCP OFP8 1.0, 2023"},
    {"e4m3fnuz",
     {4, 3, 8, Specials::nan_is_negative_zero},
     "float8_e4m3fnuz f8_e4m3fnuz f8e4m3fnuz float8e4m3fnuz",
     "Noune et al. 2022, arXiv 2206.02915"},
    {"e5m2fnuz",
     {5, 2, 16, Specials::nan_is_negative_zero},
     "float8_e5m2fnuz f8_e5m2fnuz f8e5m2fnuz float8e5m2fnuz",
     "Noune et al. 2022, arXiv 2206.02915"},
    {"e4m3b11fnuz",
     {4, 3, 11, Specials::nan_is_negative_zero},
     "float8_e4m3b11fnuz f8e4m3b11fnuz e4m3b11",
     "ml_dtypes"},
    {"e4m3ieee", ieee(4, 3), "float8_e4m3 f8e4m3", "IEEE-like reading of 4+3 bits (ml_dtypes float8_e4m3)"},
    {"e3m4", ieee(3, 4), "float8_e3m4 f8e3m4", "ml_dtypes float8_e3m4"},
    {"e2m3", finite(2, 3, Specials::none), "float6_e2m3fn f6_e2m3 fp6_e2m3 f6e2m3fn", "OCP MX 1.0, 2023"},
    {"e3m2", finite(3, 2, Specials::none), "float6_e3m2fn f6_e3m2 fp6_e3m2 f6e3m2fn", "OCP MX 1.0, 2023"},
    {"e2m1", finite(2, 1, Specials::none), "float4_e2m1fn fp4 f4 fp4_e2m1 f4e2m1fn float4_e2m1fn_x2",
     "OCP MX 1.0, 2023"},
    {"e8m0",
     {8, 0, 127, Specials::nan_only, false, false},
     "e8m0fnu float8_e8m0fnu f8_e8m0 ue8m0 f8e8m0fnu",
     "OCP MX 1.0, 2023 (scales)"},
    {"int8", integer(8, true), "i8 s8", "two's complement"},
    {"uint8", integer(8, false), "u8", "unsigned integer"},
    {"int4", integer(4, true), "i4 s4", "two's complement (ml_dtypes int4)"},
    {"uint4", integer(4, false), "u4", "unsigned integer (ml_dtypes uint4)"},
};

}  // namespace narrow

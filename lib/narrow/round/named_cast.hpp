// The casts of real systems by name, bit for bit, NaN codes included. Evidence: data/conformance.
//
//   const Code by_cuda = encode(465.0F, "e4m3"_fmt, named_cast("cuda", "e4m3"_fmt));    // 448
//   const Code by_torch = encode(465.0F, "e4m3"_fmt, named_cast("torch", "e4m3"_fmt));  // NaN
#pragma once

#include <string>
#include <string_view>

#include "narrow/base/error.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/round/cast.hpp"

namespace narrow {

// One row: what a system does for some formats in some rounding modes (both as lists of words).
struct NamedCast {
  std::string_view system;
  std::string_view formats;
  std::string_view roundings;
  Cast cast;  // its rounding is replaced by the one asked for
  std::string_view what;
};

// The names that named_cast knows.
inline constexpr std::string_view named_cast_systems[] = {"cuda",       "cuda-sat",  "cuda-nosat", "torch",
                                                          "torch-2.13", "ml_dtypes", "onnx",       "onnx-nosat"};

namespace detail {

inline constexpr Cast cuda_special{.double_keeps_nan = true};
inline constexpr Cast cuda_saturating{.overflow = Overflow::saturate, .double_keeps_nan = true};
inline constexpr Cast e8m0_cuda{.overflow = Overflow::saturate, .negative = Negative::to_magnitude};
inline constexpr Cast e8m0_cuda_nosat{.negative = Negative::to_magnitude};
inline constexpr Cast torch_wide{.through_fp32 = true};
inline constexpr Cast torch_fp8{.nan = Nan::keep_sign, .through_fp32 = true};
inline constexpr Cast torch_saturating{.overflow = Overflow::saturate, .nan = Nan::keep_sign, .through_fp32 = true};
inline constexpr Cast e8m0_torch{
    .through_fp32 = true, .negative = Negative::to_magnitude, .near_zero = NearZero::by_field};
inline constexpr Cast ml_dtypes_float{.nan = Nan::quiet, .through_fp32 = true};
inline constexpr Cast ml_dtypes_finite{.nan = Nan::turned_zero, .through_fp32 = true};
inline constexpr Cast e8m0_ml_dtypes{.through_fp32 = true, .near_zero = NearZero::by_field_no_zero};
inline constexpr Cast onnx_fp8{.overflow = Overflow::saturate, .nan = Nan::quiet, .through_fp32 = true};
inline constexpr Cast onnx_fp8_nosat{.nan = Nan::quiet, .through_fp32 = true};
inline constexpr Cast onnx_fp16{.nan = Nan::keep_payload};
inline constexpr Cast e8m0_onnx{.overflow = Overflow::saturate_finite,
                                .through_fp32 = true,
                                .negative = Negative::to_magnitude,
                                .near_zero = NearZero::by_field};

}  // namespace detail

// A row for each system and format.
inline constexpr NamedCast named_cast_table[] = {
    {"cuda", "fp16 bf16", "nearest_even toward_zero up down", detail::cuda_special, "cvt.{rn,rz}, __float2half_r{u,d}"},
    {"cuda", "tf32", "nearest_even toward_zero", detail::cuda_special, "cvt.{rn,rz}.tf32.f32"},
    {"cuda", "tf32", "nearest_away", {.nan = Nan::cut_payload}, "cvt.rna.tf32.f32: a NaN can become Inf"},
    {"cuda", "e4m3 e5m2", "nearest_even", detail::cuda_saturating, "cvt.rn.satfinite"},
    {"cuda", "e2m3 e3m2 e2m1", "nearest_even", detail::cuda_saturating, "__nv_cvt_float_to_fp6, __nv_cvt_float_to_fp4"},
    {"cuda", "e8m0", "up toward_zero", detail::e8m0_cuda, "__nv_cvt_float_to_e8m0, satfinite"},
    {"cuda", "int8", "nearest_even toward_zero up down", detail::cuda_saturating, "cvt.{rni,rzi,rpi,rmi}.sat.s8.f32"},
    {"cuda-sat", "fp16 bf16 e4m3 e5m2", "nearest_even", detail::cuda_saturating, "cvt.rn.satfinite"},
    {"cuda-nosat", "fp16 bf16", "nearest_even toward_zero up down", detail::cuda_special, "as cuda"},
    {"cuda-nosat", "e4m3 e5m2", "nearest_even", detail::cuda_special, "__nv_cvt_float_to_fp8, NOSAT"},
    {"cuda-nosat", "e8m0", "up toward_zero", detail::e8m0_cuda_nosat, "__nv_cvt_float_to_e8m0, NOSAT"},
    {"torch", "fp16 bf16", "nearest_even", detail::torch_wide, "2.11 eager on CUDA; double goes through FP32"},
    {"torch", "e4m3 e5m2 e4m3fnuz e5m2fnuz", "nearest_even", detail::torch_fp8, "2.11 eager; double goes through FP32"},
    {"torch", "e8m0", "nearest_even", detail::e8m0_torch, "2.11 eager; double goes through FP32; sign dropped"},
    {"torch-2.13", "e4m3", "nearest_even", detail::torch_saturating,
     "2.13 eager on CPU: what overflows, Inf too, becomes 448 (core PR 178817); double goes through FP32"},
    {"torch-2.13", "fp16 bf16", "nearest_even", detail::torch_wide,
     "as torch; its CPU build for ARM rounds double to FP16 once"},
    {"torch-2.13", "e5m2 e4m3fnuz e5m2fnuz", "nearest_even", detail::torch_fp8, "as torch"},
    {"torch-2.13", "e8m0", "nearest_even", detail::e8m0_torch, "as torch"},
    {"ml_dtypes", "bf16 e5m2 e3m4 e4m3ieee e4m3 e4m3fnuz e5m2fnuz e4m3b11fnuz", "nearest_even", detail::ml_dtypes_float,
     "0.6; double goes through FP32"},
    {"ml_dtypes", "e2m3 e3m2 e2m1", "nearest_even", detail::ml_dtypes_finite, "0.6; double goes through FP32"},
    {"ml_dtypes", "e8m0", "nearest_even", detail::e8m0_ml_dtypes, "0.6; double goes through FP32; zero is NaN"},
    {"onnx", "e4m3 e5m2 e4m3fnuz e5m2fnuz", "nearest_even", detail::onnx_fp8,
     "reference of 1.19 to 1.23, saturate = 1; from FP32 (the NaN of e5m2 was 0x7F up to 1.18)"},
    {"onnx", "fp16", "nearest_even", detail::onnx_fp16, "reference of 1.19 to 1.23, which is numpy's float16"},
    {"onnx", "bf16", "nearest_even", detail::ml_dtypes_float,
     "reference of 1.19 to 1.23, which is ml_dtypes; from FP32"},
    {"onnx", "e2m1", "nearest_even", detail::ml_dtypes_finite,
     "reference of 1.19 to 1.23, which is ml_dtypes: NaN is a zero (6 in its documentation); from FP32"},
    {"onnx", "e8m0", "nearest_even up toward_zero", detail::e8m0_onnx, "Cast, saturate = 1, round_mode; from FP32"},
    {"onnx-nosat", "e4m3 e5m2 e4m3fnuz e5m2fnuz", "nearest_even", detail::onnx_fp8_nosat,
     "the same, saturate = 0; from FP32"},
    {"onnx-nosat", "e8m0", "nearest_even up toward_zero", detail::e8m0_torch,
     "Cast, saturate = 0, round_mode; from FP32"},
};

namespace detail {

inline constexpr std::string_view rounding_names[] = {"nearest_even", "nearest_away", "nearest_to_zero", "toward_zero",
                                                      "up",           "down",         "to_odd",          "stochastic"};

constexpr std::string_view rounding_name(Rounding r) noexcept { return rounding_names[static_cast<int>(r)]; }

constexpr bool has_format(std::string_view names, const Format& f) noexcept {
  for (const NamedFormat& row : format_table)
    if (row.format == f && has_word(names, row.name)) return true;
  return false;
}

// text and one more word, with a blank between.
inline void append_word(std::string& text, std::string_view word) {
  if (!text.empty()) text += ' ';
  text += word;
}

}  // namespace detail

// Throws Error when there is no such system, or when it has no such format or rounding. Where a system has no
// nearest_even at all (CUDA's e8m0), the default argument stands for the system's own default, the first of the row.
inline Cast named_cast(std::string_view system, const Format& to, Rounding rounding = Rounding::nearest_even) {
  bool known = false;
  std::string formats, roundings;
  for (const NamedCast& row : named_cast_table) {
    if (!detail::same_word(row.system, system)) continue;
    known = true;
    detail::append_word(formats, row.formats);
    if (!detail::has_format(row.formats, to)) continue;
    Cast cast = row.cast;
    cast.rounding = rounding;
    if (detail::has_word(row.roundings, detail::rounding_name(rounding))) return cast;
    detail::append_word(roundings, row.roundings);
  }
  if (roundings == "up toward_zero" && rounding == Rounding::nearest_even) return named_cast(system, to, Rounding::up);
  std::string problem = "cast '" + std::string(system) + "' ";
  if (!known) {
    problem += "is unknown; accepted:";
    for (const std::string_view name : named_cast_systems) detail::append_word(problem, name);
  } else if (roundings.empty()) {
    problem += "has no such format; it has: " + formats;
  } else {
    problem += "does not round " + std::string(detail::rounding_name(rounding)) + " to that format; it offers: " + roundings;
  }
  throw Error(problem);
}

}  // namespace narrow

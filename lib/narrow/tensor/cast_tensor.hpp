// A tensor to codes of another format, or to rounded values, piece by piece: each value is decoded exactly and rounded
// once.
//
//   const Tensor tensor = open_tensor("model.safetensors:head.weight");
//   std::vector<std::byte> bytes;
//   cast_tensor(tensor, {"e4m3"_fmt, {}}, CastResult::codes,
//               [&](std::span<const std::byte> piece) { bytes.insert(bytes.end(), piece.begin(), piece.end()); });
#pragma once

#include "narrow/tensor/tensor_statistics.hpp"

namespace narrow {

// What a cast writes.
enum class CastResult : std::uint8_t {
  codes,  // the type of the format; unsigned integers where .safetensors has none
  values  // rounded values as F32; F64 stays F64, C64 stays C64
};

// The type of `elements` results of a cast from `from`.
ResultType cast_type(const ElementType& from, std::uint64_t elements, const Format& to, CastResult result);

// Takes the bytes of a result, piece by piece; or in any order, with the place of their first byte in the whole.
using WriteBytes = std::function<void(std::span<const std::byte>)>;
using WriteAt = std::function<void(std::uint64_t, std::span<const std::byte>)>;

// The bytes of the result in C order, little endian, sub-byte codes packed. The tensor must have a format; complex
// tensors have values only. Stochastic casts take random_bits(seed, index of the value in C order).
void cast_tensor(const Tensor& tensor, const FormatCast& to, CastResult result, const WriteBytes& write,
                 const TensorPass& pass = {});
void cast_tensor(const Tensor& tensor, const FormatCast& to, CastResult result, const WriteAt& write,
                 const TensorPass& pass = {});

// The bytes of a tensor as .safetensors wants them: C order, little endian.
void copy_tensor(const Tensor& tensor, const WriteBytes& write, const TensorPass& pass = {});
void copy_tensor(const Tensor& tensor, const WriteAt& write, const TensorPass& pass = {});

}  // namespace narrow

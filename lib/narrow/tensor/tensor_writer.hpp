// Writes .safetensors and .npy in pieces: a temporary file beside the target, renamed when it is whole.
//
//   const std::vector<float> values(6);
//   TensorWriter writer("w.safetensors", {{"w", *find_element_type("F32"), {2, 3}}});
//   writer.write(std::as_bytes(std::span(values)));
//   writer.finish();
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "narrow/tensor/tensor.hpp"

namespace narrow {

// Everything is known before the first byte of data: names, types, shapes. An object that is destroyed before finish()
// leaves what was there before. Throws Error with the file and the reason (disk full, no permission, ...).
class TensorWriter {
 public:
  // By the ending of path: .safetensors, or .npy (one tensor; column_major as given; no metadata; sub-byte codes are
  // given packed all the same and become a byte each). Header order is data order.
  TensorWriter(const std::string& path, std::vector<TensorHeader> headers,
               std::vector<std::pair<std::string, std::string>> metadata = {}, bool column_major = false);
  ~TensorWriter();
  TensorWriter(const TensorWriter&) = delete;
  TensorWriter& operator=(const TensorWriter&) = delete;

  void write(std::span<const std::byte> bytes);  // the data of all tensors, one after the other, in any pieces
  void finish();                                 // checks that all of it came, flushes, renames

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace narrow

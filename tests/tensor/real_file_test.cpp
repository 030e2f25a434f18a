// A file that PyTorch wrote: is it read, and does it come back bit for bit when it is written again?
#include <doctest/doctest.h>

#include <cmath>

#include "files.hpp"
#include "narrow/tensor/tensor_file.hpp"
#include "narrow/tensor/tensor_writer.hpp"

using namespace narrow;

TEST_CASE("tensor: a real model is read and written again with the same data") {
  const TensorFile file = open_tensor_file(NARROW_DATA "/torch/step300.safetensors");
  REQUIRE(!file.tensors.empty());
  const test::Folder folder;
  TensorWriter writer(folder / "again.safetensors", {file.tensors.begin(), file.tensors.end()}, file.metadata);
  std::uint64_t values = 0, finite = 0;
  for (const Tensor& tensor : file.tensors) {
    std::vector<float> piece(tensor.values());
    read_values(tensor, 0, std::span(piece));
    values += piece.size();
    for (const float value : piece) finite += std::isfinite(value);
    writer.write(tensor.source->mapped());
  }
  writer.finish();
  MESSAGE(file.tensors.size() << " tensors, " << values << " values, " << finite << " of them finite");
  CHECK(finite == values);
  const TensorFile again = open_tensor_file(folder / "again.safetensors");
  REQUIRE(again.tensors.size() == file.tensors.size());
  CHECK(again.metadata == file.metadata);
  for (std::size_t i = 0; i < file.tensors.size(); ++i) {
    CHECK(again.tensors[i].name == file.tensors[i].name);
    CHECK(again.tensors[i].shape == file.tensors[i].shape);
    CHECK(std::ranges::equal(again.tensors[i].source->mapped(), file.tensors[i].source->mapped()));
  }
}

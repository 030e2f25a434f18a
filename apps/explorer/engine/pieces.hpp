// Where a tensor lies in a file of the page, so that JavaScript can hand over its bytes as they stream in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "narrow/tensor/tensor.hpp"

namespace app {

struct FilePlace {
  std::string path;
  std::uint64_t begin;
};
// Empty where the bytes are not those of the file in their order, or are members of an archive.
std::optional<FilePlace> place_in_file(const narrow::ByteSource& source);

}  // namespace app

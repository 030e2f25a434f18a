// The bytes that a gzip stream holds, whole in memory. Does not read files.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace narrow::train {

// Throws Error: no gzip, damaged, cut off, or more than `limit` bytes; and where the library was built without zlib.
std::vector<std::byte> gunzip(std::span<const std::byte> compressed, std::size_t limit, const std::string& name);

}  // namespace narrow::train

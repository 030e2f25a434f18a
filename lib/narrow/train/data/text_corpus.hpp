// The bytes that the language model learns: the project's own text (data/text), or a file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace narrow::train {

// path empty: the text that travels with the library. Throws Error when the file cannot be read or is too large.
std::vector<std::uint8_t> read_corpus(const std::string& path = {});

}  // namespace narrow::train

// The JSON of a .safetensors header: its grammar and its limits, not how its numbers fit the file.
#pragma once

#include <string_view>

#include "narrow/tensor/safetensors.hpp"

namespace narrow {

// Entries in the order of the text; first_byte is where the text begins in its file.
SafetensorsHeader parse_safetensors_json(std::string_view json, std::uint64_t first_byte);

// The header that a writer puts before the data: length, JSON, spaces up to a multiple of 8. Throws Error for names and
// sizes that the reader would refuse.
std::string safetensors_header_text(std::span<const TensorHeader> headers,
                                    std::span<const std::pair<std::string, std::string>> metadata);

}  // namespace narrow

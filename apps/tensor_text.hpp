// Tensors for people: shapes, sizes, names from files, counts with their share.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace app {

std::string shape_text(std::span<const std::uint64_t> shape);     // "[64, 256]"; "[]" is a scalar
std::string size_text(std::uint64_t bytes);                       // "2.58 MiB"
std::string share_text(double share);                             // "1.23%"; never 0 or 100 for what is not
std::string count_text(std::uint64_t part, std::uint64_t whole);  // "12345 (1.23%)"; "0"

// Text from a file as it may stand in a table: control characters as \xNN, so that no file can move the cursor.
std::string printable(std::string_view text);

std::string csv_field(std::string_view text);  // in quotes where it must be

}  // namespace app

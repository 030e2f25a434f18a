// Tensors for people: shapes, sizes, names from files, counts with their share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "narrow/tensor/block_tensor.hpp"
#include "narrow/tensor/file_text.hpp"
#include "narrow/text/quote.hpp"

namespace app {

using narrow::shape_text;
std::string size_text(std::uint64_t bytes);                       // "2.58 MiB"
std::string share_text(double share);                             // "1.23%"; never 0 or 100 for what is not
std::string count_text(std::uint64_t part, std::uint64_t whole);  // "12345 (1.23%)"; "0"
std::string many(std::uint64_t n, const char* what);              // "1 scale", "2 scales"
// Lines about what quantising did not keep; "" where it kept all.
std::string not_kept_text(const narrow::NotKept& lost, const std::string& format);

// Text from a file as it may stand in a table: no file can move the cursor or turn the order of the words.
inline std::string printable(std::string_view text) { return narrow::visible(text); }

}  // namespace app

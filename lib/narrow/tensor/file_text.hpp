// Words from files in messages: names, shapes, and whether bytes are text at all.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace narrow {

inline constexpr std::string_view torch_advice =
    "a PyTorch pickle, which can run code when it is read; save tensors instead: "
    "safetensors.torch.save_file(state_dict, 'model.safetensors')";

std::string quote_path(std::string_view path);  // 'path' in full and visible()
// All of a file (of NAME.gz what gzip made it of), or of standard input where "-" may mean that. Error: a folder, a
// device, more than `longest_text`, a read that fails, which a stream takes for the end, damaged compression.
inline constexpr std::size_t longest_text = std::size_t{1} << 28;
enum class Dash { is_a_file, is_standard_input };
std::string read_text(const std::string& path, Dash dash = Dash::is_a_file);
// Each line that ends in a newline, without it, and its number from 1: of a log whose writer may have died in the last
// line, in memory that does not grow with the file. Error as above, and for a line of more than `longest_line`.
inline constexpr std::size_t longest_line = std::size_t{1} << 20;
void for_each_line(const std::string& path, const std::function<void(std::string_view, std::uint64_t)>& each);
std::string shape_text(std::span<const std::uint64_t> shape);  // [3, 4]; [] is a scalar; cut when very long
bool file_exists(const std::string& path);
bool is_utf8(std::string_view text);                           // without surrogates and overlong forms
bool looks_like_text(std::string_view beginning);              // printable ASCII, blanks and UTF-8 only

}  // namespace narrow

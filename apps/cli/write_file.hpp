// Whole files: what was there before stays until the new content is complete.
#pragma once

#include <string>
#include <string_view>

namespace app {

// Writes a temporary file beside `path` and renames it. Throws narrow::Error that names the file and the reason.
void write_file(const std::string& path, std::string_view content);

}  // namespace app

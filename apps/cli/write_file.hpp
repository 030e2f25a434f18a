// Whole files: what was there before stays until the new content is complete.
#pragma once

#include <string>
#include <string_view>

namespace app {

// Writes a temporary file beside `path` and renames it. Throws narrow::Error that names the file and the reason.
void write_file(const std::string& path, std::string_view content);

// A file that is ready to be written.
struct ReadyFile {
  std::string path;
  std::string content;
};

// Makes the folder of -o where it is not there. Throws narrow::Error before any work when nothing can be written into it.
void make_folder(const std::string& path);

}  // namespace app

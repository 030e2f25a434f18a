#include "cli/write_file.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "cli/crew.hpp"
#include "narrow/base/error.hpp"
#include "narrow/tensor/new_file.hpp"
#include "narrow/text/quote.hpp"

namespace app {

void write_file(const std::string& path, std::string_view content) {
  if (!writes()) return;
  narrow::NewFile file(path);
  file.write(content);
  file.finish();
}

void make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (std::error_code unknown; !std::filesystem::is_directory(path, unknown))
    throw narrow::Error("-o " + narrow::quote(path) + ": no folder can be made there (" +
                        (error ? error.message() : std::string("a file has this name")) + "); name another folder");
  if (access(path.c_str(), W_OK | X_OK) != 0)
    throw narrow::Error("-o " + narrow::quote(path) + ": the folder cannot be written (" + std::strerror(errno) +
                        "); name another folder");
}

}  // namespace app

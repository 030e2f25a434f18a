// The files that somebody gives to the explorer: which they are, and what each is called there.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "explorer/serve.hpp"

namespace app {

struct NamedFile {
  std::string name;  // as much of the end of its path as tells it from the others; printable
  std::unique_ptr<const ServedFile> file;
};

// Files, and folders: that of a watched run gives its logs, any other the tensor files in it. Throws narrow::Error for
// what is neither, cannot be read, or holds none.
std::vector<NamedFile> open_files(const std::vector<std::string>& paths);

}  // namespace app

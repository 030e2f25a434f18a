#include "cli/write_file.hpp"

#include "narrow/tensor/new_file.hpp"

namespace app {

void write_file(const std::string& path, std::string_view content) {
  narrow::NewFile file(path);
  file.write(content);
  file.finish();
}

}  // namespace app

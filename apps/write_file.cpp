#include "write_file.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "narrow/base/error.hpp"

namespace app {

void write_file(const std::string& path, std::string_view content) {
  const std::string temporary = path + ".tmp" + std::to_string(getpid());
  const auto fail = [&](int reason) {
    std::remove(temporary.c_str());
    throw narrow::Error("cannot write '" + path + "': " + std::strerror(reason) +
                        "; give a file in a folder that exists and can be written");
  };
  if (path.empty()) throw narrow::Error("cannot write a file without a name; give one, for example card.html");
  errno = 0;
  std::FILE* file = std::fopen(temporary.c_str(), "wb");
  if (file == nullptr) fail(errno);
  const bool written = std::fwrite(content.data(), 1, content.size(), file) == content.size();
  const int write_errno = errno;
  if (std::fclose(file) != 0 || !written) fail(written ? errno : write_errno);
  if (std::rename(temporary.c_str(), path.c_str()) != 0) fail(errno);
}

}  // namespace app

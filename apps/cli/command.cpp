#include "cli/command.hpp"

#include <algorithm>

namespace app {

std::vector<std::string> paragraphs_of(std::string_view about) {
  std::vector<std::string> list;
  while (!about.empty()) {
    const std::size_t end = std::min(about.find("\n\n"), about.size());
    list.emplace_back(about.substr(0, end));
    about.remove_prefix(std::min(about.size(), end + 2));
  }
  return list;
}

std::vector<std::string> Argument::names() const {
  std::vector<std::string> list;
  for (std::size_t begin = 0; begin <= flags.size();) {
    const std::size_t end = std::min(flags.find(',', begin), flags.size());
    list.push_back(flags.substr(begin, end - begin));
    begin = end + 1;
  }
  return list;
}

const Argument* Definition::find(std::string_view flag) const {
  for (const Argument& a : arguments)
    if (a.values == nullptr && std::ranges::count(a.names(), flag) > 0) return &a;
  return nullptr;
}

const Argument* Definition::positional() const {
  for (const Argument& a : arguments)
    if (a.values != nullptr) return &a;
  return nullptr;
}

}  // namespace app

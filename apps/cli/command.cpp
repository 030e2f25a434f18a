#include "cli/command.hpp"

#include <algorithm>


namespace app {

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

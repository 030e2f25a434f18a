// A locale of another country for a test, made in a folder of its own (LOCPATH) from what Debian's package locales has.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace test {

// The numbers and letters of a country, without the order of its words, which takes seconds to make.
inline bool make_locale(const std::string& folder, const std::string& name) {
  const std::string made = folder + "/" + name + ".UTF-8", source = made + ".source";
  std::ofstream text(source);
  for (const std::string part : {"CTYPE", "NUMERIC", "MONETARY", "TIME", "MESSAGES", "COLLATE"})
    text << "LC_" << part << "\ncopy \"" << (part == "COLLATE" ? "POSIX" : name) << "\"\nEND LC_" << part << "\n";
  text.close();
  return std::system(("localedef -c -i " + source + " -f UTF-8 " + made + " > /dev/null 2>&1").c_str()) != -1 &&
         std::filesystem::exists(made + "/LC_NUMERIC");
}

}  // namespace test

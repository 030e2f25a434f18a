// Which words may stand where the cursor is. A shell asks, the program answers: the words are those of its own tables,
// files and definitions, so that there is no second list of them.
#pragma once

#include <string>
#include <vector>

namespace app {

struct Candidate {
  std::string word;
  std::string help = {};  // one line, or ""
};

struct Completion {
  std::vector<Candidate> candidates;
  bool files = false;  // the shell's own names of files as well
};

// The words of the line up to the cursor, the program's name first; the last one is being written, and may be "".
Completion complete_words(const std::vector<std::string>& words);

}  // namespace app

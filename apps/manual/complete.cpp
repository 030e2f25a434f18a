// narrow complete: the words that may come next, and the few lines by which a shell asks for them.
#include <memory>

#include "cli/command.hpp"
#include "cli/json_value.hpp"
#include "cli/terminal.hpp"
#include "manual/completion.hpp"
#include "narrow/text/quote.hpp"

namespace app {
namespace of_complete {

struct Options {
  std::vector<std::string> words;
  bool json = false;
};

// The program answers in lines: a word after a plus, what it means after a blank; ":files" before them asks the shell
// for names of files too. bash takes those where there are no words: what it quotes as names of files it expands
// before, and a word may hold what a stranger's file is made of. bash takes a line apart at : and =, and inserts words
// as they are: the line is read again as a whole, what is before the cursor's part is cut off again, and each word is
// quoted.
constexpr const char* bash_script = R"(# bash completion of narrow
_narrow() {
  local line="${COMP_LINE:0:COMP_POINT}" part="${COMP_WORDS[COMP_CWORD]}" word before files=
  local -a words
  read -a words <<<"$line"
  [[ $line == *[[:space:]] ]] && words+=("")
  [[ $part == [:=] ]] && part=
  read part <<<"$part"
  before="${words[${#words[@]}-1]}"
  before="${before%"$part"}"
  COMPREPLY=()
  while IFS= read -r word; do
    if [[ $word == :files ]]; then files=1; fi
    [[ $word == +* ]] || continue
    word="${word#+}"
    [[ $word == *= ]] && compopt -o nospace 2>/dev/null
    word="${word#"$before"}"
    [[ $word == *[!A-Za-z0-9_./,:=+@%^-]* ]] && printf -v word %q "$word"
    COMPREPLY+=("$word")
  done < <("$1" complete -- "${words[@]}" 2>/dev/null)
  if [[ -n $files && ${#COMPREPLY[@]} -eq 0 ]]; then
    compopt -o filenames 2>/dev/null
    while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "$part")
  fi
}
complete -F _narrow narrow narrow-mpi
)";

constexpr const char* zsh_script = R"(#compdef narrow narrow-mpi
_narrow() {
  local line files=
  local -a open plain shown
  while IFS= read -r line; do
    case $line in
      :files) files=1 ;;
      +*=) open+=("${line#+}") ;;
      +*) plain+=("${line#+}"); shown+=("${line#+}") ;;
      ' '*) (( $#shown )) && shown[-1]+="  -- ${line# }" ;;
    esac
  done < <("$words[1]" complete -- "${(@Q)words[1,CURRENT]}" 2>/dev/null)
  (( $#open )) && compadd -S '' -a open
  (( $#plain )) && compadd -l -d shown -a plain
  [[ -n $files ]] && { compset -P '*='; _files }
}
if [[ $funcstack[1] == _narrow ]]; then _narrow "$@"; else compdef _narrow narrow narrow-mpi; fi
)";

constexpr const char* fish_script = R"(# fish completion of narrow
function __narrow_words
    set -l program (commandline -opc)[1]
    set -l word
    for line in ($program complete -- (commandline -opc) (commandline -ct) 2>/dev/null)
        switch $line
            case :files
                __fish_complete_path (commandline -ct)
            case '+*'
                test -n "$word"; and printf '%s\n' $word
                set word (string sub -s 2 -- $line)
            case ' *'
                test -n "$word"; and printf '%s\t%s\n' $word (string sub -s 2 -- $line)
                set word
        end
    end
    test -n "$word"; and printf '%s\n' $word
end
complete -c narrow -f -a '(__narrow_words)'
complete -c narrow-mpi -f -a '(__narrow_words)'
)";

struct Shell {
  std::string_view name;
  const char* script;
};
constexpr Shell shells[] = {{"bash", bash_script}, {"zsh", zsh_script}, {"fish", fish_script}};

int run(const Options& options) {
  if (options.words.size() == 1)
    for (const Shell& shell : shells)
      if (options.words[0] == shell.name)
        return print(options.json ? json_text({{"shell", shell.name}, {"script", shell.script}}) : shell.script), 0;
  if (options.words.size() < 2) {
    const std::string what = options.words.empty() ? "no shell" : narrow::quote(options.words[0]) + " is no shell";
    throw narrow::Error("complete: " + what +
                        " that is known; it is bash, zsh or fish, or the words of a line after --");
  }
  const Completion found = complete_words(options.words);
  if (options.json) {
    Json list = Json::array();
    for (const Candidate& c : found.candidates) list.push_back({{"word", c.word}, {"help", c.help}});
    print(json_text({{"candidates", list}, {"files", found.files}}));
    return 0;
  }
  if (found.files) print(":files\n");
  for (const Candidate& c : found.candidates) print("+" + c.word + (c.help.empty() ? "" : "\n " + c.help) + "\n");
  return 0;
}

Action declare(Arguments& arguments) {
  const auto options = std::make_shared<Options>();
  arguments.values("SHELL", options->words,
                   "whose script is printed: bash, zsh or fish; or, after --, the words of a line up to the cursor");
  arguments.flag("--json", options->json, "print JSON: the words that may come next, and whether files may");
  return [options] { return run(*options); };
}

}  // namespace of_complete

const Command complete_command{
    "complete",
    "the script by which a shell completes commands, options, formats, models, experiments and tensor names",
    "narrow complete bash", of_complete::declare,
    "An installed program completes already, where the shell looks for what was installed. Else: source <(narrow "
    "complete bash) in ~/.bashrc, the same with zsh in ~/.zshrc, narrow complete fish | source in fish's config.\n\n"
    "The script asks the program itself at every Tab: narrow complete -- narrow stats g.safetensors --tensors gr "
    "prints each word after a plus, what it means in the next line after a blank, and :files first where the name of "
    "a file may stand."};

}  // namespace app

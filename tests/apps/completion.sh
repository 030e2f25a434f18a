#!/usr/bin/env bash
# What a shell makes of the words that the program offers, as somebody who presses Tab sees it.
# Usage: completion.sh NARROW STEP300.safetensors HOSTILE.safetensors (a tensor named 'w$(touch broken)' in it)
# bash's function is called with what bash would tell it, fish completes by itself where it is installed, of zsh the script is read;
# completion_terminal.py presses Tab.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ln -s "$1" "$work/narrow" && cp "$2" "$work/step300.safetensors" && cp "$3" "$work/hostile.safetensors"
PATH=$work:$PATH HOME=$work
cd "$work" || exit 1
failed=0

# bash takes a line apart at blanks, : and = before a completion sees it.
in_bash() {
  local line=$1 word= c
  COMP_WORDS=()
  for ((i = 0; i < ${#line}; ++i)); do
    c=${line:i:1}
    case $c in
      ' ') [[ -n $word ]] && COMP_WORDS+=("$word"); word= ;;
      [:=]) [[ -n $word ]] && COMP_WORDS+=("$word"); COMP_WORDS+=("$c"); word= ;;
      *) word+=$c ;;
    esac
  done
  if [[ -n $word || $line == *' ' ]]; then COMP_WORDS+=("$word"); fi
  COMP_LINE=$line COMP_POINT=${#line} COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  _narrow narrow
  printf '%s\n' "${COMPREPLY[@]}"
}

# check SHELL LINE WORD: the word is among those that the line may end in.
check() {
  local said
  said=$("in_$1" "$2")
  grep -qxF -- "$3" <<<"$said" || { echo "$1: after '$2' there is no '$3' in: $(tr '\n' ' ' <<<"$said")"; failed=1; }
}

# only SHELL LINE PATTERN: nothing but what begins so is offered.
only() {
  local said
  said=$("in_$1" "$2" | grep -v "^$3")
  [[ -z $said ]] || { echo "$1: after '$2' there is: $said"; failed=1; }
}

source <(narrow complete bash)
check bash 'narrow sta' stats
check bash 'narrow stats --for' --formats
check bash 'narrow stats --formats fp16,e4' fp16,e4m3
check bash 'narrow stats --formats=fp16,e4' fp16,e4m3
check bash 'narrow cast a b --to mxfp8' mxfp8_e4m3
check bash 'narrow stats step300.safetensors --tensors grad.head' grad.head.weight
check bash 'narrow compare step300.safetensors:grad.head' grad.head.weight
check bash 'narrow run gradient_underflow run=fp16-amp-no' fp16-amp-noscale
check bash 'narrow inspect step3' step300.safetensors
check bash 'narrow stats hostile.safetensors --tensors w' 'w\\\$\\\(touch\ broken\\\)'
# Where names of files may stand as well, a tensor's is quoted all the same, and none of a file comes beside it.
check bash 'narrow inspect hostile.safetensors:w' 'w\$\(touch\ broken\)'
only bash 'narrow compare step300.safetensors:' '[agw]'
check bash 'narrow stats ~/step300.safetensors --tensors grad.head' grad.head.weight
said=$(in_bash 'narrow stats hostile.safetensors --tensors ')
[[ $said != *$'\e'* ]] || { echo "bash: a name brings an escape along"; failed=1; }

if command -v fish >/dev/null; then
  in_fish() { HOME=$work fish -c "narrow complete fish | source; complete -C '$1'" | cut -f 1; }
  check fish 'narrow sta' stats
  check fish 'narrow stats --formats fp16,e4' fp16,e4m3
  check fish 'narrow stats step300.safetensors --tensors grad.head' grad.head.weight
  check fish 'narrow run gradient_underflow run=fp16-amp-no' run=fp16-amp-noscale
  check fish 'narrow inspect step3' step300.safetensors
else
  echo "fish is not installed: its script was not tried"
fi
if command -v zsh >/dev/null; then
  narrow complete zsh >_narrow && zsh -n _narrow || { echo "zsh: its script is no program"; failed=1; }
fi
[[ ! -e broken ]] || { echo "a name was run as a command"; failed=1; }
exit $failed

#!/usr/bin/env bash
# Every header compiles when it is the only one.
# Usage: headers_alone.sh <compiler> <lib> <generated lib> [system folder..]
set -euo pipefail
compiler=$1 lib=$2 generated=$3
shift 3
flags=(-std=c++20 -Wall -Wextra -Werror -ffp-contract=off -fsyntax-only -DFMT_HEADER_ONLY=1 -DNARROW_LANES=alone
       -I"$lib" -I"$generated")
for folder in "$@"; do
  # /usr/include is there anyway, and naming it would put it before the compiler's own headers.
  if [ -d "$folder" ] && [ "$folder" != /usr/include ]; then flags+=(-isystem "$folder"); fi
done

export compiler
alone() {
  printf '#include "%s"\n' "$1" | "$compiler" "${@:2}" -x c++ - || { echo "does not compile alone: $1" >&2; return 1; }
}
export -f alone
# The parts that need a device are compiled where one is.
headers=$(cd "$lib" && find narrow -name '*.hpp' -not -path 'narrow/cuda/*' | sort)
printf '%s\n' "$headers" | xargs -P "$(nproc)" -I{} bash -c 'alone "$@"' _ {} "${flags[@]}"
echo "$(printf '%s\n' "$headers" | wc -l) headers compile alone"

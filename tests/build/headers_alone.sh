#!/usr/bin/env bash
# Every header compiles when it is the only one. One whose own source includes it first has proved that already.
# Usage: headers_alone.sh <compiler> <lib> <generated lib> [system folder..]
set -euo pipefail
compiler=$1 lib=$2 generated=$3
shift 3
flags=(-std=c++20 -Wall -Wextra -Werror -ffp-contract=off -fsyntax-only -DFMT_HEADER_ONLY=1 -I"$lib" -I"$generated")
for folder in "$@"; do
  # /usr/include is there anyway, and naming it would put it before the compiler's own headers.
  if [ -d "$folder" ] && [ "$folder" != /usr/include ]; then flags+=(-isystem "$folder"); fi
done

# Whether the first include of the source of that name is the header.
is_first_of_its_source() {
  local source="$lib/${1%.hpp}.cpp"
  [ -f "$source" ] && [ "$(grep -m1 '^#include' "$source")" = "#include \"$1\"" ]
}

failed=0 count=0 proved=0
while read -r header; do
  if is_first_of_its_source "$header"; then
    proved=$((proved + 1))
    continue
  fi
  count=$((count + 1))
  printf '#include "%s"\n' "$header" | "$compiler" "${flags[@]}" -x c++ - || {
    echo "does not compile alone: $header" >&2
    failed=$((failed + 1))
  }
  # The parts that need a device or a drawing library are compiled where those are.
done < <(cd "$lib" && find narrow -name '*.hpp' -not -path 'narrow/cuda/*' -not -path 'narrow/plot/*' | sort)
echo "$count headers, $failed do not compile alone; $proved more are the first include of their own source"
[ "$count" -gt 0 ] && [ "$failed" -eq 0 ]

#!/bin/sh
# Does the device code compile for every GPU that it is written for? Needs nvcc, no GPU and no cuBLAS. Files with
# instructions of single architectures come first; what the time allows is compiled, and said.
# Usage: .ci/cuda_architectures.sh [SECONDS, default 120; 0: all of it] [FOLDER of the built lib/, for version.hpp]
# Exit status: 0 what was tried compiles, 1 something does not, 77 there is no nvcc.
set -eu
cd "$(dirname "$0")/.."
limit=${1:-120}
built=${2:-build/release/lib}
architectures="80 86 89 90a 100 120"
files=$(cd lib/narrow/cuda && ls mma*.cu wgmma*.cu && ls *.cu | grep -v -e mma -e product -e bench)
for nvcc in nvcc "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc"; do command -v "$nvcc" >/dev/null 2>&1 && break; done
command -v "$nvcc" >/dev/null 2>&1 || { echo "skipped: no nvcc on PATH, in CUDA_HOME or in /usr/local/cuda"; exit 77; }
"$nvcc" --version | tail -1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
begin=$(date +%s)
export nvcc work built limit begin
for file in $files; do
  file=${file%.cu}
  for architecture in $architectures; do echo "$file $architecture"; done
done | xargs -P "$(nproc 2>/dev/null || echo 2)" -L 1 sh -c '
  [ "$limit" -eq 0 ] || [ $(($(date +%s) - begin)) -lt "$limit" ] || exit 0
  "$nvcc" -std=c++20 -O1 --expt-relaxed-constexpr --fmad=false --diag-suppress=177 -Ilib -I"$built" -cubin \
    -gencode "arch=compute_$1,code=sm_$1" -o "$work/$0.$1.cubin" "lib/narrow/cuda/$0.cu" >"$work/$0.$1.log" 2>&1 &&
    echo "$0" >>"$work/done.$1" || { echo "$0 for $1:"; head -5 "$work/$0.$1.log"; echo "$0 $1" >>"$work/failed"; }'
for architecture in $architectures; do
  echo "sm_$architecture: $(sort "$work/done.$architecture" 2>/dev/null | tr '\n' ' ')"
done
echo "$(($(date +%s) - begin)) s; not compiled here: what the time did not allow, and product and bench (cuBLAS)"
[ ! -e "$work/failed" ]

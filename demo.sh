#!/usr/bin/env bash
# Installs what is missing, builds the program (no tests, no CUDA), and runs the main job: every experiment, one page.
# Usage: ./demo.sh [--fast | --full], default --fast. Can be repeated.
set -euo pipefail
cd "$(dirname "$0")"
. .ci/setup.sh
effort=${1:---fast}
case "$effort" in
  --fast | --full) ;;
  *) echo "usage: ./demo.sh [--fast | --full]" >&2; exit 2 ;;
esac
build=build/demo
narrow=$build/apps/narrow

install_missing
say "configure"
cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=Release -DNARROW_TESTS=OFF -DNARROW_CUDA=OFF -DNARROW_UNITY=ON
say "build"
cmake --build $build --target narrow_app -j "$(build_jobs)"

say "one number in four formats"
"$narrow" show 1e-7 --formats fp16,bf16,e4m3,e5m2
say "465 in e4m3: PyTorch and CUDA do not agree"
"$narrow" show 465 --formats e4m3 --cast torch
"$narrow" show 465 --formats e4m3 --cast cuda

say "the experiments ($effort)"
"$narrow" formats --card -o $build/formats.html
status=0
"$narrow" report -o $build/report "$effort" || status=$?

say "done"
echo "the program:         $PWD/$narrow --help"
echo "the reference card:  $PWD/$build/formats.html"
echo "the page:            $PWD/$build/report/index.html"
exit $status

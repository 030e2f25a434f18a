#!/usr/bin/env bash
# Installs what is missing, builds the program, and shows what it does. Can be repeated.
set -euo pipefail
cd "$(dirname "$0")"
. .ci/setup.sh

install_missing
say "configure"
cmake --preset release
say "build"
cmake --build --preset release --target narrow_app -j "$(build_jobs)"
narrow=build/release/apps/narrow

show() { say "narrow $*"; "$narrow" "$@"; }

show formats
show show 0.1
show show 1e-7 65520 --formats fp16,bf16,e4m3,e5m2
say "465 in e4m3: PyTorch and CUDA do not agree"
"$narrow" show 465 --formats e4m3 --cast torch
"$narrow" show 465 --formats e4m3 --cast cuda
show show 0x7BFF 0x0001 --from fp16 --formats fp16,e5m2,e4m3,e2m1
"$narrow" formats --card -o build/formats.html

say "done"
echo "the program:         $narrow --help"
echo "the reference card:  build/formats.html"

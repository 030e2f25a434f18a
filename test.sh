#!/usr/bin/env bash
# Installs what is missing, builds, and runs the tests. Can be repeated. Usage: ./test.sh [preset, default release]
set -euo pipefail
cd "$(dirname "$0")"
. .ci/setup.sh
preset=${1:-release}

install_missing
say "configure ($preset)"
cmake --preset "$preset"
say "build"
cmake --build --preset "$preset" -j "$(build_jobs)"
say "test"
ctest --preset "$preset" -j "$(build_jobs)"

#!/usr/bin/env bash
# Installs what is missing, builds, and runs the tests. Can be repeated.
# Usage: ./test.sh [--all] [preset]     preset: release, or dev, asan, tsan, exhaustive, soak, cuda
#   --all   what CI runs: installs the packages of the optional parts first, builds them, and runs the slow tests as well
set -euo pipefail
cd "$(dirname "$0")"
. .ci/setup.sh
needed_packages="$needed_packages $test_packages"
options=()
tests=(-LE slow)
cuda=no
all=no
if [ "${1:-}" = --all ]; then
  shift
  all=yes
  needed_packages="$needed_packages $optional_packages"
  tests=()
  options+=(-DNARROW_MATPLOT=ON -DPython3_EXECUTABLE=/usr/bin/python3)
  # Its sources, where they lie beside the project; else CMake fetches them.
  if [ -e ../shared/matplotplusplus.tar.xz ]; then
    mkdir -p build
    tar -xf ../shared/matplotplusplus.tar.xz -C build
    options+=("-DFETCHCONTENT_SOURCE_DIR_MATPLOTPLUSPLUS=$PWD/build/matplotplusplus")
  fi
  options+=(-DNARROW_PYTHON=ON "-DPython_EXECUTABLE=$PWD/build/venv/bin/python")
  # The kernels are compiled by the test cuda_architectures wherever there is nvcc; all of it needs cuBLASLt as well.
  if ls "${CUDA_HOME:-/usr/local/cuda}"/lib64/libcublasLt.so >/dev/null 2>&1; then cuda=yes; fi
fi
preset=${1:-release}
if [ $# -gt 1 ] || [[ " release dev asan tsan exhaustive soak cuda " != *" $preset "* ]]; then
  echo "usage: ./test.sh [--all] [release|dev|asan|tsan|exhaustive|soak|cuda]" >&2
  exit 2
fi

install_missing
if [ "$all" = yes ]; then
  say "Python: build/venv"
  [ -e build/venv/bin/python ] || python3 -m venv build/venv
  pip=(build/venv/bin/python -m pip install --quiet --disable-pip-version-check)
  # What the configuration asks for; the rest takes more than a minute and comes while the compiler works.
  "${pip[@]}" $(grep -E '^(nanobind|scikit-build-core|numpy|pytest|hypothesis)==' tests/python/requirements.txt)
  "${pip[@]}" -r tests/python/requirements.txt &
  packages=$!
fi
say "configure ($preset)"
cmake --preset "$preset" "${options[@]}"
say "build"
cmake --build --preset "$preset" -j "$(build_jobs)"
if [ "$all" = yes ]; then
  say "build: the explorer"
  cmake --build --preset "$preset" --target explorer
fi
if [ "$all" = yes ]; then wait "$packages"; fi
say "test"
ctest --preset "$preset" -j "$(build_jobs)" "${tests[@]}"
if [ "$all" = yes ]; then
  say "Python: the wheel, installed and tested"
  rm -rf build/wheels
  build/venv/bin/python -m pip wheel --quiet --no-build-isolation --no-deps -w build/wheels -C build-dir="build/$preset" \
    -C cmake.define.NARROW_TESTS=ON -C cmake.define.NARROW_NOTEBOOKS=ON .
  # It links what every Linux of this age has; the tag of a wheel that links more is "linux_...".
  build/venv/bin/python -m auditwheel show build/wheels/*.whl 2>&1 | tr '\n' ' ' >build/wheels/audit.txt
  grep -o 'platform tag: "manylinux_[a-z0-9_]*"' build/wheels/audit.txt || { cat build/wheels/audit.txt; exit 1; }
  build/venv/bin/python -m pip install --quiet --force-reinstall --no-deps build/wheels/*.whl
  pytest=(venv/bin/python -m pytest -q -p no:cacheprovider --rootdir .. --ignore ../tests/python/test_torch_trainer.py ../tests/python)
  # With an older numpy as well: beside the first, for a test of Python keeps one core busy.
  older=no
  if build/venv/bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all: --no-deps --upgrade --target build/numpy1 \
    numpy==1.26.4; then
    older=yes
    (cd build && PYTHONPATH=numpy1 exec "${pytest[@]}") >build/numpy1.txt 2>&1 &
    older_tests=$!
  fi
  (cd build && "${pytest[@]}")
  say "Python: with numpy 1.26"
  if [ "$older" = yes ]; then
    wait "$older_tests" || { cat build/numpy1.txt; exit 1; }
    tail -n 1 build/numpy1.txt
  else
    echo "skipped: no numpy 1.26 for $(build/venv/bin/python --version)"
  fi
fi
if [ "$cuda" = yes ]; then
  say "CUDA: compiled; \"narrow gpu check\" runs it where there is a GPU"
  cmake --preset cuda
  cmake --build --preset cuda -j "$(build_jobs)" --target narrow_app cuda_tests
fi

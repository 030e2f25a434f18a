# Sourced by test.sh and demo.sh: what both need before CMake can start. Installs the Debian packages
# that are missing, and says so; does nothing when all are there.

say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
[ -t 1 ] && [ -z "${NO_COLOR:-}" ] || say() { printf '\n== %s\n' "$*"; }

# package=file that proves it is there, so that a package of another name or version (libboost1.81-dev,
# a compiler that is not g++-12) is accepted as well.
needed_packages="
  g++=bin:g++
  cmake=bin:cmake
  ninja-build=bin:ninja
  libeigen3-dev=include:eigen3/Eigen/Core
  libcli11-dev=include:CLI/CLI.hpp
  nlohmann-json3-dev=include:nlohmann/json.hpp
  zlib1g-dev=include:zlib.h
  gnuplot-nox=bin:gnuplot
"

# What the tests need beside that: the oracle, second opinions, other languages' numbers.
test_packages="
  libboost-dev=include:boost/multiprecision/cpp_int.hpp
  doctest-dev=include:doctest/doctest.h
  libfmt-dev=include:fmt/format.h
  libmpfr-dev=include:mpfr.h
  python3-numpy=path:/usr/lib/python3/dist-packages/numpy
  locales=path:/usr/share/i18n/locales/tr_TR
"

# What the optional parts need: libFuzzer for the fuzz targets, nbformat for the notebooks, Doxygen for the reference, MPI, the
# other architecture's compiler with an emulator for its lanes, WebAssembly's for that one's and for the explorer, a browser,
# and what a virtual environment of Python is made of.
optional_packages="
  clang-19=bin:clang++-19
  lld-19=bin:wasm-ld-19
  libclang-rt-19-dev-wasm32=path:/usr/lib/llvm-19/lib/clang/19/lib/wasi/libclang_rt.builtins-wasm32.a
  libc++-19-dev-wasm32=include:wasm32-wasi/c++/v1
  wasi-libc=include:wasm32-wasi/stdio.h
  nodejs=bin:node
  chromium=bin:chromium
  clang=bin:clang++
  libclang-rt-dev=fuzzer:clang++
  python3-nbformat=path:/usr/lib/python3/dist-packages/nbformat
  doxygen=bin:doxygen
  libopenmpi-dev=bin:mpicxx
  openmpi-bin=bin:mpirun
  python3-venv=python:ensurepip
  python3-dev=python:header
"
case "$(uname -m)" in
  aarch64) optional_packages="$optional_packages g++-x86-64-linux-gnu=bin:x86_64-linux-gnu-g++ qemu-user=bin:qemu-x86_64" ;;
  x86_64) optional_packages="$optional_packages g++-aarch64-linux-gnu=bin:aarch64-linux-gnu-g++ qemu-user=bin:qemu-aarch64" ;;
esac

# libFuzzer beside a clang: its file is named by the machine, or lies in a folder of the machine's.
has_fuzzer() {
  local folder
  command -v "$1" >/dev/null 2>&1 || return 1
  folder=$("$1" -print-runtime-dir 2>/dev/null) || return 1
  [ -e "$folder/libclang_rt.fuzzer-$(uname -m).a" ] || [ -e "$folder/libclang_rt.fuzzer.a" ]
}

is_there() {
  case "$1" in
    path:*) [ -e "${1#path:}" ] ;;
    python:header) [ -e "$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" ] ;;
    python:*) python3 -c "import ${1#python:}" 2>/dev/null ;;
    bin:*) command -v "${1#bin:}" >/dev/null 2>&1 ;;
    fuzzer:*) has_fuzzer "${1#fuzzer:}" ;;
    include:*) [ -e "/usr/include/${1#include:}" ] || [ -e "/usr/local/include/${1#include:}" ] ;;
  esac
}

missing_packages() {
  local entry
  for entry in $needed_packages; do is_there "${entry#*=}" || printf '%s ' "${entry%%=*}"; done
}

install_missing() {
  local missing run_as_root=""
  missing=$(missing_packages)
  [ -z "$missing" ] && return 0
  say "installing: $missing"
  if ! command -v apt-get >/dev/null 2>&1; then
    echo "no apt-get here; install these (Debian's names), then run this again: $missing" >&2
    return 1
  fi
  if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then run_as_root="sudo"
    elif command -v sudo >/dev/null 2>&1 && [ -t 0 ]; then run_as_root="sudo"
    else
      echo "not root and no sudo; ask an administrator to run: apt-get install --no-install-recommends $missing" >&2
      return 1
    fi
  fi
  # shellcheck disable=SC2086
  $run_as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq &&
    $run_as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null || {
    echo "apt-get could not install: $missing" >&2
    return 1
  }
  missing=$(missing_packages)
  [ -z "$missing" ] || { echo "still missing after apt-get: $missing" >&2; return 1; }
}

build_jobs() { nproc 2>/dev/null || echo 2; }
